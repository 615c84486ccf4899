//! The hosts, as the stream of the page tells of them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// The names of conditions, by their numbers in the stream. `Sort::State` puts hosts with a higher number first.
pub(super) const CONDITIONS: [&str; 5] = ["up", "disabled", "down", "forced down", "unreported"];

/// A resource class of a host, as its shape has it: the name, the capacity with overcommit, the physical total, and how
/// much of that is reserved. A shape is a list of these; many hosts have the same one.
pub(super) type ShapeClass = (String, i64, i64, i64);

/// The data of one event of the stream. Values of further kinds, such as traits, are not read. The lists of cells,
/// zones and shapes have new values only. The values of each kind are numbered from 0, and the rows of hosts name them
/// by these numbers; `…_from` is the number of the first value in the list. A server of an earlier release does not
/// send `…_from`: there the first value has the number after the last known one. After a broken stream, some of the
/// values come again.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event {
    /// The UUID and the name of each cell; `None` stands for no cell.
    cells: Vec<Option<(String, String)>>,
    cells_from: Option<usize>,
    zones: Vec<Option<String>>,
    zones_from: Option<usize>,
    shapes: Vec<Vec<ShapeClass>>,
    shapes_from: Option<usize>,
    hosts: Vec<HostRow>,
    /// Of each host: the slot, the condition, a value that is not read, the number of instances, and what is used of
    /// each class of its shape.
    live: Vec<Vec<i64>>,
    /// The slots of hosts that do not exist any more.
    gone: Vec<u32>,
}

/// What seldom changes of a host, as a JSON list: its slot, UUID, host, node, and the numbers of its cell, zone,
/// aggregates, traits and shape.
#[derive(Debug, Deserialize)]
struct HostRow(
    u32,
    IgnoredAny,
    String,
    IgnoredAny,
    usize,
    usize,
    IgnoredAny,
    IgnoredAny,
    usize,
);

/// A host with its usage.
#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) name: String,
    /// The number of its cell.
    cell: usize,
    /// The number of its zone.
    zone: usize,
    /// The number of its shape.
    shape: usize,
    /// The index in [`CONDITIONS`].
    pub(super) condition: usize,
    pub(super) instances: i64,
    /// What is used of each class of the shape.
    used: Vec<i64>,
}

/// All hosts as the stream of the page has told of them.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    hosts: BTreeMap<u32, Host>,
    cells: Vec<Option<(String, String)>>,
    zones: Vec<Option<String>>,
    shapes: Vec<Vec<ShapeClass>>,
    /// The id of the last event after which all hosts were known.
    position: Option<String>,
}

/// The sums of a resource class over hosts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) class: String,
    pub(super) used: i64,
    pub(super) capacity: i64,
    /// What physically exists and is not reserved.
    pub(super) physical: i64,
}

/// Puts values of an event at their numbers, of which the first is `from`; without it, they follow the known values.
fn put_values<T>(values: &mut Vec<T>, from: Option<usize>, new: Vec<T>) {
    let from = from.unwrap_or(values.len());
    for (number, value) in (from..).zip(new) {
        match values.get_mut(number) {
            Some(known) => *known = value,
            None => values.push(value),
        }
    }
}

impl Fleet {
    /// Whether all hosts are known.
    pub(super) fn is_complete(&self) -> bool {
        self.position.is_some()
    }

    /// The position from which the stream continues.
    pub(super) fn position(&self) -> Option<&str> {
        self.position.as_deref()
    }

    /// Applies an event of the stream: the lines up to the empty one.
    ///
    /// # Errors
    ///
    /// The data of the event is not what this program reads.
    pub(super) fn apply(&mut self, event: &str) -> Result<(), serde_json::Error> {
        let (mut name, mut id, mut data) = ("", "", "");
        for line in event.lines() {
            match line.split_once(": ") {
                Some(("event", text)) => name = text,
                Some(("id", text)) => id = text,
                Some(("data", text)) => data = text,
                // A comment, by which the service shows that it is there.
                _ => {}
            }
        }
        match name {
            "reset" => *self = Self::default(),
            "end" => self.position = Some(id.to_owned()),
            _ if data.is_empty() => {}
            _ => self.apply_rows(serde_json::from_str(data)?),
        }
        Ok(())
    }

