// Builds: what is under way, what failed and why, and moves.
import { el, link, note, panel, table, title } from '../dom.js';
import { t, time } from '../texts.js';
import { compute } from '../api.js';

const listed = (status) => compute(`/servers/detail?all_tenants=1&status=${status}&limit=200&sort_key=created_at&sort_dir=desc`).then(({ servers }) => servers);

export function builds(main) {
  const [under, failed, moved] = [el('div', {}, t('loading')), el('div', {}), el('div', {})];
  main.replaceChildren(title(t('builds')), el('div', { class: 'stack' }, panel(t('buildsUnder'), under), panel(t('buildsFailed'), failed), panel(t('moves'), moved)));
  const name = (server) => el('a', { href: link('why', { server: server.id }) }, server.name || server.id);
  const look = async () => {
    try {
      const [building, inError, { migrations }] = await Promise.all([listed('BUILD'), listed('ERROR'), compute('/os-migrations?limit=50')]);
      under.replaceChildren(table(t('buildsUnder'), [[t('server'), name], [t('task'), (server) => server['OS-EXT-STS:task_state'] ?? '–'], [t('hostName'), (server) => server['OS-EXT-SRV-ATTR:host'] ?? '–'], [t('begun'), (server) => time(server.created)]], building, t('noBuilds')));
      failed.replaceChildren(table(t('buildsFailed'), [[t('server'), name], [t('flavor'), (server) => server.flavor.original_name ?? '–'], [t('begun'), (server) => time(server.created)], [t('reason'), (server) => server.fault?.message ?? '–', 'long']], inError, t('noFailed')));
      moved.replaceChildren(table(t('moves'), [[t('server'), (move) => el('a', { href: link('why', { server: move.instance_uuid }) }, move.instance_uuid)], [t('kind'), (move) => move.migration_type], [t('from'), (move) => move.source_compute ?? '–'], [t('to'), (move) => move.dest_compute ?? '–'], [t('status'), (move) => move.status], [t('begun'), (move) => time(move.created_at)]], migrations, t('noMoves')));
    } catch (error) {
      under.replaceChildren(note(t('failed', { why: error.message }), 'bad'));
    }
  };
  look();
  const timer = setInterval(look, 3000);
  return () => clearInterval(timer);
}
