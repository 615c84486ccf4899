//! A host's updates under loss, duplication and reordering: the merged state is always that of the
//! agent after some update, and at the end the newest.

use std::collections::BTreeMap;

use placewright_cell::report::MergedReport;
use placewright_cell::window::{Position, Window};
use placewright_types::host_state::{
    HostReport, HostUpdate, InstanceReport, Load, Metric, NumberedUpdate,
};
use proptest::collection::vec;
use proptest::prelude::*;
use uuid::Uuid;

/// The kind of change, in [`Agent::change`], that sets the load.
const LOAD: u8 = 0;

/// An agent: its updates, and its state after each.
struct Agent {
    report: HostReport,
    /// The position of the last update that was sent.
    position: Position,
    /// The state after each update.
    history: BTreeMap<Position, HostReport>,
}

impl Agent {
    fn new() -> Self {
        Self {
            report: HostReport::default(),
            position: (0, 0),
            history: BTreeMap::new(),
        }
    }

    fn send(&mut self, update: HostUpdate) -> NumberedUpdate {
        let (incarnation, last_sequence) = self.position;
        let sequence = last_sequence + 1;
        self.position = (incarnation, sequence);
        self.history.insert(self.position, self.report.clone());
        NumberedUpdate {
            incarnation,
            sequence,
            update,
        }
    }

    fn full(&mut self) -> NumberedUpdate {
        let update = HostUpdate::Full(Box::new(self.report.clone()));
        self.send(update)
    }

    /// Begins another incarnation, with a full update.
    fn restart(&mut self) -> NumberedUpdate {
        let (incarnation, _) = self.position;
        self.position = (incarnation + 1, 0);
        self.full()
    }

    /// Changes the part of the state that `kind` selects.
    fn change(&mut self, kind: u8, value: u32) -> NumberedUpdate {
        let load = Load {
            io_ops: value,
            running_builds: value,
            failed_builds: 0,
        };
        let uuid = Uuid::from_u128(u128::from(value % 5));
        let update = match kind % 6 {
            LOAD => {
                self.report.load = load;
                HostUpdate::Load(load)
            }
            1 => {
                let metrics = vec![Metric {
                    name: "heat".into(),
                    value: f64::from(value),
                }];
                self.report.metrics.clone_from(&metrics);
                HostUpdate::Metrics(metrics)
            }
            2 => {
                let instance = InstanceReport {
                    uuid,
                    ..InstanceReport::default()
                };
                self.report.load = load;
                self.report
                    .instances
                    .retain(|instance| instance.uuid != uuid);
                self.report.instances.push(instance.clone());
                self.report.instances.sort_by_key(|instance| instance.uuid);
                HostUpdate::InstanceCame(Box::new(instance), load)
            }
            3 => {
                self.report.load = load;
                self.report
                    .instances
                    .retain(|instance| instance.uuid != uuid);
                HostUpdate::InstanceWent(uuid, load)
            }
            4 => {
                let reason = value.is_multiple_of(2).then(|| value.to_string());
                self.report.disabled.clone_from(&reason);
                HostUpdate::Disabled(reason)
            }
            _ => {
                self.report.is_forced_down = value.is_multiple_of(2);
                HostUpdate::ForcedDown(self.report.is_forced_down)
            }
        };
        self.send(update)
    }
}

/// The receiving side: a window, and the state merged from it.
#[derive(Default)]
struct Cell {
    window: Window,
    merged: MergedReport,
    /// A second receiver, which receives what the first one applied.
    relayed: MergedReport,
}

impl Cell {
    fn receive(&mut self, update: NumberedUpdate) {
        let mut last = self.window.position();
        self.window.receive(update, |numbered| {
            let position = (numbered.incarnation, numbered.sequence);
            assert!(last < Some(position), "{last:?} {position:?}");
            last = Some(position);
            self.merged.apply(&numbered.update);
            self.relayed.apply(&numbered.update);
        });
    }

