// Overview: is anything wrong, how full is it, what happens.
import { atMost, el, figure, link, panel, share, table, title } from '../dom.js';
import { amount, fine, percent, t, whole } from '../texts.js';
import { call, compute, has, session } from '../api.js';
import { fleet } from '../fleet_data.js';
import { groupsBy } from '../fleet_picture.js';

// The values of Prometheus's text format by name, summed over labels.
export function readMetrics(text) {
  const values = new Map();
  for (const line of text.split('\n')) {
    const found = /^([a-zA-Z_:][\w:]*)(\{[^}]*\})? ([-+.\deE]+|NaN)/.exec(line);
    if (found && !found[1].endsWith('_bucket')) values.set(found[1], (values.get(found[1]) ?? 0) + Number(found[3]));
  }
  return values;
}

let before = null; // The metrics of the last look, for rates.
let rates = {};

async function lookAtMetrics() {
  const values = readMetrics(await call('metrics'));
  const now = performance.now();
  if (before && now - before.now > 500) {
    const rate = (name) => Math.max(0, ((values.get(name) ?? 0) - (before.values.get(name) ?? 0)) / ((now - before.now) / 1000));
    rates = { commands: rate('placewright_journal_batch_commands_sum'), claims: rate('placewright_claims_total'), refusals: rate('placewright_refusals_total') };
  }
  before = { now, values };
  return values;
}

async function serverCounts() {
  const count = async (status) => (await compute(`/servers?all_tenants=1&status=${status}&limit=1000`)).servers.length;
  const newest = async (status) => (await compute(`/servers/detail?all_tenants=1&status=${status}&limit=6&sort_key=created_at&sort_dir=desc`)).servers;
  const [building, inError, underWay, failed] = await Promise.all([count('BUILD'), count('ERROR'), newest('BUILD'), newest('ERROR')]);
  return { building, inError, newest: [...failed, ...underWay].slice(0, 8) };
}

function problems(hosts, counts, metrics, totals) {
  const found = [];
  const add = (isWrong, kind, text, href) => isWrong && found.push(el('li', {}, el('a', { class: kind, href }, text)));
  const inState = (...states) => hosts.filter((host) => states.includes(host.condition)).length;
  add(inState(2, 3) > 0, 'bad', t('wrongDown', { number: whole(inState(2, 3)) }), link('fleet', { by: 'state', state: inState(2) ? '2' : '3' }));
  add(inState(1) > 0, 'warn', t('wrongDisabled', { number: whole(inState(1)) }), link('fleet', { by: 'state', state: '1' }));
  add(counts?.inError > 0, 'bad', t('wrongError', { number: counts?.inError === 1000 ? '≥ 1,000' : whole(counts?.inError ?? 0) }), link('builds'));
  const findings = [...(metrics ?? [])].filter(([name]) => name.endsWith('audit_findings')).reduce((sum, [, value]) => sum + value, 0);
  add(findings > 0, 'bad', t('wrongFindings', { number: whole(findings) }), link('cells'));
  for (const total of totals) {
    const share = total.used / total.capacity;
    add(total.capacity > 0 && share > 0.9, 'warn', t('wrongFull', { class: total.name, share: percent(share) }), link('fleet', { by: total.name }));
  }
  return found.length ? el('ul', { class: 'plain' }, found) : el('p', { class: 'good' }, t('allWell'));
}

export function overview(main) {
  const figures = el('dl', { class: 'figures', 'aria-label': t('overview') });
  const wrong = el('div', { id: 'wrong' });
  const full = el('div', {});
  const groups = el('div', {});
  const recent = el('div', {});
  const hasServers = session.may.all_servers && has('compute');
  main.replaceChildren(title(t('overview')), figures,
    el('div', { class: 'grid' },
      el('div', { class: 'stack' }, panel(t('isAnythingWrong'), wrong), hasServers && panel(t('recent'), recent)),
      el('div', { class: 'stack' }, panel(t('howFull'), el('p', { class: 'faint' }, t('howFullNote')), full), panel(t('fullest'), groups))));
  let counts = null;
  let metrics = null;
  const draw = () => {
    const hosts = [...fleet.hosts.values()];
    const totals = fleet.totals();
    const up = hosts.filter((host) => host.condition === 0 || host.condition === 4).length;
    const consumers = hosts.reduce((sum, host) => sum + host.count, 0);
    figures.replaceChildren(...[
      figure(t('hosts'), whole(hosts.length), '', `${whole(up)} ${t('hostsUp')}`),
      figure(t('instances'), whole(consumers)),
      figure(t('commands'), rates.commands === undefined ? '–' : fine(rates.commands)),
      figure(t('claims'), rates.claims === undefined ? '–' : fine(rates.claims)),
      figure(t('refusals'), rates.refusals === undefined ? '–' : fine(rates.refusals)),
      counts && figure(t('building'), whole(counts.building)),
      counts && figure(t('inError'), whole(counts.inError), counts.inError ? 'bad' : ''),
    ].filter(Boolean));
    if (counts) recent.replaceChildren(table(t('recent'), [[t('server'), (server) => el('a', { href: link('why', { server: server.id }) }, server.name)], [t('status'), (server) => el('span', { class: server.status === 'ERROR' ? 'bad' : '' }, server.status)], [t('reason'), (server) => server.fault?.message ?? server['OS-EXT-STS:task_state'] ?? '–', 'long']], counts.newest, t('noBuilds')));
    wrong.replaceChildren(problems(hosts, counts, metrics, totals));
    full.replaceChildren(table(t('howFull'), [
      [t('class'), (total) => el('a', { href: link('fleet', { by: total.name }) }, total.name)],
      [t('used'), (total) => amount(total.name, total.used), 'n'],
      [t('capacityCol'), (total) => amount(total.name, total.capacity), 'n'],
      [t('physical'), (total) => amount(total.name, total.physical), 'n'],
      [t('share'), (total) => share(total.used / total.capacity, total.physical / total.capacity), 'n'],
    ], totals));
    const by = fleet.levels[0]?.name ?? (fleet.values.zones.length > 1 ? 'zone' : 'cell');
    // By the class that is fullest: it binds first.
    const fullness = ({ used, capacity }) => (capacity > 0 ? used / capacity : 0);
    const name = [...totals].sort((a, b) => fullness(b) - fullness(a))[0]?.name ?? 'VCPU';
    const place = ([host]) => host.aggregates.find((uuid) => fleet.levels[0]?.places.has(uuid));
    const rows = groupsBy(hosts, by).map(([group, members]) => {
      const total = fleet.totals(members).find((sum) => sum.name === name);
      return { group, members, share: total ? total.used / total.capacity : 0 };
    }).sort((a, b) => b.share - a.share).slice(0, 10);
    groups.replaceChildren(el('p', { class: 'faint' }, t('fullestBy', { class: name })), table(t('fullest'), [
      [by === 'cell' ? t('cell') : by === 'zone' ? t('zone') : by, (row) => el('a', { href: link('fleet', { group: by, by: name, agg: place(row.members) }) }, row.group)],
      [t('hosts'), (row) => whole(row.members.length), 'n'],
      [t('share'), (row) => share(row.share), 'n'],
    ], rows));
  };
  const look = async () => {
    try {
      metrics = await lookAtMetrics();
      if (hasServers) counts = await serverCounts();
      draw();
    } catch {
      // The state of the connection is in the header, and the next look is soon.
    }
  };
  draw();
  look();
  const timer = setInterval(look, 5000);
  const redraw = atMost(1000, draw);
  const stop = fleet.subscribe(redraw);
  return () => {
    clearInterval(timer);
    stop();
    redraw.end();
  };
}
