// Why: where something would go and why there, why a server is where it is, and how many more fit.
import { dot, el, link, note, pairs, panel, select, svg, table, title } from '../dom.js';
import { duration, fine, t, time, whole } from '../texts.js';
import { Failure, compute, has, howManyFit, scheduler, session } from '../api.js';
import { fleet } from '../fleet_data.js';
import { groupNamed, groupsThen } from './groups_then.js';

// The most hosts that the scheduler's API compares.
const HOSTS_MAX = 10;
export const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

async function flavors() {
  if (!has('compute')) return [];
  return (await compute('/flavors/detail?limit=1000&is_public=none').catch(() => compute('/flavors/detail?limit=1000'))).flavors;
}

// A flavor of the compute API as the scheduler's API takes it.
export function asRequest(flavor) {
  return {
    flavor: {
      name: flavor.original_name ?? flavor.name ?? '', vcpus: flavor.vcpus, memory_mb: flavor.ram, root_gb: flavor.disk,
      ephemeral_gb: flavor['OS-FLV-EXT-DATA:ephemeral'] ?? flavor.ephemeral ?? 0, swap_mb: Number(flavor.swap) || 0, extra_specs: flavor.extra_specs ?? {},
    },
    project_id: session.project ?? 'page', user_id: session.user ?? 'page',
  };
}

// The best hosts with the parts of their scores.
function ranked(caption, ranking) {
  const names = [...new Set(ranking.flatMap((host) => host.weights.map((weight) => weight.weigher)))];
  const most = Math.max(1e-9, ...ranking.map((host) => host.weights.reduce((sum, weight) => sum + Math.abs(weight.share), 0)));
  const bar = (host) => {
    let at = 0;
    const label = host.weights.map((weight) => `${weight.weigher} ${fine(weight.share)}`).join(', ');
    return svg('svg', { class: 'stack-bar', viewBox: '0 0 100 10', preserveAspectRatio: 'none', role: 'img', 'aria-label': label || '0' }, host.weights.map((weight) => {
      const width = (Math.abs(weight.share) / most) * 100;
      at += width;
      return svg('rect', { class: `w${names.indexOf(weight.weigher) % 8}`, x: at - width, width, height: 10, opacity: weight.share < 0 ? 0.45 : 1 });
    }));
  };
  return [
    table(caption, [
      [t('rank'), (row) => row.rank, 'n'],
      [t('hostName'), (row) => el('a', { href: link('host', {}, row.provider) }, row.selected ? el('strong', {}, row.host) : row.host)],
      [t('score'), (row) => fine(row.score), 'n'],
      [t('parts'), bar],
      ...names.map((name) => [name, (row) => fine(row.weights.find((weight) => weight.weigher === name)?.share ?? 0), 'n']),
    ], ranking.map((row, index) => ({ ...row, rank: index + 1 }))),
    el('ul', { class: 'legend' }, names.map((name, index) => el('li', {}, dot(`w${index % 8}`), name))),
  ];
}

function parts(explanation) {
  return [
    el('p', { class: 'faint' }, t('compared', { number: whole(explanation.compared) })),
    ...ranked(t('ranking'), explanation.ranking),
    explanation.hosts?.length > 0 && table(t('compareWith'), [
      [t('hostName'), (row) => row.asked],
      [t('rank'), (row) => row.rank ?? '–', 'n'],
      [t('score'), (row) => (row.score === undefined ? '–' : fine(row.score)), 'n'],
      [t('excluded'), (row) => (row.excluded?.reason === 'unknown' ? t('unknownHost') : row.excluded ? reasonOf(row.excluded) : '–')],
    ], explanation.hosts),
  ];
}

function reasonOf(excluded) {
  const what = excluded.filter ?? excluded.constraint ?? excluded.rule ?? '';
  return `${excluded.reason} ${typeof what === 'string' ? what : JSON.stringify(what)}`.trim();
}