    fn check(&self, agent: &Agent) {
        let Some(position) = self.window.position() else {
            return;
        };
        let expected = HostUpdate::Full(Box::new(agent.history[&position].clone()));
        assert_eq!(self.merged.full(), expected);
        assert_eq!(self.relayed.full(), expected);
    }
}

/// The delay and the loss or duplication of a message in the network.
struct Fate {
    /// The number of later messages that are sent before the message arrives.
    delay: usize,
    /// How often the message is delivered: not at all, once or twice.
    deliveries: usize,
}

proptest! {
    #[test]
    fn the_merged_state_is_always_one_of_the_agent_and_at_last_the_newest(
        steps in vec((0u8..20, any::<u32>(), (0usize..6, 0usize..3)), 1..200),
    ) {
        let mut agent = Agent::new();
        let mut cell = Cell::default();
        let mut in_transit: Vec<(Fate, NumberedUpdate)> = Vec::new();
        let at_once = Fate {
            delay: 0,
            deliveries: 1,
        };
        in_transit.push((at_once, agent.restart()));
        for (kind, value, (delay, deliveries)) in steps {
            let update = match kind {
                18 => agent.restart(),
                19 => agent.full(),
                kind => agent.change(kind, value),
            };
            in_transit.push((Fate { delay, deliveries }, update));
            let is_due = |index: &usize| {
                let (fate, _) = &in_transit[*index];
                fate.delay == 0
            };
            let due: Vec<usize> = (0..in_transit.len()).rev().filter(is_due).collect();
            for index in due {
                let (fate, update) = in_transit.remove(index);
                for _ in 0..fate.deliveries {
                    cell.receive(update.clone());
                    cell.check(&agent);
                }
            }
            in_transit.iter_mut().for_each(|(fate, _)| fate.delay -= 1);
        }
        for (fate, update) in in_transit.drain(..).rev() {
            for _ in 0..fate.deliveries {
                cell.receive(update.clone());
                cell.check(&agent);
            }
        }
        // A full update, as a cell requests it when a gap does not close.
        let last = agent.full();
        cell.receive(last);
        cell.check(&agent);
        prop_assert_eq!(cell.window.position(), Some(agent.position));
        prop_assert!(!cell.window.has_gap());
    }

    #[test]
    fn without_loss_every_order_within_the_window_has_the_same_result(
        changes in vec((0u8..6, any::<u32>()), 1..60),
        seed in any::<u64>(),
    ) {
        let mut agent = Agent::new();
        let mut cell = Cell::default();
        let mut updates = vec![agent.restart()];
        updates.extend(changes.iter().map(|(kind, value)| agent.change(*kind, *value)));
        let mut seed = seed;
        while !updates.is_empty() {
            // A linear congruential generator.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = usize::try_from(seed >> 33).unwrap() % updates.len();
            cell.receive(updates.remove(index));
            cell.check(&agent);
        }
        prop_assert_eq!(cell.window.position(), Some(agent.position));
        prop_assert!(!cell.window.has_gap());
    }
}

#[test]
fn a_lost_update_is_a_gap_until_a_full_update_arrives() {
    let mut agent = Agent::new();
    let mut cell = Cell::default();
    cell.receive(agent.restart());
    agent.change(LOAD, 1);
    cell.receive(agent.change(LOAD, 2));
    assert!(cell.window.has_gap());
    // Far more than the window keeps.
    for value in 0..1000 {
        cell.receive(agent.change(LOAD, value));
    }
    assert!(cell.window.has_gap());
    cell.receive(agent.full());
    assert!(!cell.window.has_gap());
    cell.receive(agent.change(LOAD, 7));
    cell.check(&agent);
    assert_eq!(cell.window.position(), Some(agent.position));
}

#[test]
fn updates_of_an_earlier_start_are_dropped() {
    let mut agent = Agent::new();
    let mut cell = Cell::default();
    cell.receive(agent.restart());
    let late = agent.change(LOAD, 1);
    let later = agent.change(LOAD, 2);
    cell.receive(agent.restart());
    cell.receive(late);
    cell.receive(later);
    cell.check(&agent);
    assert_eq!(cell.window.position(), Some((2, 1)));
    assert!(!cell.window.has_gap());
}
