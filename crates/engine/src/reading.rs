//! Several reads of the state whose values are returned together.

use crate::Machine;
use crate::error::SubmitError;
use crate::shared::Shared;

/// The entries that have to be durable before the values of several reads of the state may be returned; see
/// [`crate::Engine::read_part`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading {
    /// The last entry that was applied at the latest [`crate::Engine::read_part`] that saw entries which were not
    /// durable yet; 0 if none saw any.
    pending_entry: u64,
    /// How often entries had been undone before the first [`crate::Engine::read_part`]; `None` until then.
    rollbacks: Option<u64>,
    /// Whether entries were undone between two calls of [`crate::Engine::read_part`].
    is_undone: bool,
}

impl Reading {
    pub(crate) fn read<M: Machine, T>(
        &mut self,
        shared: &Shared<M>,
        compute: impl FnOnce(&M) -> T,
    ) -> T {
        let state = shared.state.read();
        let value = compute(&state.machine);
        // Checked while the lock is held, so that nothing that `compute` read can be undone before this check.
        if shared.durable() < state.applied {
            self.pending_entry = state.applied;
        }
        self.is_undone |= *self.rollbacks.get_or_insert(state.rollbacks) != state.rollbacks;
        value
    }

    /// [`State::rollbacks`](crate::shared::State::rollbacks) at the time of the reading; an error if a change that was
    /// read is undone already. `None` if nothing was read.
    pub(crate) fn rollbacks(&self) -> Result<Option<u64>, SubmitError> {
        match self.is_undone {
            true => Err(SubmitError::ReadingUndone),
            false => Ok(self.rollbacks),
        }
    }

    /// Waits until everything that was read is durable. False if some of it was undone.
    pub(crate) async fn wait_durable<M: Machine>(self, shared: &Shared<M>) -> bool {
        match self.rollbacks {
            _ if self.is_undone => false,
            Some(rollbacks) if self.pending_entry > 0 => {
                shared.wait_durable(self.pending_entry, rollbacks).await
            }
            _ => true,
        }
    }
}