// What a refusal says: how many hosts each constraint left.
export function funnel(explanation) {
  if (!explanation || explanation.hosts === undefined) return [];
  const rows = [];
  const placement = explanation.placement;
  let remaining = placement?.roots ?? explanation.hosts;
  for (const { constraint, group, removed } of placement?.constraints ?? []) {
    remaining -= removed;
    rows.push({ name: group ? `${constraint} (${group})` : constraint, removed, left: remaining });
  }
  for (const filter of explanation.filters ?? []) rows.push({ name: filter.filter, removed: filter.removed, left: filter.left });
  if (explanation.removed_by_rules) rows.push({ name: t('reason'), removed: explanation.removed_by_rules, left: explanation.left });
  return [
    pairs([t('hosts'), whole(explanation.hosts)], [t('usable'), whole(explanation.with_room ?? 0)], explanation.impossible && [t('binds'), [explanation.impossible].flat().join(' + ')]),
    table(t('funnel'), [[t('constraint'), (row) => row.name], [t('removed'), (row) => whole(row.removed ?? 0), 'n'], [t('left'), (row) => whole(row.left ?? 0), 'n']], rows),
    placement?.near_misses?.length > 0 && table(t('nearMisses'), [
      [t('hosts'), (miss) => whole(miss.roots), 'n'], [t('example'), (miss) => el('a', { href: link('host', {}, miss.example.uuid) }, miss.example.name)],
      [t('lacks'), (miss) => miss.lacks.map(({ constraint, reason, missing }) => `${constraint}: ${reason}${missing ? ` ${whole(missing)}` : ''}`).join('; '), 'long'],
    ], placement.near_misses),
  ];
}

// Asks where a request would go, and how many more fit; nothing is claimed.
async function ask(place, request, hosts) {
  place.replaceChildren(el('p', { class: 'faint' }, t('loading')));
  const body = { request, instances: [crypto.randomUUID()], claim: false, explain: true };
  if (hosts.length > 0) body.explain_hosts = hosts.slice(0, HOSTS_MAX);
  const count = el('p', { role: 'status', id: 'fits' }, t('fitsCounting'));
  const shown = [];
  try {
    const answer = await scheduler('/destinations', { method: 'POST', body });
    const selection = answer.selections[0];
    shown.push(el('p', { id: 'would-go' }, t('wouldGo', { host: selection.selected?.host ?? t('noHost') })), count, el('p', { class: 'faint' }, t('nothingDone')), parts(selection.explanation));
  } catch (error) {
    if (!(error instanceof Failure) || error.status === 0) throw error;
    const found = error.body?.errors?.[0];
    shown.push(note(found?.detail ?? error.message, 'warn'), count, funnel(found?.explanation));
  }
  place.replaceChildren(...shown.flat(3).filter(Boolean));
  try {
    const { project_id: _, user_id: __, ...only } = request;
    const fits = await howManyFit(only);
    const cells = Object.entries(fits.by_cell ?? {});
    const cellName = (uuid) => fleet.values.cells.find((cell) => cell?.[0] === uuid)?.[1] || uuid;
    count.replaceChildren(t(fits.count === 0 ? 'noneFits' : fits.more ? 'fitsAtLeast' : 'fitsMore', { count: whole(fits.count) }), cells.length > 1 ? ` ${cells.map(([uuid, number]) => `${cellName(uuid)}: ${whole(number)}`).join(', ')}.` : '');
  } catch (error) {
    count.replaceChildren(t('failed', { why: error.message }));
  }
}

export async function findServers(text) {
  if (UUID.test(text)) {
    try {
      return [(await compute(`/servers/${text}`)).server];
    } catch (error) {
      if (error.status === 404) return [];
      throw error;
    }
  }
  const exact = text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return (await compute(`/servers/detail?all_tenants=1&limit=20&name=${encodeURIComponent(`^${exact}$`)}`)).servers;
}

async function actionsOf(server) {
  const list = (await compute(`/servers/${server.id}/os-instance-actions`)).instanceActions.slice(0, 10);
  return Promise.all(list.map(async (action) => ({ ...action, ...(await compute(`/servers/${server.id}/os-instance-actions/${action.request_id}`)).instanceAction })));
}

const span = (from, to) => (from && to ? duration(new Date(`${to}Z`) - new Date(`${from}Z`)) : '–');

const hostLink = ({ provider, host }) => el('a', { href: link('host', {}, provider) }, host ?? provider);

