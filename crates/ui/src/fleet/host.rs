//! Reads what a row has of one host from the state.

use std::fmt::Write as _;

use placewright_conductor::{CellId, ControlState, HostId};
use placewright_placement::{ClassId, Provider, ProviderId, State, Timestamp};
use placewright_scheduler::aggregate::ZONE_KEY;
use placewright_scheduler::host_table::HostTable;
use smallvec::SmallVec;
use uuid::Uuid;

/// An amount for each resource class of the host, in the order of its shape (see [`write_shape`]).
pub(super) type Amounts = SmallVec<[i64; 4]>;

/// The part of a row that changes with each claim: amounts used, and the number of consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) consumer_count: u32,
    /// The used amounts, in the order of the classes in [`write_shape`].
    pub(super) used: Amounts,
}

/// Whether a host can take instances, as a page shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Up = 0,
    /// The host is up, but takes no new instances.
    Disabled = 1,
    /// The host is silent, or its agent says that it is down.
    Down = 2,
    /// An operator forced the host down.
    ForcedDown = 3,
    /// Placement has the host, but no agent reports it to the scheduler.
    Unreported = 4,
}

/// The bounds of the ranges into which a page sorts hosts by the age of their last report, in microseconds.
const AGES: [i64; 4] = [15_000_000, 60_000_000, 300_000_000, 3_600_000_000];

/// The number of the range in which an age in microseconds lies: 0 for the youngest reports.
pub(super) fn age_range(age: i64) -> u8 {
    AGES.iter().map(|bound| u8::from(age > *bound)).sum()
}

/// Everything about a host but its usage.
#[derive(Debug)]
pub(super) struct Description<'a> {
    pub(super) uuid: Uuid,
    pub(super) host: &'a str,
    pub(super) node: &'a str,
    pub(super) condition: Condition,
    /// The range of the age of the host's latest report; see [`age_range`].
    pub(super) age: u8,
    /// The UUID and the name of the host's cell; `None` if no agent reported the host.
    pub(super) cell: Option<(Uuid, &'a str)>,
    pub(super) zone: Option<&'a str>,
}

/// The root provider in a slot, if it is a host. Sharing providers are roots, too, but only give resources to hosts and
/// take no instances.
pub(super) fn root(state: &State, slot: u32) -> Option<&Provider> {
    let provider = state.provider(ProviderId(slot))?;
    let is_sharing = |id| provider.has_trait(id);
    let is_host = provider.parent.is_none() && !state.sharing_trait().is_some_and(is_sharing);
    is_host.then_some(provider)
}

/// The providers of the tree of a root, the root first.
fn tree<'a>(
    state: &'a State,
    slot: u32,
    root: &'a Provider,
) -> impl Iterator<Item = &'a Provider> + use<'a> {
    let below = match root.children.is_empty() {
        true => Vec::new(),
        false => state.subtree(ProviderId(slot)),
    };
    let below = below.into_iter().filter(move |id| id.0 != slot);
    std::iter::once(root).chain(below.filter_map(|id| state.provider(id)))
}

