//! Puts the numbered updates of one host in order, after loss, duplication and reordering.
//!
//! The update with the next number is applied, a later one is buffered, an earlier one is dropped. A
//! later one that is full is applied at once, although updates before it are missing. If an update stays
//! missing, a full one has to be requested from the agent.

use std::collections::BTreeMap;

use placewright_types::host_state::{HostUpdate, NumberedUpdate};

/// The most early updates that are buffered. Usually a full report is requested from the agent long before this number
/// is reached.
const EARLY_MAX: usize = 64;

/// The position of an update: its incarnation, and its sequence number there.
pub type Position = (u64, u64);

/// The receive window of one host's updates.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The last update applied; `None` before the first full one.
    position: Option<Position>,
    /// Updates that arrived before their predecessor.
    early: BTreeMap<Position, HostUpdate>,
    /// Whether an update was dropped because the window was full.
    has_dropped: bool,
}

impl Window {
    /// The position of the last update that was applied; `None` before the first full one.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Whether an update is missing. If it stays missing, the caller has to request a full report.
    #[must_use]
    pub fn has_gap(&self) -> bool {
        self.has_dropped || !self.early.is_empty()
    }

    /// Receives an update, and applies those that can be applied now, in their order.
    pub fn receive(&mut self, numbered: NumberedUpdate, mut apply: impl FnMut(NumberedUpdate)) {
        let received = (numbered.incarnation, numbered.sequence);
        if self.position.is_some_and(|applied| received <= applied) {
            return;
        }
        if matches!(numbered.update, HostUpdate::Full(_)) {
            self.has_dropped = false;
        } else if self.position.and_then(successor) != Some(received) {
            if self.early.len() >= EARLY_MAX {
                self.has_dropped = true;
            } else {
                self.early.insert(received, numbered.update);
            }
            return;
        }
        self.position = Some(received);
        apply(numbered);
        self.apply_early(&mut apply);
    }

    /// Applies the early updates whose predecessors are applied now, and drops those that a full update
    /// made obsolete.
    fn apply_early(&mut self, apply: &mut impl FnMut(NumberedUpdate)) {
        while let Some(first) = self.early.first_entry() {
            let position = *first.key();
            if self.position >= Some(position) {
                first.remove();
            } else if self.position.and_then(successor) == Some(position) {
                let update = first.remove();
                self.position = Some(position);
                let (incarnation, sequence) = position;
                apply(NumberedUpdate {
                    incarnation,
                    sequence,
                    update,
                });
            } else {
                return;
            }
        }
    }
}

/// The position of the next update in the same incarnation; `None` after the largest possible number.
fn successor((incarnation, sequence): Position) -> Option<Position> {
    Some((incarnation, sequence.checked_add(1)?))
}
