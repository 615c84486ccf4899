// The hosts as this page knows them, kept up to date by the stream.
import { has, isSignedIn, scheduler } from './api.js';

export const UP = 0;

export class FleetData {
  constructor() {
    this.listeners = new Set();
    this.forget();
  }

  // Forgets everything: somebody else may sign in.
  forget() {
    this.aggregateNames = new Map();
    this.levels = [];
    this.history = [];
    this.reset();
  }

  reset() {
    this.place = null;
    this.names = null; // The version of the names that this page has read.
    this.newestNames = null;
    this.hosts = new Map(); // By slot.
    this.byUuid = new Map();
    this.values = { cells: [], zones: [], aggregates: [], traits: [], shapes: [] };
    this.isComplete = false;
    this.structure = (this.structure ?? 0) + 1;
    this.changed = new Set();
  }

  apply(event) {
    for (const [name, values] of Object.entries(this.values)) {
      if (!event[name]) continue;
      // After a broken stream, some of the values come again. A server of an earlier release sends no numbers.
      const from = event[`${name}_from`] ?? values.length;
      event[name].forEach((value, index) => { values[from + index] = value; });
    }
    for (const [slot, uuid, host, node, cell, zone, aggregates, traits, shape] of event.hosts) {
      const known = this.hosts.get(slot);
      if (known && known.uuid !== uuid) this.forgetUuid(known);
      const names = { slot, uuid, host, node: node || host, cell: this.values.cells[cell], zone: this.values.zones[zone], aggregates: this.values.aggregates[aggregates], traits: this.values.traits[traits], shape: this.values.shapes[shape] };
      const entry = known ? Object.assign(known, names) : { condition: UP, age: 0, count: 0, used: [], flash: 0, ...names };
      this.hosts.set(slot, entry);
      this.byUuid.set(uuid, entry);
      this.structure += 1;
    }
    const flash = this.isComplete ? performance.now() : 0;
    for (const [slot, condition, age, count, ...used] of event.live) {
      const host = this.hosts.get(slot);
      if (!host) continue;
      Object.assign(host, { condition, age, count, used });
      if (flash) host.flash = flash;
      this.changed.add(slot);
    }
    for (const slot of event.gone) {
      const host = this.hosts.get(slot);
      if (host) this.forgetUuid(host);
      this.hosts.delete(slot);
      this.structure += 1;
    }
    this.tell();
  }

  // A host that was made again may have come in another slot before it goes from this one.
  forgetUuid(host) {
    if (this.byUuid.get(host.uuid) === host) this.byUuid.delete(host.uuid);
  }

  // The page has everything up to the event with this id. `names` changes when aggregates or the topology do.
  end(id, names) {
    this.place = id;
    this.isComplete = true;
    this.newestNames = names;
    if (names !== this.names) this.readNamesLater();
    this.remember();
    this.tell();
  }

  tell() {
    if (this.isTelling) return;
    this.isTelling = true;
    setTimeout(() => {
      this.isTelling = false;
      const changed = this.changed;
      this.changed = new Set();
      this.listeners.forEach((listener) => listener(changed));
    }, 120);
  }

  // Calls back a few times a second at most, with the slots that changed. Returns how to end that.
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  // Resolves when all hosts are known, or after some seconds: a page may be opened before the stream has told of them.
  known() {
    return new Promise((resolve) => {
      if (this.isComplete && this.names !== null) return resolve();
      const stop = this.subscribe(() => this.isComplete && this.names !== null && end());
      const timer = setTimeout(() => end(), 5000);
      const end = () => {
        stop();
        clearTimeout(timer);
        resolve();
      };
    });
  }

  // Sums by class: used, capacity, and what physically exists.
  totals(hosts = this.hosts.values()) {
    const sums = new Map();
    for (const host of hosts) {
      host.shape.forEach(([name, capacity, total, reserved], index) => {
        let sum = sums.get(name);
        if (!sum) sums.set(name, (sum = { name, capacity: 0, physical: 0, used: 0, largestFree: 0, hosts: 0 }));
        const used = host.used[index] ?? 0;
        sum.capacity += capacity;
        sum.physical += total - reserved;
        sum.used += used;
        sum.hosts += 1;
        if (host.condition === UP) sum.largestFree = Math.max(sum.largestFree, capacity - used);
      });
    }
    return [...sums.values()].sort((a, b) => order(a.name) - order(b.name) || a.name.localeCompare(b.name));
  }

  // Keeps the totals of the last hour, two a minute, and of the last minutes more often.
  remember() {
    const now = Date.now();
    const last = this.history.at(-1);
    if (last && now - last.at < 5000) return;
    this.history.push({ at: now, totals: this.totals() });
    if (this.history.length > 720) this.history.splice(0, 120);
  }

  // Reads names again, once in a second at most. If that fails, it is tried again after the next event.
  readNamesLater() {
    this.namesTimer ??= setTimeout(async () => {
      const names = this.newestNames;
      try {
        if (isSignedIn()) await this.readNames();
        this.names = names;
      } catch {
        // The state of the connection is in the header.
      }
      this.namesTimer = null;
      if (isSignedIn() && names !== this.newestNames) this.readNamesLater();
    }, this.names === null ? 0 : 1000);
  }

  async readNames() {
    if (!has('scheduler')) return;
    const [aggregates, topology] = await Promise.all([scheduler('/aggregates'), scheduler('/topology')]);
    this.aggregateNames = distinctNames(aggregates.aggregates);
    this.levels = topology.levels.map((level) => ({ name: level.name, places: new Set(level.aggregates) }));
    this.structure += 1;
    this.tell();
  }

  nameOf(aggregate) {
    return this.aggregateNames.get(aggregate) || aggregate;
  }

  // The name of the group that a host is in: `cell`, `zone`, `aggregate`, or a level of the topology.
  groupOf(host, by, texts) {
    if (by === 'none') return texts.together;
    if (by === 'cell') return host.cell ? host.cell[1] || host.cell[0] : texts.noCell;
    if (by === 'zone') return host.zone ?? texts.noZone;
    if (by === 'aggregate') return host.aggregates.map((uuid) => this.nameOf(uuid)).join(' + ') || texts.none;
    const level = this.levels.find(({ name }) => name === by);
    const place = level && host.aggregates.find((uuid) => level.places.has(uuid));
    return place ? this.nameOf(place) : texts.none;
  }

  share(host, name) {
    const index = host.shape.findIndex(([other]) => other === name);
    return index < 0 || host.shape[index][1] === 0 ? NaN : (host.used[index] ?? 0) / host.shape[index][1];
  }
}

// By UUID. Racks of several rooms may have one name: then their UUIDs tell them apart, so that each is a group of its own.
function distinctNames(aggregates) {
  const [seen, shared] = [new Set(), new Set()];
  for (const { name } of aggregates) (seen.has(name) ? shared : seen).add(name);
  return new Map(aggregates.map(({ uuid, name }) => [uuid, name && shared.has(name) ? `${name} ${uuid}` : name]));
}

const ORDER = ['VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB'];
const order = (name) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);

export const fleet = new FleetData();
