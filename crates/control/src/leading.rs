//! Whether this process does the work that only one of several replicas should do.

use std::future::Future;

use placewright_engine::{Engine, Leadership};
use tokio::sync::watch;

use crate::machine::ControlMachine;

/// Who leads among the replicas of control. A process that is not a replica always leads.
#[derive(Clone)]
pub(crate) struct Leading {
    leadership: Option<watch::Receiver<Leadership>>,
}

impl Leading {
    pub(crate) fn of(engine: &Engine<ControlMachine>) -> Self {
        Self {
            leadership: engine.leadership(),
        }
    }

    /// Whether this process leads.
    pub(crate) fn is_own(&self) -> bool {
        (self.leadership.as_ref()).is_none_or(|leadership| leadership.borrow().is_own)
    }

    /// The epoch in which this process leads; 0 for a process that is not a replica, `None` while another one leads.
    pub(crate) fn epoch(&self) -> Option<u64> {
        let Some(leadership) = &self.leadership else {
            return Some(0);
        };
        let leadership = leadership.borrow();
        leadership.is_own.then_some(leadership.epoch)
    }

    /// The number of the replica that leads; 0 if that is not known, or there are no replicas.
    pub(crate) fn origin(&self) -> u64 {
        (self.leadership.as_ref()).map_or(0, |leadership| leadership.borrow().origin)
    }

    /// Waits until it is known which replica leads.
    pub(crate) async fn until_known(&mut self) {
        self.wait_for(|leadership| leadership.epoch > 0).await;
    }

    /// Waits until this process leads.
    pub(crate) async fn until_own(&mut self) {
        self.wait_for(|leadership| leadership.is_own).await;
    }

    /// Waits until this process no longer leads in the given epoch.
    pub(crate) async fn until_over(&mut self, epoch: u64) {
        match self.leadership {
            None => std::future::pending().await,
            Some(_) => {
                self.wait_for(|present| !present.is_own || present.epoch != epoch)
                    .await;
            }
        }
    }

    /// Waits until [`Self::epoch`] is another than the given one: this process begins to lead, leads in another epoch,
    /// or does not lead any more.
    pub(crate) async fn until_other(&mut self, epoch: Option<u64>) {
        match self.leadership {
            None => std::future::pending().await,
            Some(_) => {
                let own_epoch = |present: &Leadership| present.is_own.then_some(present.epoch);
                self.wait_for(|present| own_epoch(present) != epoch).await;
            }
        }
    }

    /// Waits until the condition holds; for ever if the engine is shut down. Returns at once if there are no replicas.
    async fn wait_for(&mut self, holds: impl FnMut(&Leadership) -> bool) {
        let Some(leadership) = &mut self.leadership else {
            return;
        };
        if leadership.wait_for(holds).await.is_err() {
            // The engine was shut down, so nothing will change any more.
            std::future::pending::<()>().await;
        }
    }

    /// Starts the work each time this process begins to lead, and cancels it when this process no longer leads. Returns
    /// when the work ends by itself.
    pub(crate) async fn while_own<F: Future<Output = ()>>(mut self, mut work: impl FnMut() -> F) {
        loop {
            self.until_own().await;
            let Some(epoch) = self.epoch() else { continue };
            let leading = self.clone();
            tokio::select! {
                () = work() => return,
                () = async { let mut leading = leading; leading.until_over(epoch).await } => {}
            }
        }
    }
}
