// Time: the fleet, and why a server was where it was, after any entry that the journal still holds.
import { atMost, el, link, note, panel, select, table, title } from '../dom.js';
import { amount, percent, t, time, whole } from '../texts.js';
import { call, has } from '../api.js';
import { FleetData, fleet } from '../fleet_data.js';
import { DARK, PALETTE, byName, colouring, fleetPicture, groupings, groupsBy, legend, theme } from '../fleet_picture.js';
import { UUID, decided, findServers } from './why.js';

const ROWS_MAX = 200;
const RETRY_MS = 1000;

const at = (moment) => (moment.at ? time(moment.at) : t('timeNoTime'));

export function timePage(main, query) {
  const chosen = { ...query };
  let isLeft = false;
  let held = null;
  let past = new FleetData();
  let shown = null; // The entry after which the fleet is shown.
  let groups = [];
  let colours = colouring(chosen.by ?? 'VCPU');
  let levels = fleet.levels;

  // The address leads to what is shown; the page is not made anew, so that the slider keeps the focus.
  const remember = (change) => {
    Object.assign(chosen, change);
    history.replaceState(null, '', link('time', chosen));
  };

  const status = el('p', { role: 'status', id: 'then' }, t('loading'));
  const problem = el('div', { id: 'problem' });
  const heldText = el('p', { class: 'faint', id: 'held' });
  const slider = el('input', { type: 'range', id: 'slider', step: 1, min: 0, max: 0, value: 0, disabled: true });
  const number = el('input', { type: 'number', id: 'entry', step: 1, size: 12, disabled: true });
  const newest = el('button', { type: 'button', id: 'newest' }, t('timeNewest'));
  const legendList = el('ul', { class: 'legend', id: 'legend' });
  const chosenHost = el('p', { role: 'status', id: 'chosen-host' });
  const controls = el('div', { class: 'controls' });
  const sums = el('div', { id: 'sums' });
  const tables = el('div', { class: 'stack' });
  const answer = el('div', { class: 'stack', id: 'why-then' });
  const by = () => chosen.by ?? 'VCPU';
  const group = () => chosen.group ?? fleet.levels[0]?.name ?? 'cell';
  const amounts = (host) => host.shape.map(([name, capacity], index) => `${name} ${amount(name, host.used[index] ?? 0)} / ${amount(name, capacity)}`).join(', ');

  const { map, tiles } = fleetPicture(
    (host) => {
      tiles.mark(host.slot);
      chosenHost.replaceChildren(`${host.host}: ${amounts(host)}. ${whole(host.count)} ${t('consumers').toLowerCase()}.`);
    },
    (host, name) => ({ value: colours.value(host), lines: [name, `${by()}: ${colours.value(host)}`] }));

  const classes = () => [...new Set(past.values.shapes.flatMap((shape) => shape.map(([name]) => name)))];
  let controlsKey = '';
  const showControls = () => {
    const names = classes();
    const key = JSON.stringify([names, groupings()]);
    if (key === controlsKey) return;
    controlsKey = key;
    const update = (change) => {
      remember(change);
      draw();
    };
    controls.replaceChildren(
      select(t('groupBy'), group(), groupings(), (value) => update({ group: value })),
      select(t('colourBy'), by(), [...names.map((name) => [name, name]), ['state', t('condition')], ['count', t('count')]], (value) => update({ by: value })));
  };

  const showTables = () => {
    const isClass = !['state', 'count'].includes(by());
    const name = isClass ? by() : 'VCPU';
    const hosts = groups.flatMap(([, list]) => list);
    const sum = (list) => fleet.totals(list).find((total) => total.name === name) ?? { used: 0, capacity: 0 };
    const rows = groups.map(([text, list]) => ({ text, list, total: sum(list) }));
    const open = tables.querySelector('details')?.open ?? false;
    tables.replaceChildren(el('details', { open, id: 'tables' }, el('summary', {}, t('table')),
      table(t('group'), [[t('group'), (row) => row.text], [t('hosts'), (row) => whole(row.list.length), 'n'], [`${name}: ${t('used')}`, (row) => amount(name, row.total.used), 'n'], [t('capacityCol'), (row) => amount(name, row.total.capacity), 'n'], [t('share'), (row) => percent(row.total.used / row.total.capacity), 'n']], rows),
      el('h2', {}, t('hosts')),
      table(t('hosts'), [[t('hostName'), (host) => host.host], [t('state'), (host) => t(`condition${host.condition}`)], [t('cell'), (host) => host.cell?.[1] || host.cell?.[0] || '–'], [t('zone'), (host) => host.zone ?? '–'], [t('used'), amounts, 'long'], [t('consumers'), (host) => whole(host.count), 'n']], hosts.slice(0, ROWS_MAX)),
      hosts.length > ROWS_MAX && el('p', { class: 'faint' }, t('more', { number: whole(hosts.length - ROWS_MAX) }))));
  };

  const showSums = () => {
    const now = new Map(fleet.totals().map((total) => [total.name, total]));
    const then = new Map(fleet.totals(past.hosts.values()).map((total) => [total.name, total]));
    const names = [...new Set([...then.keys(), ...now.keys()])];
    const cell = (sumsOf, key) => (name) => (sumsOf.has(name) ? amount(name, sumsOf.get(name)[key]) : '–');
    sums.replaceChildren(table(t('timeSums'), [[t('class'), (name) => name], [t('usedThen'), cell(then, 'used'), 'n'], [t('usedNow'), cell(now, 'used'), 'n'], [t('capacityThen'), cell(then, 'capacity'), 'n'], [t('capacityNow'), cell(now, 'capacity'), 'n']], names));
  };

  const draw = () => {
    if (!shown) return;
    showControls();
    colours = colouring(by());
    const hosts = [...past.hosts.values()].sort(byName);
    groups = groupsBy(hosts, group());
    tiles.show(groups, colours.colour, PALETTE[theme()]);
    legendList.replaceChildren(...legend(by(), hosts).filter(Boolean));
    showTables();
    showSums();
  };

  // Asks until it is this page's turn: one state of the past is rebuilt at a time. `null` if the page was left or
  // another entry was chosen meanwhile.
  async function ask(path, isWanted) {
    while (!isLeft && isWanted()) {
      try {
        return await call(path);
      } catch (error) {
        if (!error.mayRetry) throw error;
        status.replaceChildren(t('timeAgain', { why: error.message }));
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
    return null;
  }

  const fail = (error) => {
    status.replaceChildren();
    problem.replaceChildren(note(t('failed', { why: error.message }), 'bad'));
  };

  let wanted = null; // `{sequence}`: a new object for each wish, also when only the server is another one.
  let isAsking = false;
  // Shows the state after the entry that is wanted. While one is loaded, only the last wish of the user is kept.
  async function load() {
    if (isAsking) return;
    isAsking = true;
    try {
      while (!isLeft && wanted !== null) {
        const wish = wanted;
        const { sequence } = wish;
        const isWanted = () => wanted === wish;
        status.replaceChildren(t('loading'));
        problem.replaceChildren();
        try {
          const found = await ask(`past/${sequence}/fleet`, isWanted);
          if (!isWanted() || !found) continue;
          past = new FleetData();
          past.apply(found.fleet);
          shown = found;
          draw();
          slider.setAttribute('aria-valuetext', `${sequence}, ${at(found)}`);
          status.replaceChildren(t('timeThen', { sequence, at: at(found) }), ` ${t('timeHosts', { number: whole(past.hosts.size) })}.`);
          await why(sequence, isWanted);
        } catch (error) {
          if (isWanted()) fail(error);
        }
        if (isWanted()) wanted = null;
      }
    } finally {
      isAsking = false;
    }
  }

  const go = (sequence) => {
    remember({ at: String(sequence) });
    slider.value = sequence;
    number.value = sequence;
    slider.setAttribute('aria-valuetext', String(sequence));
    wanted = { sequence };
    load();
  };

  async function why(sequence, isWanted) {
    const text = chosen.server ?? '';
    if (text === '') return answer.replaceChildren();
    answer.replaceChildren(el('p', { class: 'faint' }, t('loading')));
    try {
      const servers = UUID.test(text) ? [{ id: text, name: text }] : has('compute') ? await findServers(text) : [];
      if (servers.length === 0) return answer.replaceChildren(note(t('noServer'), 'warn'));
      if (servers.length > 1) return answer.replaceChildren(el('p', {}, t('severalFound')), el('ul', {}, servers.map((server) => el('li', {}, el('a', { href: link('time', { ...chosen, server: server.id }) }, `${server.name} ${server.id}`)))));
      const found = await ask(`past/${sequence}/decisions/${servers[0].id}`, isWanted);
      if (!found) return;
      const place = found.host ? t('onThen', { host: found.host.host ?? found.host.provider }) : t(found.waiting ? 'waitingThen' : 'nowhereThen');
      answer.replaceChildren(panel(t('timeAnswer', { server: servers[0].name, sequence }),
        el('p', {}, place),
        found.fault && note(found.fault.message, 'bad'),
        ...(found.decisions.length ? found.decisions.map(decided) : [el('p', { class: 'faint' }, t('noDecision'))])));
    } catch (error) {
      answer.replaceChildren(note(error.status === 404 ? error.message : t('failed', { why: error.message }), 'warn'));
    }
  }

  async function readHeld() {
    held = await call('past');
    const { oldest, newest: last } = held;
    for (const input of [slider, number]) {
      input.min = oldest.sequence;
      input.max = last.sequence;
      input.disabled = false;
    }
    heldText.replaceChildren(t('timeHeld', { oldest: oldest.sequence, from: at(oldest), newest: last.sequence, to: at(last) }));
  }

  const guarded = (work) => work.catch(fail);
  slider.addEventListener('input', () => { number.value = slider.value; });
  slider.addEventListener('change', () => go(Number(slider.value)));
  number.addEventListener('change', () => { if (number.reportValidity() && number.value !== '') go(Number(number.value)); });
  newest.addEventListener('click', () => guarded(readHeld().then(() => go(held.newest.sequence))));

  const form = el('form', {
    class: 'row', id: 'server-form', onsubmit: (event) => {
      event.preventDefault();
      remember({ server: form.elements.server.value.trim() });
      if (shown) go(shown.sequence);
    },
  }, el('label', {}, t('timeServer'), el('input', { name: 'server', value: chosen.server ?? '', size: 38 })), el('button', { class: 'main', type: 'submit' }, t('ask')));

  main.replaceChildren(el('div', { class: 'fleet' }, title(t('time'), status),
    panel(t('timeWhen'),
      el('label', {}, t('timeEntry'), slider),
      el('div', { class: 'controls' }, el('label', {}, t('timeNumber'), number), newest),
      heldText, problem, el('p', { class: 'faint' }, t('timeNote'))),
    controls,
    el('div', {}, map, legendList), chosenHost, tables,
    panel(t('timeSums'), sums), panel(t('timeWhy'), form), answer));
  tiles.resize();
  globalThis.placewrightTiles = tiles; // For tests, as on the page Fleet.
  guarded(readHeld().then(() => {
    const asked = /^\d+$/.test(chosen.at ?? '') ? Number(chosen.at) : held.newest.sequence;
    go(asked);
  }));
  const sumsLater = atMost(1000, () => shown && showSums());
  // The levels of the topology may be read after this page was opened; the sums of now change by themselves.
  const stop = fleet.subscribe(() => {
    if (levels !== fleet.levels) {
      levels = fleet.levels;
      draw();
    } else sumsLater();
  });
  DARK.addEventListener('change', draw);
  return () => {
    isLeft = true;
    stop();
    sumsLater.end();
    tiles.end();
    DARK.removeEventListener('change', draw);
  };
}