    fn apply_rows(&mut self, event: Event) {
        put_values(&mut self.cells, event.cells_from, event.cells);
        put_values(&mut self.zones, event.zones_from, event.zones);
        put_values(&mut self.shapes, event.shapes_from, event.shapes);
        for HostRow(slot, _, name, _, cell, zone, _, _, shape) in event.hosts {
            let host = self.hosts.entry(slot).or_default();
            (host.name, host.cell, host.zone, host.shape) = (name, cell, zone, shape);
        }
        for row in event.live {
            let [slot, condition, _, instances, used @ ..] = &*row else {
                continue;
            };
            let slot = u32::try_from(*slot).ok();
            if let Some(host) = slot.and_then(|slot| self.hosts.get_mut(&slot)) {
                host.condition = usize::try_from(*condition).unwrap_or(usize::MAX);
                host.instances = *instances;
                host.used = used.to_vec();
            }
        }
        for slot in event.gone {
            self.hosts.remove(&slot);
        }
    }

    /// The hosts, of one cell or of all.
    pub(super) fn hosts<'a>(&'a self, cell: Option<&'a str>) -> impl Iterator<Item = &'a Host> {
        let hosts = self.hosts.values();
        hosts.filter(move |host| cell.is_none_or(|wanted| self.is_in(host, wanted)))
    }

    /// Whether a host is in a cell, which may be given by its name or UUID.
    fn is_in(&self, host: &Host, wanted: &str) -> bool {
        let cell = self.cells.get(host.cell).and_then(Option::as_ref);
        cell.is_some_and(|(uuid, name)| name == wanted || uuid == wanted)
    }

    /// The names of the cells that have hosts, in order. A cell without a name has its UUID.
    pub(super) fn cell_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.hosts.values().map(|host| self.cell(host)).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !name.is_empty());
        names
    }

    /// The name of a host's cell, or its UUID if it has no name; empty for a host without a cell.
    pub(super) fn cell(&self, host: &Host) -> &str {
        match self.cells.get(host.cell) {
            Some(Some((uuid, name))) if name.is_empty() => uuid,
            Some(Some((_, name))) => name,
            _ => "",
        }
    }

    /// The zone of a host; empty for a host without one.
    pub(super) fn zone(&self, host: &Host) -> &str {
        let zone = self.zones.get(host.zone).and_then(Option::as_deref);
        zone.unwrap_or_default()
    }

    /// The resource classes of a host, with what is used of each.
    pub(super) fn amounts<'a>(
        &'a self,
        host: &'a Host,
    ) -> impl Iterator<Item = (&'a ShapeClass, i64)> {
        let shape = self.shapes.get(host.shape).map_or(&[][..], Vec::as_slice);
        let used = host.used.iter().copied().chain(std::iter::repeat(0));
        shape.iter().zip(used)
    }

    /// The used share of a resource class of a host; `None` if it has none of the class.
    pub(super) fn share(&self, host: &Host, class: &str) -> Option<f64> {
        let mut amounts = self.amounts(host);
        let ((_, capacity, ..), used) = amounts.find(|((name, ..), _)| name == class)?;
        share(used, *capacity)
    }

    /// The load of a host: the largest used share of its resource classes.
    pub(super) fn load(&self, host: &Host) -> f64 {
        let shares = self.amounts(host);
        let shares = shares.filter_map(|((_, capacity, ..), used)| share(used, *capacity));
        shares.fold(0.0, f64::max)
    }

    /// The sums by resource class over hosts, the usual classes first.
    pub(super) fn totals<'a>(&'a self, hosts: impl Iterator<Item = &'a Host>) -> Vec<Total> {
        let mut sums: BTreeMap<(usize, &str), Total> = BTreeMap::new();
        for host in hosts {
            for ((class, capacity, total, reserved), used) in self.amounts(host) {
                let key = (order_of(class), class.as_str());
                let sum = sums.entry(key).or_insert_with(|| Total {
                    class: class.clone(),
                    ..Total::default()
                });
                sum.used = sum.used.saturating_add(used);
                sum.capacity = sum.capacity.saturating_add(*capacity);
                let physical = total.saturating_sub(*reserved);
                sum.physical = sum.physical.saturating_add(physical);
            }
        }
        sums.into_values().collect()
    }
}

