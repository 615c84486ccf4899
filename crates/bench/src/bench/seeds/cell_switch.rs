//! The link from control to a cell, which can be cut, as when the machine of the cell is down.

use std::sync::Arc;

use placewright_cell::Cell;
use placewright_conductor::message::Envelope;
use placewright_conductor::{Action, CellId, InstanceId, Reply};
use placewright_link::{CellEvent, CellLink, CellOperation, LinkError, LinkFuture};
use tokio::sync::{mpsc, watch};

/// The most events that wait for control, in addition to those that wait in the cell.
const EVENTS_MAX: usize = 64;

/// A link from control to a cell, which works until it is cut.
pub(super) struct CellSwitch {
    cell: Arc<Cell>,
    is_cut: watch::Sender<bool>,
}

impl CellSwitch {
    pub(super) fn new(cell: Arc<Cell>) -> Self {
        Self {
            cell,
            is_cut: watch::Sender::new(false),
        }
    }

    /// Cuts the link: calls fail, and the stream of events ends.
    pub(super) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Makes a call, if the link is not cut.
    fn call<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce(&'a Cell) -> LinkFuture<'a, T>,
    ) -> LinkFuture<'a, T> {
        if *self.is_cut.borrow() {
            return Box::pin(std::future::ready(Err(LinkError::Unreachable {
                peer: "cell".into(),
                why: "it is down".into(),
            })));
        }
        call(&self.cell)
    }
}

impl CellLink for CellSwitch {
    fn cell_id(&self) -> LinkFuture<'_, CellId> {
        self.call(|cell| cell.cell_id())
    }

    fn deliver(&self, messages: Vec<Envelope>) -> LinkFuture<'_, Vec<Reply>> {
        self.call(|cell| cell.deliver(messages))
    }

    fn perform(&self, operation: CellOperation) -> LinkFuture<'_, Reply> {
        self.call(|cell| cell.perform(operation))
    }

    fn actions(&self, instance: InstanceId) -> LinkFuture<'_, Vec<Action>> {
        self.call(|cell| cell.actions(instance))
    }

    fn follow(&self) -> LinkFuture<'_, mpsc::Receiver<CellEvent>> {
        let following = self.call(|cell| cell.follow());
        let mut is_cut = self.is_cut.subscribe();
        Box::pin(async move {
            let mut events = following.await?;
            let (sender, receiver) = mpsc::channel(EVENTS_MAX);
            tokio::spawn(async move {
                let pass_on = async {
                    while let Some(event) = events.recv().await {
                        if sender.send(event).await.is_err() {
                            return;
                        }
                    }
                };
                tokio::select! {
                    () = pass_on => {}
                    _ = is_cut.wait_for(|is_cut| *is_cut) => {}
                }
            });
            Ok(receiver)
        })
    }
}
