//! The rows of all hosts with the versions in which they changed, and how they are written for pages.

use std::fmt::Write as _;

use placewright_conductor::ControlState;
use placewright_control::now;
use placewright_placement::{Provider, State, Timestamp};
use placewright_scheduler::host_table::HostTable;
use uuid::Uuid;

use super::dictionary::Dictionary;
use super::host::{self, Condition, Description, Usage, write_list, write_text};

/// When a kind has more than this many values, and more than twice as many as there are hosts, most of its values are
/// unused, and the view begins anew.
const VALUES_MAX: usize = 1 << 17;

/// The kinds of values that hosts have in common, in the order of their names in [`KINDS`]. A shape is the list of a
/// host's inventories.
const CELL: usize = 0;
const ZONE: usize = 1;
const AGGREGATES: usize = 2;
const TRAITS: usize = 3;
const SHAPE: usize = 4;

/// The names of the kinds of values, as pages know them.
const KINDS: [&str; 5] = ["cells", "zones", "aggregates", "traits", "shapes"];

/// One item for each kind of values.
pub(super) type ByKind<T> = [T; KINDS.len()];

/// The row of a slot.
#[derive(Debug, Default)]
struct Row {
    /// The version in which anything of the host last changed; 0 if there never was a host.
    changed: u64,
    /// The version in which something of the host besides its usage and condition last changed.
    described: u64,
    /// The host; `None` if it was removed.
    host: Option<Host>,
}

#[derive(Debug, PartialEq)]
struct Host {
    names: Names,
    live: Live,
}

/// The part of a row that seldom changes.
#[derive(Debug, PartialEq)]
struct Names {
    uuid: Uuid,
    host: Box<str>,
    /// The name of the node; `None` if it is that of the host.
    node: Option<Box<str>>,
    /// The numbers of the host's values in the dictionaries of their kinds.
    values: ByKind<u32>,
}

/// The part of a row that changes often.
#[derive(Debug, PartialEq)]
struct Live {
    condition: Condition,
    /// The number of the range in which the age of the last report lies.
    age: u8,
    usage: Usage,
}

/// The rows by slot.
pub(super) struct Rows {
    /// Distinguishes these versions from those of another process, and from those before the view began anew.
    epoch: u64,
    /// The version that the last ended look made.
    version: u64,
    rows: Vec<Row>,
    /// The version in which the names of aggregates or the levels of the topology last changed.
    names_version: u64,
    host_count: usize,
    /// By kind: the values that hosts have, or had.
    values: ByKind<Dictionary>,
    /// A buffer for texts, kept so that its memory is used again.
    scratch: String,
}