/// The classes that come before all others.
const USUAL_CLASSES: [&str; 4] = ["VCPU", "PCPU", "MEMORY_MB", "DISK_GB"];

fn order_of(class: &str) -> usize {
    let position = USUAL_CLASSES.iter().position(|usual| *usual == class);
    position.unwrap_or(USUAL_CLASSES.len())
}

/// The used share of a capacity; `None` if there is no capacity.
#[allow(clippy::cast_precision_loss, reason = "it is printed in per cent")]
pub(super) fn share(used: i64, capacity: i64) -> Option<f64> {
    (capacity > 0).then(|| used as f64 / capacity as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    const ROWS: &str = r#"data: {"cells":[["c1","east"],null],"zones":["nova",null],"aggregates":[[]],"traits":[[]],
"shapes":[[["VCPU",24,8,2],["MEMORY_MB",8192,8192,0]]],
"hosts":[[3,"u3","host-3",0,0,0,0,0,0],[4,"u4","host-4","node-4",1,1,0,0,0]],
"live":[[3,0,0,2,6,8192],[4,2,4,0,0,0]],"gone":[]}"#;

    fn fleet() -> Fleet {
        let mut fleet = Fleet::default();
        fleet.apply(&ROWS.replace('\n', "")).unwrap();
        fleet
    }

    #[test]
    fn events_make_hosts_with_amounts() {
        let mut fleet = fleet();
        assert!(!fleet.is_complete());
        fleet.apply("id: 7.1\nevent: end\ndata: {}").unwrap();
        assert_eq!(fleet.position(), Some("7.1"));
        fleet.apply(": alive").unwrap();
        let hosts: Vec<_> = fleet.hosts(None).collect();
        assert_eq!(hosts.len(), 2);
        assert_eq!(
            (fleet.cell(hosts[0]), fleet.zone(hosts[0])),
            ("east", "nova")
        );
        assert_eq!((fleet.cell(hosts[1]), fleet.zone(hosts[1])), ("", ""));
        assert_eq!(fleet.share(hosts[0], "VCPU"), Some(0.25));
        assert!((fleet.load(hosts[0]) - 1.0).abs() < f64::EPSILON);
        assert_eq!(CONDITIONS[hosts[1].condition], "down");
        assert_eq!(fleet.hosts(Some("east")).count(), 1);
        assert_eq!(fleet.hosts(Some("c1")).count(), 1);
        assert_eq!(fleet.cell_names(), ["east"]);
        let totals = fleet.totals(fleet.hosts(None));
        let vcpu = &totals[0];
        assert_eq!((vcpu.used, vcpu.capacity, vcpu.physical), (6, 48, 12));
    }

    #[test]
    fn later_events_change_and_remove_hosts_and_a_reset_begins_anew() {
        let mut fleet = fleet();
        fleet
            .apply(r#"data: {"hosts":[],"live":[[3,1,0,1,2,1024]],"gone":[4]}"#)
            .unwrap();
        let hosts: Vec<_> = fleet.hosts(None).collect();
        assert_eq!(
            (hosts.len(), hosts[0].condition, hosts[0].instances),
            (1, 1, 1)
        );
        fleet.apply("event: reset\ndata: {}").unwrap();
        assert_eq!(fleet.hosts(None).count(), 0);
        assert!(fleet.apply("data: [").is_err());
    }
}
