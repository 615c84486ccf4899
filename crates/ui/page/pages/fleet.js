// Fleet: every host a tile.
import { atMost, el, link, select, table, title } from '../dom.js';
import { amount, percent, t, whole } from '../texts.js';
import { UP, fleet } from '../fleet_data.js';
import { CONDITIONS, DARK, PALETTE, byName, colouring, fleetPicture, groupings, groupsBy, legend, theme } from '../fleet_picture.js';
import { hostDetails } from './host.js';

const ROWS_MAX = 200;
function filterOf(query) {
  const text = (query.q ?? '').toLowerCase();
  return (host) =>
    (!query.state || host.condition === Number(query.state)) &&
    (!query.trait || host.traits.includes(query.trait)) &&
    (!query.agg || host.aggregates.includes(query.agg)) &&
    (!text || host.host.toLowerCase().includes(text) || host.node.toLowerCase().includes(text) || host.uuid.includes(text));
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
  const shownText = el('p', { role: 'status', id: 'shown' });
  const legendList = el('ul', { class: 'legend', id: 'legend' });
  const tables = el('div', { class: 'stack' });
  const controls = el('div', { class: 'controls' });
  const details = el('div', { class: 'stack' });
  const split = el('div', { class: `split ${query.host ? 'open' : ''}` });
  let colours = colouring(by);
  let structure = -1;
  let shownHosts = 0; // How many hosts the page knew when the picture was made.
  let shown = [];
  const { map, tiles } = fleetPicture(
    (host) => location.assign(link('fleet', { ...query, host: host.uuid })),
    (host, group) => ({
      value: colours.value(host),
      lines: [`${group} · ${t(`condition${host.condition}`)}`, `${by}: ${colours.value(host)}`, `${whole(host.count)} ${t('consumers').toLowerCase()}`],
    }));

  const classes = () => [...new Set(fleet.values.shapes.flatMap((shape) => shape.map(([name]) => name)))];
  const rebuild = () => {
    structure = fleet.structure;
    shownHosts = fleet.hosts.size;
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
    shown = [...fleet.hosts.values()].filter(filterOf(query)).sort(byName);
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
    // While the hosts arrive, the whole picture is made each time that there are twice as many, and once at the end.
    if (!fleet.isComplete && fleet.hosts.size < 2 * shownHosts) return;
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