impl Rows {
    pub(super) fn new() -> Self {
        Self {
            // The present time in microseconds, so that it differs from the epochs that a page may have from earlier
            // processes.
            epoch: u64::try_from(now().0).unwrap_or(0),
            version: 0,
            rows: Vec::new(),
            names_version: 0,
            host_count: 0,
            values: Default::default(),
            scratch: String::new(),
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The version in which the names of aggregates or the levels of the topology last changed. A page that has read
    /// them for another one reads them again.
    pub(super) fn names_version(&self) -> u64 {
        self.names_version
    }

    /// Notes that the look under way found new names of aggregates or another topology.
    pub(super) fn note_names(&mut self) {
        self.names_version = self.version + 1;
    }

    /// The number of rows: one for each slot up to the highest that ever had a host.
    pub(super) fn slot_count(&self) -> usize {
        self.rows.len()
    }

    /// Ends a look that found a change.
    pub(super) fn end_look(&mut self) {
        self.version += 1;
    }

    /// Begins anew if there are too many values that no host has any more; returns whether it did.
    pub(super) fn begin_anew_if_grown(&mut self) -> bool {
        let is_grown = |values: &Dictionary| values.len() > VALUES_MAX.max(2 * self.host_count);
        let begins = self.values.iter().any(is_grown);
        if begins {
            *self = Self::new();
        }
        begins
    }

    /// Updates the usage in the row of a slot. Returns whether it changed; false if the slot has no row yet.
    pub(super) fn look_at_usage(&mut self, state: &State, slot: u32) -> bool {
        let next = self.version + 1;
        let row = self.rows.get_mut(slot as usize);
        let Some((row, root)) = row.zip(host::root(state, slot)) else {
            return false;
        };
        let Some(known) = &mut row.host else {
            return false;
        };
        let usage = host::usage(state, slot, root);
        let is_new = known.live.usage != usage;
        if is_new {
            known.live.usage = usage;
            row.changed = next;
        }
        is_new
    }

    /// Updates the whole row of a slot. Returns whether anything changed.
    pub(super) fn look_at(
        &mut self,
        control: &ControlState,
        hosts: &HostTable,
        slot: u32,
        now: Timestamp,
    ) -> bool {
        let root = host::root(&control.placement, slot);
        let found = root.map(|root| {
            let description = host::describe(control, root, hosts, slot, now);
            self.read(&control.placement, slot, root, &description)
        });
        self.put(slot, found)
    }

    /// Updates the whole row of a slot from a state of the past.
    pub(super) fn look_at_past(&mut self, control: &ControlState, slot: u32) {
        let root = host::root(&control.placement, slot);
        let found = root.map(|root| {
            let description = host::describe_past(control, root);
            self.read(&control.placement, slot, root, &description)
        });
        self.put(slot, found);
    }

    /// Puts what was found in a slot into its row. Returns whether anything changed.
    fn put(&mut self, slot: u32, found: Option<Host>) -> bool {
        let next = self.version + 1;
        let index = slot as usize;
        if index >= self.rows.len() {
            if found.is_none() {
                return false;
            }
            self.rows.resize_with(index + 1, Row::default);
        }
        let Some(row) = self.rows.get_mut(index) else {
            return false;
        };
        if row.host == found {
            return false;
        }
        // Pages get the description again only if it has changed. The cheaper comparison comes first.
        let names = |host: &Host| (host.names.uuid, host.names.values);
        let keeps_names = match (&row.host, &found) {
            (Some(old), Some(new)) => names(old) == names(new) && old.names == new.names,
            _ => false,
        };
        if !keeps_names {
            row.described = next;
        }
        self.host_count += usize::from(found.is_some());
        self.host_count -= usize::from(row.host.is_some());
        row.changed = next;
        row.host = found;
        true
    }

    /// The row of a host. Values that no other host has had are added to their dictionaries.
    fn read(
        &mut self,
        state: &State,
        slot: u32,
        root: &Provider,
        description: &Description<'_>,
    ) -> Host {
        let next = self.version + 1;
        let mut number = |kind: usize, write: &mut dyn FnMut(&mut String)| {
            self.scratch.clear();
            write(&mut self.scratch);
            self.values[kind].number_of(&self.scratch, next)
        };
        let mut values = ByKind::default();
        values[CELL] = number(CELL, &mut |out| host::write_cell(out, description.cell));
        values[ZONE] = number(ZONE, &mut |out| host::write_zone(out, description.zone));
        values[AGGREGATES] = number(AGGREGATES, &mut |out| {
            host::write_aggregates(out, state, root);
        });
        values[TRAITS] = number(TRAITS, &mut |out| host::write_traits(out, state, root));
        values[SHAPE] = number(SHAPE, &mut |out| host::write_shape(out, state, slot, root));
        let node = (description.node != description.host).then(|| description.node.into());
        Host {
            names: Names {
                uuid: description.uuid,
                host: description.host.into(),
                node,
                values,
            },
            live: Live {
                condition: description.condition,
                age: description.age,
                usage: host::usage(state, slot, root),
            },
        }
    }

    /// How many values of each kind are known to a page that has all rows up to this version.
    pub(super) fn known_at(&self, version: u64) -> ByKind<usize> {
        self.values
            .each_ref()
            .map(|values| values.known_at(version))
    }

    /// Writes the rows in these slots that changed after the version `after`, as the data of one event, with the values
    /// that the page does not know yet. `known` is the number of values of each kind that the page knows, and is
    /// updated. Returns `None` if there is nothing to write.
    pub(super) fn write(
        &self,
        slots: impl Iterator<Item = u32>,
        after: u64,
        known: &mut ByKind<usize>,
    ) -> Option<String> {
        let (mut described, mut live, mut gone) = (String::new(), String::new(), String::new());
        for slot in slots {
            let Some(row) = self.rows.get(slot as usize) else {
                continue;
            };
            if row.changed <= after {
                continue;
            }
            match &row.host {
                None => write_number(&mut gone, slot),
                Some(host) if row.described > after => {
                    write_names(&mut described, slot, &host.names);
                    write_live(&mut live, slot, &host.live);
                }
                Some(host) => write_live(&mut live, slot, &host.live),
            }
        }
        if described.is_empty() && live.is_empty() && gone.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(described.len() + live.len() + gone.len() + 128);
        out.push('{');
        for (kind, (name, values)) in KINDS.iter().zip(&self.values).enumerate() {
            if known[kind] < values.len() {
                // The number of the first value tells a page that has some of the values already where they belong.
                let _ = write!(out, "\"{name}_from\":{},\"{name}\":", known[kind]);
                write_list(&mut out, values.from(known[kind]), |out, value| {
                    out.push_str(value);
                });
                out.push(',');
                known[kind] = values.len();
            }
        }
        let _ = write!(
            out,
            "\"hosts\":[{described}],\"live\":[{live}],\"gone\":[{gone}]}}"
        );
        Some(out)
    }
}

fn comma(out: &mut String) {
    if !out.is_empty() {
        out.push(',');
    }
}

fn write_number(out: &mut String, number: u32) {
    comma(out);
    let _ = write!(out, "{number}");
}

/// Writes `[slot, uuid, host, node or 0, cell, zone, aggregates, traits, shape]`, where the last five are numbers of
/// values.
fn write_names(out: &mut String, slot: u32, names: &Names) {
    comma(out);
    let _ = write!(out, "[{slot},\"{}\",", names.uuid);
    write_text(out, &names.host);
    out.push(',');
    match &names.node {
        Some(node) => write_text(out, node),
        None => out.push('0'),
    }
    for number in names.values {
        let _ = write!(out, ",{number}");
    }
    out.push(']');
}

/// Writes `[slot, condition, range of age, consumers, used …]`, with one amount used for each class of the shape.
fn write_live(out: &mut String, slot: u32, live: &Live) {
    comma(out);
    let (condition, consumer_count) = (live.condition as u8, live.usage.consumer_count);
    let _ = write!(out, "[{slot},{condition},{},{consumer_count}", live.age);
    for amount in &live.usage.used {
        let _ = write!(out, ",{amount}");
    }
    out.push(']');
}
