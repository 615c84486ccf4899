//! Takes the numbered updates of one host in order, whatever the way does to them.
//!
//! What is next is applied, what came early is held, what was seen is dropped. A full update needs
//! nothing before it. When something stays missing, the agent has to be asked for one.

use std::collections::BTreeMap;

use placewright_scheduler::host_state::{HostUpdate, NumberedUpdate};

/// Early updates are held up to this many; the agent is asked for everything sooner than that.
const EARLY_MAX: usize = 64;

/// Where an update stands: its incarnation, and its sequence there.
pub type Position = (u64, u64);

/// The window of one host.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The last update applied; nothing before the first full one.
    position: Option<Position>,
    /// What came before something that it needs.
    early: BTreeMap<Position, HostUpdate>,
    /// Something was thrown away for which there was no room.
    has_lost: bool,
}

impl Window {
    /// The last update that was applied.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Whether something is missing. If that lasts, ask the agent for everything.
    #[must_use]
    pub fn has_gap(&self) -> bool {
        self.has_lost || !self.early.is_empty()
    }

    /// Takes an update. Hands out, in their order, those that are to be applied now.
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
        self.go_on(&mut apply);
    }

    /// Applies what was early and is next now; drops what a full update made old.
    fn go_on(&mut self, apply: &mut impl FnMut(NumberedUpdate)) {
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
