// The picture of the fleet that the pages Fleet and Time share: its groups, colours, legend, and the box beside the pointer.
import { dot, el } from './dom.js';
import { amount, percent, t, whole } from './texts.js';
import { UP, fleet } from './fleet_data.js';
import { Tiles } from './tiles.js';

export const CONDITIONS = [0, 1, 2, 3, 4];
const AGES = [0, 1, 2, 3, 4];
export const DARK = matchMedia('(prefers-color-scheme: dark)');
// By use: from next to nothing to full. What is not up has a colour of its own in every picture.
const SCALE = {
  light: [[231, 237, 243], [185, 211, 232], [127, 178, 216], [63, 134, 189], [20, 90, 145], [10, 47, 87]],
  dark: [[37, 48, 59], [38, 74, 104], [47, 109, 156], [71, 150, 204], [134, 195, 234], [216, 238, 251]],
};
const STATES = { light: [[59, 130, 184], [230, 159, 0], [213, 94, 0], [204, 121, 167], [138, 143, 152]], dark: [[79, 158, 214], [230, 159, 0], [213, 94, 0], [204, 121, 167], [138, 143, 152]] };
export const PALETTE = {
  light: { back: [255, 255, 255], text: [24, 34, 45], flash: [255, 200, 60], chosen: [190, 60, 0] },
  dark: { back: [24, 32, 41], text: [228, 234, 240], flash: [255, 220, 120], chosen: [255, 176, 84] },
};

export const theme = () => (DARK.matches ? 'dark' : 'light');
const step = (share) => (share < 0.05 ? 0 : share < 0.25 ? 1 : share < 0.5 ? 2 : share < 0.75 ? 3 : share < 0.95 ? 4 : 5);
const STEPS = ['< 5 %', '5–25 %', '25–50 %', '50–75 %', '75–95 %', '≥ 95 %'];

function groupTexts(by) {
  const missing = { cell: t('noCell'), zone: t('noZone') };
  return { together: t('together'), noCell: t('noCell'), noZone: t('noZone'), none: missing[by] ?? t('noGroup', { level: by }) };
}

// What hosts can be grouped by, the levels of the topology among them.
export function groupings() {
  const levels = fleet.levels.map(({ name }) => [name, name]);
  return [['none', t('none')], ['cell', t('cell')], ['zone', t('zone')], ...levels, ['aggregate', t('aggregate')]];
}

export function groupsBy(hosts, by) {
  const groups = new Map();
  const texts = groupTexts(by);
  for (const host of hosts) {
    const name = fleet.groupOf(host, by, texts);
    const group = groups.get(name);
    if (group) group.push(host);
    else groups.set(name, [host]);
  }
  return [...groups].sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }));
}

// How a host is coloured: the class of its legend, the colour, and the value in words.
export function colouring(by) {
  const [scale, states] = [SCALE[theme()], STATES[theme()]];
  const down = (host) => (host.condition === UP || host.condition === 4 ? null : states[host.condition]);
  if (by === 'state') return { colour: (host) => states[host.condition], value: (host) => t(`condition${host.condition}`) };
  if (by === 'age') return { colour: (host) => scale[host.age], value: (host) => t(`age${host.age}`) };
  if (by === 'count') return { colour: (host) => down(host) ?? scale[Math.min(5, Math.ceil(Math.log2(1 + host.count)))], value: (host) => whole(host.count) };
  return {
    colour: (host) => {
      const share = fleet.share(host, by);
      return down(host) ?? (Number.isNaN(share) ? states[4] : scale[step(share)]);
    },
    value: (host) => {
      const index = host.shape.findIndex(([name]) => name === by);
      return index < 0 ? '–' : `${percent(fleet.share(host, by))} (${amount(by, host.used[index] ?? 0)} / ${amount(by, host.shape[index][1])})`;
    },
  };
}

export function legend(by, hosts) {
  const counts = new Map();
  const add = (key) => counts.set(key, (counts.get(key) ?? 0) + 1);
  const states = ['c0', 'c1', 'c2', 'c3', 'c4'];
  const entry = (key, colour, text) => counts.has(key) && el('li', {}, dot(colour), `${text}: ${whole(counts.get(key))}`);
  if (by === 'state') {
    hosts.forEach((host) => add(host.condition));
    return CONDITIONS.map((condition) => entry(condition, states[condition], t(`condition${condition}`)));
  }
  if (by === 'age') {
    hosts.forEach((host) => add(host.age));
    return AGES.map((age) => entry(age, `s${age}`, t(`age${age}`)));
  }
  const key = (host) => {
    if (host.condition !== UP && host.condition !== 4) return `c${host.condition}`;
    if (by === 'count') return `s${Math.min(5, Math.ceil(Math.log2(1 + host.count)))}`;
    const share = fleet.share(host, by);
    return Number.isNaN(share) ? 'c4' : `s${step(share)}`;
  };
  hosts.forEach((host) => add(key(host)));
  const names = by === 'count' ? ['0', '1', '2–3', '4–7', '8–15', '≥ 16'] : STEPS;
  return [...names.map((name, index) => entry(`s${index}`, `s${index}`, name)), ...CONDITIONS.slice(1).map((condition) => entry(`c${condition}`, states[condition], condition === 4 ? '–' : t(`condition${condition}`)))];
}

// In the order in which lists and pictures have the hosts.
export const byName = (a, b) => (a.host < b.host ? -1 : a.host > b.host ? 1 : a.slot - b.slot);

// The picture with its box beside the pointer. `choose` takes the host that is chosen, `describe` the host and the name of
// its group, and returns `{value, lines}`: what it is coloured by, and the further lines of the box.
export function fleetPicture(choose, describe) {
  const canvas = el('canvas', { tabindex: '0', role: 'img', 'aria-label': t('mapHelp') });
  const box = el('div', { class: 'hover', hidden: true });
  // Tiles observe the size of what contains the canvas.
  const map = el('div', { class: 'map' }, canvas, box);
  const tiles = new Tiles(canvas, {
    choose,
    hover: (found, x, y) => {
      box.hidden = !found;
      if (!found) return;
      const [host, group] = found;
      const { value, lines } = describe(host, group);
      box.replaceChildren(el('strong', {}, host.host), ...lines.flatMap((line) => [el('br'), line]));
      const { width, height } = tiles.size();
      box.style.left = `${Math.max(4, Math.min(x + 14, width - 210))}px`;
      box.style.top = `${Math.max(4, Math.min(y + 14, height - 96))}px`;
      canvas.setAttribute('aria-label', t('mapAt', { host: host.host, group, value }));
    },
  });
  return { map, tiles };
}
