// Capacity: how many more of each flavor fit, where the free room lies, and when it is full.
import { atMost, chart, el, link, note, panel, select, table, title } from '../dom.js';
import { amount, duration, fine, percent, t, time, whole } from '../texts.js';
import { compute, has, howManyFit, session } from '../api.js';
import { fleet } from '../fleet_data.js';
import { groupings, groupsBy } from '../fleet_picture.js';
import { asRequest } from './why.js';

// Why no more of a flavor fit: the class of which the least would be left over all hosts that are up.
function binding(flavor) {
  const wanted = { VCPU: flavor.vcpus, MEMORY_MB: flavor.ram, DISK_GB: flavor.disk };
  let worst = null;
  for (const total of fleet.totals([...fleet.hosts.values()].filter((host) => host.condition === 0))) {
    if (!wanted[total.name]) continue;
    const rest = (total.capacity - total.used) / wanted[total.name];
    if (!worst || rest < worst.rest) worst = { name: total.name, rest };
  }
  return worst?.name ?? '–';
}

const COUNT_AGAIN_MS = 10000;

// Counts again and again, as long as the page is open: a tenth of the time at most.
async function headroom(place, leaving) {
  let counted = null;
  while (!leaving()) {
    if (counted !== fleet.place) {
      counted = fleet.place;
      const begun = performance.now();
      try {
        await count(place, leaving);
      } catch (error) {
        counted = null;
        place.replaceChildren(note(t('failed', { why: error.message }), 'bad'));
      }
      await pause(Math.max(COUNT_AGAIN_MS, 9 * (performance.now() - begun)));
    } else {
      await pause(1000);
    }
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function count(place, leaving) {
  const { flavors } = await compute('/flavors/detail?limit=1000&is_public=none').catch(() => compute('/flavors/detail?limit=1000'));
  const rows = flavors.map((flavor) => ({ flavor, fits: el('span', {}, t('fitsCounting')) }));
  const isFirst = place.querySelector('table') === null;
  const show = () => place.replaceChildren(el('p', { class: 'faint' }, t('countedAt', { time: time(new Date().toISOString()) })), table(t('headroom'), [
    [t('flavor'), ({ flavor }) => el('a', { href: link('why', { flavor: flavor.id }) }, flavor.name)],
    [t('vcpus'), ({ flavor }) => whole(flavor.vcpus), 'n'], [t('ram'), ({ flavor }) => whole(flavor.ram), 'n'], [t('disk'), ({ flavor }) => whole(flavor.disk), 'n'],
    [t('fits'), (row) => row.fits, 'n'], [t('binds'), ({ flavor }) => binding(flavor)],
  ], rows, t('noFlavors')));
  // Later counts are shown when they are whole.
  if (isFirst) show();
  for (const { flavor, fits } of rows) {
    if (leaving()) return;
    const { project_id: _, user_id: __, ...request } = asRequest(flavor);
    const answer = await howManyFit(request).catch((error) => ({ error }));
    fits.replaceChildren(answer.error ? answer.error.message : `${whole(answer.count)}${answer.more ? '+' : ''}`);
  }
  if (leaving()) return;
  const focused = place.contains(document.activeElement) && document.activeElement.getAttribute('href');
  show();
  if (focused) [...place.querySelectorAll('a')].find((other) => other.getAttribute('href') === focused)?.focus();
}

function forecast(points) {
  if (points.length < 3) return '';
  const [from, to] = [points[0], points.at(-1)];
  const rate = (to[1] - from[1]) / (to[0] - from[0]);
  if (rate <= 1e-12) return t('notFilling');
  return t('full', { time: duration((1 - to[1]) / rate) });
}

export function capacity(main, query) {
  const by = query.group ?? fleet.levels[0]?.name ?? 'cell';
  const room = el('div', {}, t('loading'));
  const groups = el('div', {});
  const spread = el('div', {});
  const history = el('div', { class: 'grid' });
  const controls = el('div', { class: 'controls' });
  main.replaceChildren(title(t('capacity')), el('div', { class: 'grid' },
    el('section', { class: 'panel wide' }, el('h2', {}, t('headroom')), room),
    el('section', { class: 'panel wide' }, el('h2', {}, t('byGroup')), controls, groups),
    el('section', { class: 'panel wide' }, el('h2', {}, t('spread')), spread),
    el('section', { class: 'panel wide' }, el('h2', {}, t('history')), el('p', { class: 'faint' }, t('historyNote')), history)));
  let isOver = false;
  if (session.may.capacity && has('compute')) headroom(room, () => isOver);
  else room.replaceChildren(t('notAllowed'));
  let known = -1;
  const draw = () => {
    const totals = fleet.totals();
    const classes = totals.map((total) => total.name).slice(0, 8);
    if (known !== fleet.structure) {
      known = fleet.structure;
      controls.replaceChildren(select(t('groupBy'), by, groupings(), (value) => location.replace(link('capacity', { group: value }))));
    }
    const rows = groupsBy(fleet.hosts.values(), by).map(([group, hosts]) => ({ group, hosts: hosts.length, totals: new Map(fleet.totals(hosts).map((total) => [total.name, total])) }));
    groups.replaceChildren(table(t('byGroup'), [
      [t('group'), (row) => row.group], [t('hosts'), (row) => whole(row.hosts), 'n'],
      ...classes.map((name) => [name, (row) => {
        const total = row.totals.get(name);
        return total ? `${amount(name, total.capacity - total.used)} / ${amount(name, total.capacity)}` : '–';
      }, 'n']),
    ], rows.slice(0, 300)));
    spread.replaceChildren(table(t('spread'), [
      [t('class'), (total) => total.name], [t('free'), (total) => amount(total.name, total.capacity - total.used), 'n'],
      [t('largestFree'), (total) => amount(total.name, total.largestFree), 'n'],
      [t('overcommit'), (total) => (total.physical > 0 ? `${fine(total.capacity / total.physical)}×` : '–'), 'n'],
    ], totals));
    history.replaceChildren(...classes.slice(0, 4).map((name) => {
      const points = fleet.history.map(({ at, totals: then }) => [at, then.find((total) => total.name === name)]).filter(([, total]) => total?.capacity > 0).map(([at, total]) => [at, total.used / total.capacity]);
      const last = points.at(-1)?.[1] ?? 0;
      return el('div', {}, el('h3', {}, `${name}: ${percent(last)}`), chart(points, `${name}: ${percent(last)}`), el('p', { class: 'faint' }, forecast(points)));
    }));
  };
  draw();
  const redraw = atMost(2000, draw);
  const stop = fleet.subscribe(redraw);
  return () => {
    isOver = true;
    stop();
    redraw.end();
  };
}