// One decision as it was kept: how many hosts there were, the best, and who was faster.
export function decided(decision) {
  const search = decision.search;
  const words = [t(decision.kind === 'move' ? 'movedTo' : 'builtOn', { host: decision.host ?? decision.provider, at: time(decision.at) }), !decision.is_present && t('notThere')];
  if (search) {
    words.push(t('knownHosts', { number: whole(search.known_hosts), sequence: search.sequence }));
    words.push(search.feasible === null ? t('feasibleAtLeast', { number: whole(search.ranked) }) : t('feasibleThen', { number: whole(search.feasible) }));
  } else {
    words.push(t('notKept'));
  }
  words.push(t('alternatesThen', { number: whole(decision.alternates) }));
  const weighed = search?.ranking.some((host) => host.weights.length > 0);
  return el('div', { class: 'decision' },
    el('p', {}, words.filter(Boolean).join(' ')),
    search && !weighed && el('p', { class: 'faint' }, t('equalHosts')),
    weighed && search.ranking.length > 1 && search.ranking[0].score === search.ranking[1].score && el('p', { class: 'faint' }, t('equalScores')),
    ...(weighed ? ranked(t('nextBest'), search.ranking.map((host) => ({ ...host, host: host.host ?? host.provider }))) : []),
    decision.fallen.length > 0 && table(t('tookFirst'), [[t('hostName'), hostLink], [t('reason'), (row) => row.reason || t('otherServers'), 'long']], decision.fallen),
    search?.lost.length > 0 && table(t('lostEarlier'), [[t('hostName'), hostLink]], search.lost));
}

async function decisionsOf(server, groups) {
  const { decisions } = await scheduler(`/decisions/${server.id}`);
  if (decisions.length === 0) return [el('p', { class: 'faint' }, t('noDecision'))];
  const size = asRequest(server.flavor).flavor;
  return [groupsThen(size, decisions.find((decision) => decision.is_present) ?? decisions[0], groups), ...decisions.map(decided)];
}

// What was done with a server, step by step, with the hosts that were tried.
export function attempts(actions) {
  const rows = actions.flatMap((action) => {
    const events = action.events ?? [];
    return events.length ? events.map((event, index) => ({ action: index === 0 ? action.action : '', ...event })) : [{ action: action.action, event: '–', start_time: action.start_time, result: action.message }];
  });
  return table(t('attempts'), [
    [t('action'), (row) => row.action], [t('step'), (row) => row.event], [t('hostName'), (row) => row.host ?? '–'],
    [t('begun'), (row) => time(row.start_time)], [t('took'), (row) => span(row.start_time, row.finish_time), 'n'],
    [t('result'), (row) => row.result ?? t('underWay')], [t('details'), (row) => row.details ?? row.traceback ?? '', 'long'],
  ], rows);
}

