// A host: beside the fleet, or on a page of its own.
import { el, link, note, pairs, panel, share, table, title } from '../dom.js';
import { amount, duration, t, whole } from '../texts.js';
import { compute, has, placement, scheduler, session } from '../api.js';
import { fleet } from '../fleet_data.js';

async function read(uuid) {
  const [tree, host] = await Promise.all([
    placement(`/resource_providers?in_tree=${encodeURIComponent(uuid)}`),
    has('scheduler') ? scheduler(`/hosts/${encodeURIComponent(uuid)}`).catch(() => null) : null,
  ]);
  const providers = await Promise.all(tree.resource_providers.slice(0, 32).map(async (provider) => {
    const path = `/resource_providers/${provider.uuid}`;
    const [inventories, usages, traits] = await Promise.all([placement(`${path}/inventories`), placement(`${path}/usages`), placement(`${path}/traits`)]);
    return { ...provider, inventories: inventories.inventories, usages: usages.usages, traits: traits.traits };
  }));
  const servers = session.may.all_servers && has('compute') && host
    ? (await compute(`/servers/detail?all_tenants=1&host=${encodeURIComponent(host.host)}&limit=100`).catch(() => ({ servers: [] }))).servers
    : [];
  return { providers, host, servers };
}

function depth(provider, all) {
  let [steps, at] = [0, provider];
  while (at?.parent_provider_uuid && steps < 8) {
    at = all.find((other) => other.uuid === at.parent_provider_uuid);
    steps += 1;
  }
  return steps;
}

function content({ providers, host, servers }, uuid) {
  const known = fleet.byUuid.get(uuid);
  const rows = providers.flatMap((provider) => Object.entries(provider.inventories).map(([name, inventory], index) => ({ provider, name, inventory, index, used: provider.usages[name] ?? 0 })));
  const capacityOf = ({ inventory }) => Math.floor((inventory.total - inventory.reserved) * inventory.allocation_ratio);
  const where = known && fleet.levels.map((level) => [level.name, fleet.groupOf(known, level.name, { none: '–' })]);
  const traits = [...new Set(providers.flatMap((provider) => provider.traits))].sort();
  return [
    host && panel(t('state'), pairs(
      [t('state'), el('span', { class: host.up && host.enabled ? 'good' : 'bad' }, known ? t(`condition${known.condition}`) : host.up ? t('condition0') : t('condition2'))],
      host.disabled_reason && [t('sinceDown'), host.disabled_reason],
      [t('node'), host.node], [t('cell'), known?.cell?.[1] || host.cell], [t('zone'), host.zone],
      ...(where ?? []),
      [t('reportAge'), duration(host.age_ms)], [t('instances'), whole(host.instances)])),
    panel(t('providers'), table(t('providers'), [
      providers.length > 1 && [t('provider'), (row) => (row.index === 0 ? `${'– '.repeat(depth(row.provider, providers))}${row.provider.name}` : '')],
      [t('class'), (row) => row.name],
      [t('used'), (row) => amount(row.name, row.used), 'n'],
      [t('capacityCol'), (row) => amount(row.name, capacityOf(row)), 'n'],
      [t('share'), (row) => share(row.used / capacityOf(row), (row.inventory.total - row.inventory.reserved) / capacityOf(row)), 'n'],
    ].filter(Boolean), rows)),
    panel(t('instancesHere'), table(t('instancesHere'), [
      [t('server'), (server) => el('a', { href: link('why', { server: server.id }) }, server.name)],
      [t('status'), (server) => server.status],
      [t('flavor'), (server) => server.flavor?.original_name ?? '–'],
    ], servers)),
    traits.length > 0 && panel(t('traits'), el('ul', { class: 'chips' }, traits.map((name) => el('li', {}, name)))),
  ];
}

// Shows a host in `place`, and again when it changes. Returns how to end that.
export function hostDetails(place, uuid, ...more) {
  const name = () => fleet.byUuid.get(uuid)?.host ?? uuid;
  const body = el('div', { class: 'stack' }, el('p', { class: 'faint' }, t('loading')));
  place.replaceChildren(el('div', { class: 'title' }, el('h2', { id: 'host-name' }, name()), el('a', { href: link('host', {}, uuid) }, t('openHost')), ...more), body);
  let [isOver, isReading, isStale] = [false, false, false];
  const refresh = async () => {
    if (isReading) {
      isStale = true;
      return;
    }
    [isReading, isStale] = [true, false];
    try {
      const found = await read(uuid);
      if (!isOver) body.replaceChildren(...content(found, uuid).filter(Boolean));
    } catch (error) {
      if (!isOver) body.replaceChildren(note(t('failed', { why: error.message }), 'bad'));
    }
    // What changes all the time is read again after a while.
    await new Promise((resolve) => setTimeout(resolve, 2000));
    isReading = false;
    if (isStale && !isOver) refresh();
  };
  refresh();
  const stop = fleet.subscribe((changed) => {
    const host = fleet.byUuid.get(uuid);
    if (host && changed.has(host.slot)) refresh();
  });
  return () => {
    isOver = true;
    stop();
  };
}

export function hostPage(main, query, uuid) {
  const known = fleet.byUuid.get(uuid);
  const place = el('div', {});
  main.replaceChildren(title(t('host', { name: known?.host ?? uuid })), place);
  return hostDetails(place, uuid, el('a', { href: link('fleet', { host: uuid }) }, t('fleet')));
}
