// Which groups of hosts (racks, zones, cells) could have taken a server when its host was chosen, and why others could not.
import { el, link, note, table } from '../dom.js';
import { t, whole } from '../texts.js';
import { call } from '../api.js';
import { FleetData, UP, fleet } from '../fleet_data.js';
import { byName, groupings, groupsBy } from '../fleet_picture.js';

const ROWS_MAX = 100;
const RETRY_MS = 1000;

// The hosts of a group with this name, and what it is: a cell, a zone, a place of a level, or an aggregate.
export function groupNamed(name) {
  const hosts = [...fleet.hosts.values()];
  if (hosts.some(({ host, node, uuid }) => [host, node, uuid].includes(name))) return null;
  for (const [by] of [...groupings()].reverse()) {
    const members = by !== 'none' && groupsBy(hosts, by).find(([group]) => group === name)?.[1];
    if (members) return { by, name, hosts: members.sort(byName) };
  }
  return null;
}

// What a server of a size needs of its host: amounts by class, and traits.
function needsOf({ vcpus, memory_mb, root_gb, ephemeral_gb, swap_mb, extra_specs }) {
  const amounts = new Map([['VCPU', vcpus], ['MEMORY_MB', memory_mb], ['DISK_GB', root_gb + ephemeral_gb + Math.ceil(swap_mb / 1024)]]);
  const traits = [];
  for (const [key, value] of Object.entries(extra_specs)) {
    const [kind, name] = key.split(':');
    if (kind === 'resources') amounts.set(name, Number(value) || 0);
    if (kind === 'trait') traits.push([name, value === 'required']);
  }
  return { amounts: [...amounts].filter(([, wanted]) => wanted > 0), traits };
}

// Why a host could not take it, as far as the page knows; `null` if nothing is known against it.
function obstacle(host, needs) {
  if (host.condition !== UP && host.condition !== 4) return t(`condition${host.condition}`);
  for (const [name, wanted] of needs.amounts) {
    const index = host.shape.findIndex(([other]) => other === name);
    if (index < 0 || host.shape[index][1] - (host.used[index] ?? 0) < wanted) return t('lacksRoom', { class: name });
  }
  const wrong = needs.traits.find(([name, isRequired]) => host.traits.includes(name) !== isRequired);
  return wrong ? t(wrong[1] ? 'lacksTrait' : 'hasTrait', { trait: wrong[0] }) : null;
}

// The hosts after the entry of the journal that the decision was based on. One state of the past is rebuilt at a time, so
// this waits for its turn as long as its place is shown.
async function hostsThen(sequence, place) {
  for (;;) {
    try {
      const past = new FleetData();
      past.apply((await call(`past/${sequence}/fleet`)).fleet);
      return [...past.hosts.values()];
    } catch (error) {
      if (!error.mayRetry || !place.isConnected) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

function summary(by, hosts, needs, decision) {
  const ranks = new Map((decision.search?.ranking ?? []).map(({ provider }, index) => [provider, index + 1]));
  return groupsBy(hosts, by).map(([name, members]) => {
    const obstacles = members.map((host) => obstacle(host, needs));
    const counts = new Map();
    for (const text of obstacles) if (text) counts.set(text, (counts.get(text) ?? 0) + 1);
    const could = obstacles.filter((text) => text === null).length;
    const rank = Math.min(...members.map(({ uuid }) => ranks.get(uuid) ?? Infinity));
    const words = [...counts].map(([text, number]) => t(number === members.length ? 'allHostsWith' : 'hostsWith', { number: whole(number), what: text }));
    const isChosen = members.some(({ uuid }) => uuid === decision.provider);
    if (could > 0 && !isChosen) words.push(t('rankedLower', { number: whole(could) }));
    return { name, members, obstacles, could, rank, words, isChosen };
  });
}

// The button that asks, and its answer. `wanted` are groups that the user has named: their hosts are listed one by one.
export function groupsThen(size, decision, wanted) {
  const by = wanted[0]?.by ?? fleet.levels[0]?.name ?? (fleet.values.zones.length > 1 ? 'zone' : 'cell');
  // A level of the topology has a name of its own, which is no text of this page.
  const level = fleet.levels.some(({ name }) => name === by) ? by : t(by).toLowerCase();
  const answer = el('div', { class: 'stack', id: 'groups-then', role: 'status' });
  const button = el('button', { type: 'button', id: 'ask-groups' }, t('groupsAsk', { level }));
  const show = async () => {
    button.disabled = true;
    answer.replaceChildren(el('p', { class: 'faint' }, t('loading')));
    const sequence = decision.search?.sequence;
    let [hosts, caption, missing] = [null, t('groupsThen', { level, sequence }), null];
    try {
      if (sequence === undefined) throw new Error(t('notKept'));
      hosts = await hostsThen(sequence, answer);
    } catch (error) {
      [hosts, caption, missing] = [[...fleet.hosts.values()], t('groupsNow', { level }), note(t('groupsNoThen', { why: error.message }), 'warn')];
    }
    const needs = needsOf(size);
    const names = new Set(wanted.map(({ name }) => name));
    const rows = summary(by, hosts, needs, decision).filter(({ name }) => names.size === 0 || names.has(name));
    const state = (row, index) => row.obstacles[index] ?? t('hadRoom');
    answer.replaceChildren(...[
      missing,
      el('h3', {}, caption),
      table(caption, [
        [level, (row) => (row.isChosen ? el('strong', {}, row.name) : row.name)],
        [t('hosts'), (row) => whole(row.members.length), 'n'],
        [t('couldTake'), (row) => whole(row.could), 'n'],
        [t('bestRank'), (row) => (Number.isFinite(row.rank) ? row.rank : '–'), 'n'],
        [t('whyNot'), (row) => (row.isChosen ? t('wasChosen') : row.words.join('; ')), 'long'],
      ], rows.slice(0, ROWS_MAX)),
      rows.length > ROWS_MAX && el('p', { class: 'faint' }, t('moreGroups', { number: whole(rows.length - ROWS_MAX) })),
      ...(names.size > 0 ? rows.map((row) => table(row.name, [
        [t('hostName'), ({ host }) => el('a', { href: link('host', {}, host.uuid) }, host.host)],
        [t('state'), ({ index }) => state(row, index)],
      ], row.members.map((host, index) => ({ host, index })).slice(0, ROWS_MAX))) : []),
      el('p', { class: 'faint' }, t('groupsNote'))].filter(Boolean));
    button.hidden = true;
  };
  button.addEventListener('click', show);
  if (wanted.length > 0) show();
  return el('div', { class: 'stack' }, button, answer);
}
