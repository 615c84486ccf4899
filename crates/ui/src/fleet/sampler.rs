//! The sampler: looks at the hosts that may have changed, in slices, as long as pages follow.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use bytes::Bytes;
use placewright_conductor::ControlState;
use placewright_control::now;
use placewright_placement::group::Level;
use placewright_placement::tree_changes::ChangeKind;
use placewright_scheduler::aggregate::Aggregates;
use placewright_scheduler::host_table::HostTable;
use placewright_tasks::{ContainedWork, spawn_contained};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Look, Shared};

/// The shortest time between two looks. It is longer after a look that took long: see [`REST`].
const INTERVAL: Duration = Duration::from_millis(500);
/// After each look, the sampler rests for at least this many times the duration of the look, so that it uses at most a
/// twentieth of a processor.
const REST: u32 = 19;
/// How many hosts are looked at under one lock of the state, which takes well below a millisecond.
const SLICE: usize = 256;
/// Besides the slots of which a change is known, each look takes the next ones in turn: at least `TURN_MIN` slots, and
/// one in `TURN_PART` of all. So changes that no log reports (names, cells, the ages of reports) are seen within some
/// seconds.
const TURN_MIN: usize = 512;
const TURN_PART: usize = 20;
/// How long the sampler continues after the last page has stopped following.
const LINGER: Duration = Duration::from_secs(15);
/// The most changed hosts for which one look writes events for all pages. When more changed, each stream reads the rows
/// itself, in pieces.
const WRITTEN_MAX: usize = 8192;

/// Makes sure that the sampler runs.
pub(super) fn ensure(shared: &Arc<Shared>, stopping: &watch::Receiver<bool>) {
    let mut is_sampler_running = shared.is_sampler_running.lock();
    if std::mem::replace(&mut *is_sampler_running, true) {
        return;
    }
    drop(is_sampler_running);
    let sampler = Sampler {
        running: Running(Arc::clone(shared)),
        position: None,
        turn: 0,
        up_and_enabled: Vec::new(),
        places: Places::default(),
    };
    spawn_contained(ContainedWork::HttpConnection, sampler.run(stopping.clone()));
}

/// Dropped when the sampler ends, or panics: then the sampler counts as not running any more.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.is_sampler_running.lock() = false;
    }
}

struct Sampler {
    running: Running,
    /// The position in placement's tree change log up to which all changes were looked at; `None` if every slot has to
    /// be looked at.
    position: Option<u64>,
    /// The slot at which the next turn begins.
    turn: u32,
    /// By word of 64 slots: which hosts are up, and which enabled.
    up_and_enabled: Vec<(u64, u64)>,
    places: Places,
}

/// The names of aggregates and the topology, as the last look found them. Pages read them from the scheduler's API.
#[derive(Default)]
struct Places {
    /// The version of the aggregates, and a digest of their names.
    aggregates: Option<(u64, u64)>,
    levels: Vec<Level>,
}

impl Places {
    /// Looks at the names, and returns whether any changed.
    fn look_at(&mut self, aggregates: &Aggregates, levels: &[Level]) -> bool {
        let version = aggregates.version();
        let is_known = self.aggregates.is_some_and(|(known, _)| known == version);
        let mut is_new = false;
        if !is_known {
            // Most changes of aggregates are about their hosts, which are in the rows.
            let mut digest = DefaultHasher::new();
            for (uuid, aggregate) in aggregates.iter() {
                (uuid, &aggregate.name).hash(&mut digest);
            }
            let digest = digest.finish();
            is_new = self.aggregates.is_none_or(|(_, known)| known != digest);
            self.aggregates = Some((version, digest));
        }
        if self.levels != levels {
            self.levels = levels.to_vec();
            is_new = true;
        }
        is_new
    }
}

/// The slots to look at, and whether only their usage changed.
type Changed = BTreeMap<u32, bool>;

