// My servers: what a tenant has, and what is left for its project.
import { el, note, panel, share, table, title } from '../dom.js';
import { t, time, whole } from '../texts.js';
import { compute } from '../api.js';

const LIMITS = [['instances', 'totalInstancesUsed', 'maxTotalInstances'], ['vcpus', 'totalCoresUsed', 'maxTotalCores'], ['ram', 'totalRAMUsed', 'maxTotalRAMSize']];

export function servers(main) {
  const [list, left] = [el('div', {}, t('loading')), el('div', {})];
  main.replaceChildren(title(t('servers')), el('div', { class: 'stack' }, panel(t('yours'), left), panel(t('servers'), list)));
  const look = async () => {
    try {
      const [{ servers: own }, { limits: { absolute } }] = await Promise.all([compute('/servers/detail?limit=200'), compute('/limits')]);
      left.replaceChildren(table(t('limits'), [
        [t('class'), ([name]) => (name === 'instances' ? t('servers') : t(name))],
        [t('used'), ([, used]) => whole(absolute[used] ?? 0), 'n'],
        [t('limit'), ([, , limit]) => (absolute[limit] >= 0 ? whole(absolute[limit]) : t('unlimited')), 'n'],
        [t('left2'), ([, used, limit]) => (absolute[limit] >= 0 ? whole(absolute[limit] - absolute[used]) : t('unlimited')), 'n'],
        [t('share'), ([, used, limit]) => (absolute[limit] > 0 ? share(absolute[used] / absolute[limit]) : '–'), 'n'],
      ], LIMITS));
      list.replaceChildren(table(t('servers'), [
        [t('server'), (server) => server.name], [t('status'), (server) => el('span', { class: server.status === 'ERROR' ? 'bad' : '' }, server.status)],
        [t('flavor'), (server) => server.flavor?.original_name ?? '–'], [t('zone'), (server) => server['OS-EXT-AZ:availability_zone'] ?? '–'],
        [t('created'), (server) => time(server.created)], [t('reason'), (server) => server.fault?.message ?? ''],
      ], own, t('noServers')));
    } catch (error) {
      list.replaceChildren(note(t('failed', { why: error.message }), 'bad'));
    }
  };
  look();
  const timer = setInterval(look, 5000);
  return () => clearInterval(timer);
}
