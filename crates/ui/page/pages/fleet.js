// Fleet: every host a tile.
import { atMost, dot, el, link, select, table, title } from '../dom.js';
import { amount, percent, t, whole } from '../texts.js';
import { UP, fleet } from '../fleet_data.js';
import { Tiles } from '../tiles.js';
import { hostDetails } from './host.js';

const ROWS_MAX = 200;
const CONDITIONS = [0, 1, 2, 3, 4];
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

export function groupTexts(by) {
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

function filterOf(query) {
  const text = (query.q ?? '').toLowerCase();
  return (host) =>
    (!query.state || host.condition === Number(query.state)) &&
    (!query.trait || host.traits.includes(query.trait)) &&
    (!query.agg || host.aggregates.includes(query.agg)) &&
    (!text || host.host.toLowerCase().includes(text) || host.node.toLowerCase().includes(text) || host.uuid.includes(text));
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

function choices(by, values, none) {
  return [['', none], ...[...values].sort().map((value) => (Array.isArray(value) ? value : [value, value]))];
}

export function fleetPage(main, query) {
  const by = query.by ?? 'VCPU';
  const update = (change) => {
    const next = { ...query, ...change };
    location.replace(link('fleet', next));
  };
  const canvas = el('canvas', { tabindex: '0', role: 'img', 'aria-label': t('mapHelp') });
  const hoverBox = el('div', { class: 'hover', hidden: true });
  const map = el('div', { class: 'map' }, canvas, hoverBox);
  const shownText = el('p', { role: 'status', id: 'shown' });
  const legendList = el('ul', { class: 'legend', id: 'legend' });
  const tables = el('div', { class: 'stack' });
  const controls = el('div', { class: 'controls' });
  const details = el('div', { class: 'stack' });
  const split = el('div', { class: `split ${query.host ? 'open' : ''}` });
  let colours = colouring(by);
  let structure = -1;
  let shown = [];
  const tiles = new Tiles(canvas, {
    choose: (host) => location.assign(link('fleet', { ...query, host: host.uuid })),
    hover: (found, x, y) => {
      hoverBox.hidden = !found;
      if (!found) return;
      const [host, group] = found;
      hoverBox.replaceChildren(el('strong', {}, host.host), el('br'), `${group} · ${t(`condition${host.condition}`)}`, el('br'), `${by}: ${colours.value(host)}`, el('br'), `${whole(host.count)} ${t('consumers').toLowerCase()}`);
      const { width, height } = tiles.size();
      hoverBox.style.left = `${Math.max(4, Math.min(x + 14, width - 210))}px`;
      hoverBox.style.top = `${Math.max(4, Math.min(y + 14, height - 96))}px`;
      canvas.setAttribute('aria-label', t('mapAt', { host: host.host, group, value: colours.value(host) }));
    },
  });

  const classes = () => [...new Set(fleet.values.shapes.flatMap((shape) => shape.map(([name]) => name)))];
  const rebuild = () => {
    structure = fleet.structure;
    const defaultGroup = fleet.levels[0]?.name ?? 'cell';
    const group = query.group ?? defaultGroup;
    const search = el('input', { type: 'search', value: query.q ?? '', id: 'search', onchange: (event) => update({ q: event.target.value }) });
    const traits = new Set(fleet.values.traits.flat());
    const aggregates = new Set(fleet.values.aggregates.flat());
    const hadFocus = document.activeElement?.id;
    controls.replaceChildren(
      select(t('groupBy'), group, groupings(), (value) => update({ group: value })),
      select(t('colourBy'), by, [...classes().map((name) => [name, name]), ['state', t('condition')], ['age', t('age')], ['count', t('count')]], (value) => update({ by: value })),
      select(t('condition'), query.state ?? '', [['', t('all')], ...CONDITIONS.map((condition) => [String(condition), t(`condition${condition}`)])], (value) => update({ state: value })),
      select(t('trait'), query.trait ?? '', choices('trait', traits, t('all')), (value) => update({ trait: value })),
      select(t('aggregate'), query.agg ?? '', [['', t('all')], ...[...aggregates].map((uuid) => [uuid, fleet.nameOf(uuid)]).sort((a, b) => a[1].localeCompare(b[1], 'en', { numeric: true }))], (value) => update({ agg: value })),
      el('label', {}, t('search'), search),
      el('button', { type: 'button', id: 'zoom-in', onclick: () => tiles.zoom(1.5) }, t('zoomIn')),
      el('button', { type: 'button', id: 'zoom-out', onclick: () => tiles.zoom(1 / 1.5) }, t('zoomOut')),
      el('button', { type: 'button', id: 'zoom-all', onclick: () => { tiles.fit(); tiles.draw(); } }, t('zoomAll')));
    if (hadFocus === 'search') document.getElementById('search')?.focus();
    shown = [...fleet.hosts.values()].filter(filterOf(query)).sort((a, b) => (a.host < b.host ? -1 : a.host > b.host ? 1 : a.slot - b.slot));
    const groups = groupsBy(shown, group);
    tiles.show(groups, colours.colour, PALETTE[theme()]);
    const chosen = query.host && fleet.byUuid.get(query.host);
    if (chosen) tiles.mark(chosen.slot);
    shownText.replaceChildren(t('shown', { shown: whole(shown.length), all: whole(fleet.hosts.size) }));
    return groups;
  };
  let groups = [];
  const refreshTables = () => {
    legendList.replaceChildren(...legend(by, shown).filter(Boolean));
    const isClass = !['state', 'age', 'count'].includes(by);
    const name = isClass ? by : 'VCPU';
    const open = tables.querySelector('details')?.open ?? false;
    if (!open && tables.firstChild) return;
    const sum = (hosts) => fleet.totals(hosts).find((total) => total.name === name) ?? { used: 0, capacity: 0 };
    const rows = groups.map(([group, hosts]) => ({ group, hosts, total: sum(hosts), up: hosts.filter((host) => host.condition === UP).length }));
    const list = el('details', { open, id: 'tables', ontoggle: (event) => event.target.open && event.target.children.length < 2 && refreshTables() }, el('summary', {}, t('table')));
    if (open) {
      list.append(
        table(t('group'), [[t('group'), (row) => row.group], [t('hosts'), (row) => whole(row.hosts.length), 'n'], [t('hostsUp'), (row) => whole(row.up), 'n'], [`${name}: ${t('used')}`, (row) => amount(name, row.total.used), 'n'], [t('capacityCol'), (row) => amount(name, row.total.capacity), 'n'], [t('share'), (row) => percent(row.total.used / row.total.capacity), 'n']], rows),
        el('h2', {}, t('hosts')),
        table(t('hosts'), [[t('hostName'), (host) => el('a', { href: link('fleet', { ...query, host: host.uuid }) }, host.host)], [t('state'), (host) => t(`condition${host.condition}`)], [by, (host) => colours.value(host), 'n'], [t('consumers'), (host) => whole(host.count), 'n']], shown.slice(0, ROWS_MAX)),
        shown.length > ROWS_MAX && el('p', { class: 'faint' }, t('more', { number: whole(shown.length - ROWS_MAX) })));
    }
    tables.replaceChildren(list);
  };

  split.append(el('div', { class: 'stack' }, el('div', {}, map, legendList), tables), query.host ? details : '');
  main.replaceChildren(el('div', { class: 'fleet' }, title(t('fleet'), shownText), controls, split));
  tiles.resize();
  groups = rebuild();
  refreshTables();
  globalThis.placewrightTiles = tiles; // For tests and measurements: how many frames were drawn, and when.
  const refreshLater = atMost(1000, refreshTables);
  // With a filter by condition, hosts come and go as their condition changes.
  const isShown = filterOf(query);
  const comesOrGoes = (slot) => {
    const host = fleet.hosts.get(slot);
    return host && isShown(host) !== tiles.at.has(slot);
  };
  const stop = fleet.subscribe((changed) => {
    if (fleet.structure !== structure || (query.state && [...changed].some(comesOrGoes))) groups = rebuild();
    else tiles.change(changed);
    refreshLater();
  });
  const recolour = () => {
    colours = colouring(by);
    groups = rebuild();
  };
  DARK.addEventListener('change', recolour);
  let leaveDetails = () => {};
  if (query.host) leaveDetails = hostDetails(details, query.host, el('a', { href: link('fleet', { ...query, host: '' }), id: 'close' }, t('close')));
  return () => {
    stop();
    refreshLater.end();
    tiles.end();
    leaveDetails();
    DARK.removeEventListener('change', recolour);
  };
}