/// The usage of a host: of its whole tree.
pub(super) fn usage(state: &State, slot: u32, root: &Provider) -> Usage {
    if root.children.is_empty() {
        return Usage {
            consumer_count: count(root.consumers.len()),
            used: root.inventories.iter().map(|row| row.used).collect(),
        };
    }
    let mut consumers = Vec::new();
    let mut used: SmallVec<[(ClassId, i64); 8]> = SmallVec::new();
    for provider in tree(state, slot, root) {
        consumers.extend_from_slice(&provider.consumers);
        for row in &provider.inventories {
            match used.iter_mut().find(|(class, _)| *class == row.class) {
                Some((_, amount)) => *amount = amount.saturating_add(row.used),
                None => used.push((row.class, row.used)),
            }
        }
    }
    consumers.sort_unstable();
    consumers.dedup();
    used.sort_unstable_by_key(|(class, _)| *class);
    Usage {
        consumer_count: count(consumers.len()),
        used: used.into_iter().map(|(_, amount)| amount).collect(),
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The shape of a host, as JSON: each resource class of its tree with its sums over the tree, `[["VCPU", capacity,
/// total, reserved], …]`. Many hosts have the same shape.
pub(super) fn write_shape(out: &mut String, state: &State, slot: u32, root: &Provider) {
    let mut amounts: SmallVec<[(ClassId, [i64; 3]); 8]> = SmallVec::new();
    for provider in tree(state, slot, root) {
        for row in &provider.inventories {
            let more = [
                row.capacity,
                i64::from(row.inventory.total),
                i64::from(row.inventory.reserved),
            ];
            match amounts.iter_mut().find(|(class, _)| *class == row.class) {
                Some((_, sums)) => {
                    let pairs = sums.iter_mut().zip(more);
                    pairs.for_each(|(sum, more)| *sum = sum.saturating_add(more));
                }
                None => amounts.push((row.class, more)),
            }
        }
    }
    amounts.sort_unstable_by_key(|(class, _)| *class);
    write_list(out, amounts, |out, (class, [capacity, total, reserved])| {
        // The name of a class has letters, digits and underscores only.
        let name = state.class_name(class);
        let _ = write!(out, "[\"{name}\",{capacity},{total},{reserved}]");
    });
}

/// The aggregates of a host, as a JSON list of UUIDs.
pub(super) fn write_aggregates(out: &mut String, state: &State, root: &Provider) {
    write_list(out, &root.aggregates, |out, id| {
        write_text(out, state.aggregate_uuid(*id));
    });
}

/// The traits of a host, as a JSON list of names.
pub(super) fn write_traits(out: &mut String, state: &State, root: &Provider) {
    write_list(out, &root.traits, |out, id| {
        write_text(out, state.trait_name(*id));
    });
}

/// The cell of a host, as JSON: its UUID and name; `null` if there is none.
pub(super) fn write_cell(out: &mut String, cell: Option<(Uuid, &str)>) {
    let Some((cell, name)) = cell else {
        out.push_str("null");
        return;
    };
    let _ = write!(out, "[\"{cell}\",");
    write_text(out, name);
    out.push(']');
}

/// The zone of a host, as JSON; `null` if there is none.
pub(super) fn write_zone(out: &mut String, zone: Option<&str>) {
    match zone {
        Some(zone) => write_text(out, zone),
        None => out.push_str("null"),
    }
}

/// The name of a cell; empty if control does not know it.
fn cell_name(control: &ControlState, cell: Uuid) -> &str {
    let row = control.conductor.cells().get(&CellId(cell));
    row.map_or("", |row| &row.name)
}

/// Describes a host as it is now. `root` is the host's provider; `hosts` has the host's state if an agent reports it.
pub(super) fn describe<'a>(
    control: &'a ControlState,
    root: &'a Provider,
    hosts: &'a HostTable,
    slot: u32,
    now: Timestamp,
) -> Description<'a> {
    let zone = hosts.aggregates().zone(slot);
    let Some(state) = hosts.get(slot) else {
        return Description {
            uuid: root.uuid,
            host: &root.name,
            node: &root.name,
            condition: Condition::Unreported,
            age: 0,
            cell: None,
            zone,
        };
    };
    // The scheduler counts a host as forced down also if its agent is silent, or reports it as down. Only what an
    // operator forced down is "forced down" for the page.
    let is_forced_by_operator = || {
        let service = control.conductor.services().get(&HostId(root.uuid));
        service.is_some_and(|service| service.forced_down)
    };
    let condition = if state.is_forced_down && is_forced_by_operator() {
        Condition::ForcedDown
    } else if !hosts.up().contains(slot) {
        Condition::Down
    } else if state.disabled.is_some() {
        Condition::Disabled
    } else {
        Condition::Up
    };
    Description {
        uuid: root.uuid,
        host: &state.names.service_host,
        node: &state.names.node,
        condition,
        age: age_range(now.0.saturating_sub(state.reported_at.0)),
        cell: Some((state.names.cell, cell_name(control, state.names.cell))),
        zone,
    }
}

/// Describes a host of a state of the past. The journal does not have what agents report. So the condition is what
/// operators had set, and a host counts as unreported if no cell had told control of it.
pub(super) fn describe_past<'a>(control: &'a ControlState, root: &'a Provider) -> Description<'a> {
    let conductor = &control.conductor;
    let id = HostId(root.uuid);
    let mapping = conductor.hosts().get(&id);
    let service = conductor.services().get(&id);
    let condition = if service.is_some_and(|service| service.forced_down) {
        Condition::ForcedDown
    } else if service.is_some_and(|service| service.disabled) {
        Condition::Disabled
    } else if mapping.is_some() {
        Condition::Up
    } else {
        Condition::Unreported
    };
    let zones = root.aggregates.iter().filter_map(|id| {
        let uuid = control.placement.aggregate_uuid(*id);
        let uuid = Uuid::parse_str(uuid).ok()?;
        let aggregate = conductor.aggregates().get(&uuid)?;
        aggregate.metadata.get(ZONE_KEY)
    });
    Description {
        uuid: root.uuid,
        host: mapping.map_or(&root.name, |mapping| &mapping.name),
        node: &root.name,
        condition,
        age: 0,
        cell: mapping.map(|mapping| (mapping.cell.0, cell_name(control, mapping.cell.0))),
        zone: zones.min().map(String::as_str),
    }
}

/// Writes a text as JSON.
pub(super) fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            '\u{0}'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            _ => out.push(letter),
        }
    }
    out.push('"');
}

/// Writes a list as JSON.
pub(super) fn write_list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push('[');
    for (number, item) in items.into_iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}
