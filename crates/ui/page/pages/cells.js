// Cells and roles: this process, the cells, the compute services, and what the audit found.
import { atMost, el, link, note, pairs, panel, table, title } from '../dom.js';
import { fine, t, time, whole } from '../texts.js';
import { call, compute, has, placement, session } from '../api.js';
import { fleet } from '../fleet_data.js';
import { readMetrics } from './overview.js';

function cellRows() {
  const cells = new Map();
  for (const host of fleet.hosts.values()) {
    const name = host.cell ? host.cell[1] || host.cell[0] : t('noCell');
    const row = cells.get(name) ?? { name, uuid: host.cell?.[0] ?? '', hosts: 0, up: 0, consumers: 0 };
    row.hosts += 1;
    row.up += host.condition === 0 ? 1 : 0;
    row.consumers += host.count;
    cells.set(name, row);
  }
  return [...cells.values()].sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
}

// Means of the durations that the journal and the requests have counted.
function durations(values) {
  const rows = [];
  for (const [name, sum] of values) {
    if (!name.endsWith('_seconds_sum')) continue;
    const count = values.get(name.replace(/_sum$/, '_count')) ?? 0;
    if (count > 0) rows.push({ name: name.replace(/^placewright_|(_duration)?_seconds_sum$/g, '').replace(/_/g, ' '), mean: `${fine((sum / count) * 1000)} ms`, count });
  }
  return table(t('durations'), [[t('metric'), (row) => row.name], [t('meanCol'), (row) => row.mean, 'n'], [t('counted'), (row) => whole(row.count), 'n']], rows);
}

function findings(place) {
  const button = el('button', { type: 'button', id: 'audit' }, t('audit'));
  const found = el('div', { 'aria-live': 'polite' });
  place.replaceChildren(button, found);
  const run = async (work) => {
    button.disabled = true;
    found.replaceChildren(el('p', { class: 'faint' }, t('loading')));
    try {
      const report = await work();
      const rows = report.findings;
      const canRepair = session.may.repair && rows.some((row) => row.repair && !row.outcome);
      const repair = el('button', { type: 'button', id: 'repair' }, t('repair'));
      const box = el('div', {}, repair);
      repair.addEventListener('click', () => {
        const sure = el('button', { class: 'main', type: 'button', onclick: () => run(() => placement('/placewright/v1/audit/repair', { method: 'POST' })) }, t('repairSure'));
        box.replaceChildren(el('p', {}, t('repairNote', { user: session.label })), sure, ' ', el('button', { type: 'button', onclick: () => box.replaceChildren(repair) }, t('cancel')));
        sure.focus();
      });
      found.replaceChildren(el('div', {}, report.repaired > 0 && el('p', { class: 'good' }, t('repaired', { number: whole(report.repaired) })),
        table(t('findings'), [[t('finding'), (row) => row.kind], [t('what'), (row) => row.what], [t('hostName'), (row) => row.host ?? '–'], [t('wouldDo'), (row) => row.repair ?? '–'], [t('outcome'), (row) => (row.outcome ? JSON.stringify(row.outcome) : '–')]], rows, t('noFindings')),
        canRepair && box));
    } catch (error) {
      found.replaceChildren(error.status === 404 ? t('noConductor') : note(t('failed', { why: error.message }), 'bad'));
    } finally {
      button.disabled = false;
    }
  };
  button.addEventListener('click', () => run(() => placement('/placewright/v1/audit')));
}

export function cells(main) {
  const [self, journal, list, services, audit] = [0, 1, 2, 3, 4].map(() => el('div', {}));
  main.replaceChildren(title(t('cells')), el('div', { class: 'grid' },
    panel(t('thisProcess'), self), panel(t('durations'), journal), panel(t('cellsTitle'), list),
    session.may.audit && el('section', { class: 'panel wide' }, el('h2', {}, t('findings')), audit),
    el('section', { class: 'panel wide' }, el('h2', {}, t('services')), services)));
  if (session.may.audit) findings(audit);
  const draw = () => list.replaceChildren(table(t('cellsTitle'), [
    [t('cell'), (row) => el('a', { href: link('fleet', { group: 'cell' }) }, row.name)], [t('hosts'), (row) => whole(row.hosts), 'n'], [t('hostsUp'), (row) => whole(row.up), 'n'], [t('consumers'), (row) => whole(row.consumers), 'n'],
  ], cellRows()));
  const look = async () => {
    try {
      const [status, text] = await Promise.all([placement('/placewright/v1/status'), call('metrics')]);
      const values = readMetrics(text);
      self.replaceChildren(pairs([t('role'), t(`role_${status.role}`)], [t('release'), status.release], [t('applied'), whole(status.applied)], [t('lag'), whole(status.lag)], [t('leader'), status.leader?.address ?? '–'], [t('store'), status.store]));
      journal.replaceChildren(durations(values));
    } catch (error) {
      self.replaceChildren(note(t('failed', { why: error.message }), 'bad'));
    }
    if (!session.may.all_servers || !has('compute')) return;
    try {
      const { services: rows } = await compute('/os-services');
      services.replaceChildren(table(t('services'), [[t('hostName'), (row) => row.host], [t('kind'), (row) => row.binary], [t('zone'), (row) => row.zone], [t('status'), (row) => row.status], [t('state'), (row) => el('span', { class: row.state === 'up' ? 'good' : 'bad' }, row.state)], [t('updated'), (row) => time(row.updated_at)], [t('reason'), (row) => row.disabled_reason ?? '']], rows.slice(0, 500)));
    } catch (error) {
      services.replaceChildren(note(t('failed', { why: error.message }), 'bad'));
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
