//! Puts the numbered updates of one host in order, after loss, duplication and reordering.
//!
//! The next update is applied, an early one is buffered, an old one is dropped. A full update needs no
//! earlier one. If an update stays missing, a full one has to be requested from the agent.

use std::collections::BTreeMap;

use placewright_types::host_state::{HostUpdate, NumberedUpdate};

/// The most early updates that are buffered. A full report is requested from the agent long before.
const EARLY_MAX: usize = 64;

/// The position of an update: its incarnation, and its sequence number there.
pub type Position = (u64, u64);

/// The receive window of one host's updates.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The last update applied; none before the first full one.
    position: Option<Position>,
    /// Updates that arrived before their predecessor.
    early: BTreeMap<Position, HostUpdate>,
    /// Whether an update was dropped because the window was full.
    has_lost: bool,
}

impl Window {
    /// The position of the last update that was applied.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Whether an update is missing. If it stays missing, the caller has to request a full report.
    #[must_use]
    pub fn has_gap(&self) -> bool {
        self.has_lost || !self.early.is_empty()
    }

    /// Receives an update, and applies those that can be applied now, in their order.
    pub fn receive(&mut self, numbered: NumberedUpdate, mut apply: impl FnMut(NumberedUpdate)) {
        let at = (numbered.incarnation, numbered.sequence);
        if self.position.is_some_and(|position| at <= position) {
            return;
        }
        if matches!(numbered.update, HostUpdate::Full(_)) {
            self.has_lost = false;
        } else if self.position.and_then(next) != Some(at) {
            if self.early.len() >= EARLY_MAX {
                self.has_lost = true;
            } else {
                self.early.insert(at, numbered.update);
            }
            return;
        }
        self.position = Some(at);
        apply(numbered);
        self.apply_early(&mut apply);
    }

    /// Applies early updates that are next now, and drops those that a full update made obsolete.
    fn apply_early(&mut self, apply: &mut impl FnMut(NumberedUpdate)) {
        while let Some(first) = self.early.first_entry() {
            let at = *first.key();
            if self.position >= Some(at) {
                first.remove();
            } else if self.position.and_then(next) == Some(at) {
                let update = first.remove();
                self.position = Some(at);
                let (incarnation, sequence) = at;
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

fn next((incarnation, sequence): Position) -> Option<Position> {
    Some((incarnation, sequence.checked_add(1)?))
}
