//! The stream of server-sent events to one page of `/ui/` that is open in a browser.
//!
//! An event without a name has rows. The event `end` follows when the page has all rows of a version; after a break,
//! the page continues from the id of this event. It also has the version in which the names of aggregates or the
//! topology last changed, because these are not in rows and the page reads them by another request. The event `reset`
//! says that the rows of the page belong to another epoch, so that it has to drop them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::Instant;

use super::rows::ByKind;
use super::{Look, Shared};

/// The most pieces queued for one page.
pub(super) const QUEUED_PIECES_MAX: usize = 1;
/// The stream ends when the page has read nothing for this long.
const STALL_MAX: Duration = Duration::from_secs(10);
/// The interval of comment lines on an idle stream, by which both ends notice a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long a stream lasts. The page then connects again, and so its token and rights are checked again.
const LIFETIME: Duration = Duration::from_secs(60);
/// How many slots one event covers while a page catches up.
const PIECE_SLOTS: u32 = 1024;

/// The position of a page in the stream: the version up to which it has all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamPosition {
    epoch: u64,
    version: u64,
}

impl StreamPosition {
    /// Parses the id of an event.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (epoch, version) = text.split_once('.')?;
        Some(Self {
            epoch: epoch.parse().ok()?,
            version: version.parse().ok()?,
        })
    }
}

/// An event with rows.
pub(super) fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// The event that says that the page has all rows up to a version. `names_version` is the version in which the names
/// of aggregates or the topology last changed.
pub(super) fn end_event(epoch: u64, version: u64, names_version: u64) -> String {
    format!("id: {epoch}.{version}\nevent: end\ndata: {{\"names\":{names_version}}}\n\n")
}

/// The error after which the stream has to end: the client is gone or reads nothing.
struct Over;

/// The stream of one page.
pub(super) struct FleetStream {
    shared: Arc<Shared>,
    sender: mpsc::Sender<Bytes>,
    stopping: watch::Receiver<bool>,
    /// The result of the sampler's latest look: one pass over the hosts that may have changed.
    looks: watch::Receiver<Arc<Look>>,
    _permit: OwnedSemaphorePermit,
}

impl FleetStream {
    pub(super) fn new(
        shared: Arc<Shared>,
        sender: mpsc::Sender<Bytes>,
        stopping: watch::Receiver<bool>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let looks = shared.looks.subscribe();
        Self {
            shared,
            sender,
            stopping,
            looks,
            _permit: permit,
        }
    }

    /// Sends the rows that the page does not have yet, and then those that change, until the stream ends.
    pub(super) async fn run(mut self, after: Option<StreamPosition>) {
        let end = Instant::now() + LIFETIME;
        let mut stopping = self.stopping.clone();
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => {}
            () = tokio::time::sleep_until(end) => {}
            _ = self.send_all(after) => {}
        }
    }

    async fn send_all(&mut self, after: Option<StreamPosition>) -> Result<(), Over> {
        let (epoch, version) = {
            let rows = self.shared.rows.lock();
            (rows.epoch(), rows.version())
        };
        let is_known = |after: &StreamPosition| after.epoch == epoch && after.version <= version;
        let mut position = match after.filter(is_known) {
            Some(after) => after,
            None => StreamPosition { epoch, version: 0 },
        };
        let begin = match after {
            Some(after) if after != position => "event: reset\ndata: {}\n\n",
            // A comment line. Headers are sent only with the first bytes of the body, so this tells the page at once
            // that it is connected.
            _ => ": following\n\n",
        };
        self.send(Bytes::from_static(begin.as_bytes())).await?;
        loop {
            let look = Arc::clone(&self.looks.borrow_and_update());
            let (epoch, version) = {
                let rows = self.shared.rows.lock();
                (rows.epoch(), rows.version())
            };
            // The view began anew meanwhile, and counts its versions from 0 again.
            if epoch != position.epoch {
                self.send(Bytes::from_static(b"event: reset\ndata: {}\n\n"))
                    .await?;
                position = StreamPosition { epoch, version: 0 };
            }
            match &look.events {
                Some(events) if look.from == position.version && look.to == version => {
                    self.send(events.clone()).await?;
                    position.version = look.to;
                }
                _ if position.version < version => {
                    position = self.catch_up(position, version).await?;
                }
                _ => self.wait().await?,
            }
        }
    }

    /// Waits for the next look, and sends comment lines meanwhile.
    async fn wait(&mut self) -> Result<(), Over> {
        loop {
            tokio::select! {
                changed = self.looks.changed() => return changed.map_err(|_| Over),
                () = self.sender.closed() => return Err(Over),
                () = tokio::time::sleep(HEARTBEAT) => {
                    self.send(Bytes::from_static(b": alive\n\n")).await?;
                }
            }
        }
    }

    /// Sends all rows that changed after the version `from`, in pieces. Each piece is read when the page has taken the
    /// one before. Returns the new position of the page.
    async fn catch_up(
        &mut self,
        from: StreamPosition,
        version: u64,
    ) -> Result<StreamPosition, Over> {
        // Values that many hosts have in common, such as a list of traits, are sent to a page once; `known_values` is
        // how many of each kind it has.
        let (mut known_values, slot_count, names_version): (ByKind<usize>, u32, u64) = {
            let rows = self.shared.rows.lock();
            let slot_count = u32::try_from(rows.slot_count()).unwrap_or(u32::MAX);
            (
                rows.known_at(from.version),
                slot_count,
                rows.names_version(),
            )
        };
        let mut next = 0;
        while next < slot_count {
            let end = next.saturating_add(PIECE_SLOTS).min(slot_count);
            let data = {
                let rows = self.shared.rows.lock();
                if rows.epoch() != from.epoch {
                    return Ok(from);
                }
                rows.write(next..end, from.version, &mut known_values)
            };
            if let Some(data) = data {
                self.send(Bytes::from(event(&data))).await?;
            }
            next = end;
        }
        let ended = end_event(from.epoch, version, names_version);
        self.send(Bytes::from(ended)).await?;
        Ok(StreamPosition {
            epoch: from.epoch,
            version,
        })
    }

    /// Queues a piece for the page.
    async fn send(&self, piece: Bytes) -> Result<(), Over> {
        let sent = tokio::time::timeout(STALL_MAX, self.sender.send(piece)).await;
        sent.map_err(|_| Over)?.map_err(|_| Over)
    }
}