impl Sampler {
    async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut last_followed = Instant::now();
        loop {
            // The standard library's clock goes on where tests pause tokio's.
            let begun = StdInstant::now();
            self.look().await;
            let shared = &self.running.0;
            if shared.has_followers() {
                last_followed = Instant::now();
            } else if last_followed.elapsed() > LINGER {
                return;
            }
            let rest = INTERVAL.max(begun.elapsed() * REST);
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                _ = stopping.wait_for(|stopping| *stopping) => return,
            }
        }
    }

    /// Looks at the slots that may have changed since the last look, and passes the events to the streams.
    async fn look(&mut self) {
        if self.running.0.rows.lock().begin_anew_if_grown() {
            self.position = None;
        }
        let (changed, has_new_names) = self.changed();
        let shared = Arc::clone(&self.running.0);
        let mut found = Vec::new();
        let changed: Vec<(u32, bool)> = changed.into_iter().collect();
        for slice in changed.chunks(SLICE) {
            look_at_slice(&shared, slice, &mut found);
            tokio::task::yield_now().await;
        }
        if found.is_empty() && !has_new_names {
            return;
        }
        let look = {
            let mut rows = shared.rows.lock();
            let from = rows.version();
            if has_new_names {
                rows.note_names();
            }
            rows.end_look();
            let to = rows.version();
            let events = (found.len() <= WRITTEN_MAX).then(|| {
                let mut known = rows.known_at(from);
                let data = rows.write(found.iter().copied(), from, &mut known);
                let mut events = data.map_or_else(String::new, |data| super::stream::event(&data));
                events.push_str(&super::stream::end_event(
                    rows.epoch(),
                    to,
                    rows.names_version(),
                ));
                Bytes::from(events)
            });
            Look { from, to, events }
        };
        shared.looks.send_replace(Arc::new(look));
    }

    /// The slots that may have changed since the last look, and whether the names of aggregates or the topology
    /// changed, which are not in rows.
    fn changed(&mut self) -> (Changed, bool) {
        let shared = Arc::clone(&self.running.0);
        let known_slot_count = shared.rows.lock().slot_count();
        shared.scheduler.with_state(|scheduler, control| {
            let (log, slot_count) = (
                control.placement.tree_changes(),
                control.placement.provider_slots(),
            );
            let mut changed = Changed::new();
            match self.position.and_then(|position| log.since(position)) {
                Some(changes) => {
                    for change in changes {
                        let only_usage = change.kind != ChangeKind::Anything;
                        let entry = changed.entry(change.root.0).or_insert(true);
                        *entry &= only_usage;
                    }
                }
                None => {
                    changed.extend(
                        (0..as_slot(slot_count.max(known_slot_count))).map(|slot| (slot, false)),
                    );
                }
            }
            self.position = Some(log.position());
            self.add_conditions(scheduler.hosts(), slot_count, &mut changed);
            self.add_turn(slot_count.max(known_slot_count), &mut changed);
            let aggregates = scheduler.hosts().aggregates();
            let has_new_names = self.places.look_at(aggregates, control.placement.levels());
            (changed, has_new_names)
        })
    }

    /// Adds the hosts that went up or down, or were enabled or disabled.
    fn add_conditions(&mut self, hosts: &HostTable, slot_count: usize, changed: &mut Changed) {
        self.up_and_enabled.resize(slot_count.div_ceil(64), (0, 0));
        for (word, known) in self.up_and_enabled.iter_mut().enumerate() {
            let present = (hosts.up().word(word), hosts.enabled().word(word));
            let mut bits = (present.0 ^ known.0) | (present.1 ^ known.1);
            *known = present;
            while bits != 0 {
                changed.insert(as_slot(word * 64) + bits.trailing_zeros(), false);
                bits &= bits - 1;
            }
        }
    }

    /// Adds the slots whose turn it is.
    fn add_turn(&mut self, slot_count: usize, changed: &mut Changed) {
        let part = TURN_MIN.max(slot_count / TURN_PART).min(slot_count);
        for _ in 0..part {
            if self.turn as usize >= slot_count {
                self.turn = 0;
            }
            changed.insert(self.turn, false);
            self.turn += 1;
        }
    }
}

fn as_slot(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Looks at the slots of a slice, and adds those that changed to `found`.
fn look_at_slice(shared: &Shared, slice: &[(u32, bool)], found: &mut Vec<u32>) {
    let now = now();
    // Without the host table, only the usage of the hosts is read.
    let mut look = |control: &ControlState, hosts: Option<&HostTable>| {
        let mut rows = shared.rows.lock();
        for (slot, _) in slice {
            let is_changed = match hosts {
                Some(hosts) => rows.look_at(control, hosts, *slot, now),
                None => rows.look_at_usage(&control.placement, *slot),
            };
            if is_changed {
                found.push(*slot);
            }
        }
    };
    // Usage is read from placement alone, so the scheduler need not be locked and can go on ranking.
    if slice.iter().all(|(_, only_usage)| *only_usage) {
        let engine = shared.scheduler.engine();
        engine.read_now(|machine| look(&machine.state, None));
    } else {
        let scheduler = &shared.scheduler;
        scheduler.with_state(|scheduler, control| look(control, Some(scheduler.hosts())));
    }
}
