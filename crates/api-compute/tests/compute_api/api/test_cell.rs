//! A cell whose messages and replies a test holds back, so that control and the cell know only what the test lets them.

use std::sync::Arc;

use placewright_cell::Cell;
use placewright_conductor::message::{Envelope, Message};
use placewright_conductor::{Action, CellId, InstanceId, Reply};
use placewright_link::{CellEvent, CellLink, CellOperation, LinkFuture};
use placewright_testing::site::cell;
use tokio::sync::{mpsc, watch};

use super::Api;

/// What a [`TestCell`] holds back until the test allows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Nothing,
    /// The messages about moves.
    Moves,
    /// The replies to all messages.
    Replies,
}

/// A cell that holds some messages back, and may be of an older release.
pub struct TestCell {
    cell: Arc<Cell>,
    held: Held,
    is_allowed: watch::Receiver<bool>,
    /// Whether the cell records actions without the ids of their requests, as older releases do.
    pub forgets_requests: bool,
}

impl TestCell {
    /// A wrapper of the first cell of an installation, to be added in its place; and a sender. What is held back is let
    /// through while the sender's value is `true`.
    pub fn of(api: &Api, held: Held) -> (Self, watch::Sender<bool>) {
        let (allow, is_allowed) = watch::channel(false);
        let test_cell = Self {
            cell: Arc::clone(&api.site.cells[&cell(0)]),
            held,
            is_allowed,
            forgets_requests: false,
        };
        (test_cell, allow)
    }

    async fn until_allowed(&self) {
        let mut is_allowed = self.is_allowed.clone();
        is_allowed.wait_for(|is_allowed| *is_allowed).await.unwrap();
    }
}

fn is_about_move(envelope: &Envelope) -> bool {
    matches!(
        envelope.message,
        Message::Reserve { .. } | Message::ConfirmOrRevert { .. }
    )
}

impl CellLink for TestCell {
    fn cell_id(&self) -> LinkFuture<'_, CellId> {
        self.cell.cell_id()
    }

    fn deliver(&self, messages: Vec<Envelope>) -> LinkFuture<'_, Vec<Reply>> {
        Box::pin(async move {
            if self.held == Held::Moves && messages.iter().any(is_about_move) {
                self.until_allowed().await;
            }
            let replies = self.cell.deliver(messages).await;
            if self.held == Held::Replies {
                self.until_allowed().await;
            }
            replies
        })
    }

    fn perform(&self, operation: CellOperation) -> LinkFuture<'_, Reply> {
        self.cell.perform(operation)
    }

    fn actions(&self, instance: InstanceId) -> LinkFuture<'_, Vec<Action>> {
        Box::pin(async move {
            let mut actions = self.cell.actions(instance).await?;
            if self.forgets_requests {
                for action in &mut actions {
                    action.request = None;
                }
            }
            Ok(actions)
        })
    }

    fn follow(&self) -> LinkFuture<'_, mpsc::Receiver<CellEvent>> {
        self.cell.follow()
    }
}