async function explainServer(place, text, hosts) {
  place.replaceChildren(el('p', { class: 'faint' }, t('loading')));
  const servers = await findServers(text);
  if (servers.length === 0) return place.replaceChildren(note(t('noServer'), 'warn'));
  if (servers.length > 1) {
    return place.replaceChildren(el('p', {}, t('severalFound')), el('ul', {}, servers.map((server) => el('li', {}, el('a', { href: link('why', { server: server.id }) }, `${server.name} ${server.id}`)))));
  }
  const server = servers[0];
  const host = server['OS-EXT-SRV-ATTR:host'];
  const done = el('div', {}, t('loading'));
  const again = el('div', {});
  const then = el('div', { id: 'as-decided' }, t('loading'));
  const isOperator = has('scheduler') && host;
  place.replaceChildren(...[
    panel(`${t('server')} ${server.name}`,
      el('p', { id: 'server-is' }, host ? t('serverIsOn', { host }) : t('serverNowhere')),
      server.fault && note(server.fault.message, 'bad'),
      pairs(['UUID', el('code', {}, server.id)], [t('status'), server.status], [t('flavor'), server.flavor.original_name], [t('zone'), server['OS-EXT-AZ:availability_zone']], [t('created'), time(server.created)])),
    isOperator && panel(t('asDecided'), then),
    panel(t('attempts'), done),
    panel(t('rankingNow'), el('p', { class: 'faint' }, t('asItIsNow')), again)].filter(Boolean));
  const explanation = server.fault?.details && parseJson(server.fault.details);
  if (explanation) place.append(panel(t('funnel'), funnel(explanation)));
  const show = (target, work) => work.catch((error) => target.replaceChildren(t('failed', { why: error.message })));
  if (hosts.length > 0) await fleet.known();
  const groups = hosts.map(groupNamed).filter(Boolean);
  if (isOperator) show(then, fleet.known().then(() => decisionsOf(server, groups)).then((decisions) => then.replaceChildren(...decisions)));
  show(done, actionsOf(server).then((actions) => done.replaceChildren(attempts(actions))));
  const wanted = hosts.length ? hosts.flatMap(hostsOf) : host ? [host] : [];
  show(again, ask(again, { ...asRequest(server.flavor), project_id: server.tenant_id, user_id: server.user_id }, wanted));
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// The names of hosts that a user means: of a group those of its first hosts.
const hostsOf = (name) => groupNamed(name)?.hosts.map(({ host }) => host) ?? [name];

const listOf = (text) => (text ?? '').split(',').map((part) => part.trim()).filter(Boolean);

export function why(main, query) {
  const answer = el('div', { class: 'stack' });
  const serverForm = el('form', {
    class: 'row', id: 'server-form', onsubmit: (event) => {
      event.preventDefault();
      location.assign(link('why', { server: serverForm.elements.server.value.trim(), with: serverForm.elements.with.value }));
    },
  }, el('label', {}, t('whyServerLabel'), el('input', { name: 'server', value: query.server ?? '', required: true, size: 34, id: 'why-server', autofocus: Object.keys(query).length === 0 })), el('label', {}, t('compareWith'), el('input', { name: 'with', value: query.server ? query.with ?? '' : '' })), el('button', { class: 'main', type: 'submit' }, t('ask')));
  const number = (name, label, value) => el('label', {}, label, el('input', { name, type: 'number', min: 0, max: 4294967295, value: value ?? '0', required: true, size: 8 }));
  const form = el('form', {
    class: 'row', id: 'fits-form', onsubmit: (event) => {
      event.preventDefault();
      const fields = Object.fromEntries(new FormData(form));
      location.assign(link('why', fields.flavor ? { flavor: fields.flavor, zone: fields.zone, with: fields.with } : fields));
      if (`${location.hash}` === link('why', query)) run();
    },
  });
  main.replaceChildren(title(t('why')), el('div', { class: 'stack' }, el('div', { class: 'grid' }, panel(t('whyServer'), serverForm), panel(t('whyForm'), form)), answer));
  const run = () => {
    const guarded = (work) => work.catch((error) => answer.replaceChildren(note(t('failed', { why: error.message }), 'bad')));
    if (query.server) return guarded(explainServer(answer, query.server, listOf(query.with)));
    const place = el('div', {});
    const flavor = known.find(({ id }) => id === query.flavor);
    let request = null;
    if (flavor) request = asRequest(flavor);
    else if (query.vcpus !== undefined) {
      const extra = Object.fromEntries((query.extra ?? '').split(/\s+/).filter(Boolean).map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]));
      request = asRequest({ vcpus: Number(query.vcpus), ram: Number(query.ram), disk: Number(query.disk), extra_specs: extra });
    }
    if (!request) return;
    if (query.zone) request.availability_zone = query.zone;
    answer.replaceChildren(panel(t('ranking'), place));
    const named = listOf(query.with);
    guarded((named.length > 0 ? fleet.known() : Promise.resolve()).then(() => ask(place, request, named.flatMap(hostsOf))));
  };
  let known = [];
  flavors().catch(() => []).then((list) => {
    known = list;
    const chosen = list.some(({ id }) => id === query.flavor) ? query.flavor : query.vcpus !== undefined ? '' : list[0]?.id ?? '';
    const own = el('span', { class: 'controls' }, number('vcpus', t('vcpus'), query.vcpus ?? '1'), number('ram', t('ram'), query.ram ?? '1024'), number('disk', t('disk'), query.disk ?? '0'), el('label', {}, t('extra'), el('input', { name: 'extra', value: query.extra ?? '', size: 24 })));
    const toggle = (value) => {
      own.hidden = value !== '';
      own.querySelectorAll('input').forEach((input) => { input.disabled = value !== ''; });
    };
    const choice = select(t('flavor'), chosen, [...list.map(({ id, name }) => [id, name]), ['', t('ownSize')]], toggle);
    choice.querySelector('select').name = 'flavor';
    form.replaceChildren(choice, own, el('label', {}, t('zoneWanted'), el('input', { name: 'zone', value: query.zone ?? '', size: 12 })), el('label', {}, t('compareWith'), el('input', { name: 'with', value: query.server ? '' : query.with ?? '' })), el('button', { class: 'main', type: 'submit' }, t('ask')));
    toggle(chosen);
    run();
  });
}
