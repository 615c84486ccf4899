//! `/placewright/v1/changes?after=N`: every durable change of placement in order, as server-sent events.
//!
//! One event is one entry of the journal, and its id is the entry's sequence. A client that reconnects
//! with the last id that it received (`Last-Event-ID`, which browsers send by themselves, or `after`)
//! gets each later event once, as long as the journal has the entries.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use placewright_conductor::control::Change;
use placewright_control::ControlMachine;
use placewright_engine::{Engine, Entries, FollowError, Follower, Machine as _};
use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Query, Reply};
use placewright_tasks::{ContainedWork, spawn_contained};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::MissedTickBehavior;

use super::{change_json, check_parameters};
use crate::shared::PlacementService;

/// The interval of comment lines on an idle stream, by which both ends notice a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The approximate size of the pieces in which events are sent. A piece is copied from the entries
/// only when there is space for it in the queue, so a slow client keeps no entries in memory.
const PIECE_BYTES: usize = 16 << 10;
/// The most pieces queued for one client; while the queue is full, nothing more is read for it.
const QUEUED_PIECES_MAX: usize = 1;
/// An entry whose record is larger than this is sent as one large event; few of these are in memory at a
/// time.
const LARGE_BYTES: usize = 64 << 10;

/// Answers with the stream of the changes after an entry: the one of `last_event_id`, else the one of the query's
/// `after`, else the newest one.
pub(super) fn follow(
    service: &PlacementService,
    query: &Query<'_>,
    last_event_id: Option<&str>,
) -> ApiResult<Reply> {
    check_parameters(query, &["after"])?;
    let after = match last_event_id.or_else(|| query.get("after")) {
        Some(text) => text.trim().parse().map_err(|_| {
            ApiError::bad_request(format!(
                "'after' and Last-Event-ID expect the sequence of an entry, a whole number. Got: \
                 {text}"
            ))
        })?,
        None => service.placement.engine().durable_sequence(),
    };
    let engine = service.placement.engine();
    let follower = engine
        .follow(after)
        .map_err(|error| error_response(&error))?;
    let permit = service.follower_limits.acquire_follower_permit()?;
    let (sender, receiver) = mpsc::channel(QUEUED_PIECES_MAX);
    let stream = ChangeStream {
        engine: engine.clone(),
        follower,
        sender,
        stopping: service.gateway.stopping(),
        follower_count: service.gateway.metrics().followers.clone(),
        large_event_permits: service.follower_limits.large_event_permits(),
        _permit: permit,
    };
    spawn_contained(ContainedWork::HttpConnection, stream.run());
    Ok(Reply::events(receiver))
}

fn error_response(error: &FollowError) -> ApiError {
    match error {
        FollowError::Trimmed { asked, first_held } => ApiError::new(
            410,
            format!(
                "Entry {asked} is no longer held: the first held entry is {first_held}. Read what \
                 you need from the API, then follow from now on (without 'after'), or from entry \
                 {} on.",
                first_held.saturating_sub(1)
            ),
        ),
        FollowError::Ahead { after, end } => ApiError::bad_request(format!(
            "Entry {after} does not exist: the last entry is {end}. Is this another store than the \
             one that you followed before?"
        )),
        FollowError::Store(_) => ApiError::unavailable("The journal cannot be read now."),
    }
}

/// The stream of one client.
struct ChangeStream {
    engine: Engine<ControlMachine>,
    follower: Follower<ControlMachine>,
    sender: mpsc::Sender<Bytes>,
    stopping: watch::Receiver<bool>,
    follower_count: Gauge,
    large_event_permits: Arc<Semaphore>,
    _permit: OwnedSemaphorePermit,
}

impl ChangeStream {
    async fn run(mut self) {
        self.follower_count.inc();
        self.send_all().await;
        self.follower_count.dec();
    }

    /// Sends events until the client is gone, the service stops, or the journal cannot be followed.
    async fn send_all(&mut self) {
        // Headers are sent with the first bytes of the body. This comment line sends them at once, and
        // so tells the client that it is subscribed.
        if self
            .sender
            .send(Bytes::from_static(b": following\n\n"))
            .await
            .is_err()
        {
            return;
        }
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        loop {
            tokio::select! {
                () = wait_for_stop(&mut self.stopping) => return,
                () = self.sender.closed() => return,
                _ = heartbeat.tick() => {
                    if self.sender.send(Bytes::from_static(b": alive\n\n")).await.is_err() {
                        return;
                    }
                }
                next = self.follower.next_entries() => match next {
                    Some(Ok(entries)) => {
                        heartbeat.reset();
                        if !self.send_entries(entries).await {
                            return;
                        }
                    }
                    Some(Err(error)) => {
                        let _ = self.sender.send(error_event(&error)).await;
                        return;
                    }
                    None => return,
                },
            }
        }
    }

    /// Sends entries as long as there is space for them. The follower returns the remaining entries again later. False
    /// when the client is gone.
    async fn send_entries(&mut self, entries: Entries) -> bool {
        let mut next = entries.first_sequence();
        while next <= entries.last_sequence() {
            match self.sender.try_reserve() {
                Ok(queue_permit) => {
                    let (piece, end) = self.next_piece(&entries, next);
                    if end > next {
                        queue_permit.send(Bytes::from(piece));
                        next = end;
                        continue;
                    }
                }
                Err(TrySendError::Closed(())) => return false,
                Err(TrySendError::Full(())) => {
                    // While the client reads nothing, its entries are not kept in memory.
                    self.follower.go_back_to(next);
                    drop(entries);
                    return self.sender.reserve().await.is_ok();
                }
            }
            // The entry is too large for a piece, so it is sent as a large event.
            let Ok(memory_permit) = Arc::clone(&self.large_event_permits).try_acquire_owned()
            else {
                self.follower.go_back_to(next);
                drop(entries);
                // Only waits for a permit. It is acquired when the follower returns the entry again.
                return self.large_event_permits.acquire().await.is_ok();
            };
            if !self.send_large(&entries, next).await {
                return false;
            }
            drop(memory_permit);
            next += 1;
        }
        true
    }

    /// The events of the entries from `next` on that fit into a piece, and the sequence after them. A
    /// piece ends before a large event.
    fn next_piece(&self, entries: &Entries, mut next: u64) -> (Vec<u8>, u64) {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        // The names of classes and traits are looked up under the state's lock.
        self.engine.read_now(|machine| {
            for (sequence, record) in entries.iter_from(next) {
                if record.len() > LARGE_BYTES || piece.len() >= PIECE_BYTES {
                    break;
                }
                write_event(&mut piece, sequence, record, machine);
                next = sequence + 1;
            }
        });
        (piece, next)
    }

    /// Sends an entry as one large event. False when the client is gone.
    async fn send_large(&self, entries: &Entries, sequence: u64) -> bool {
        let mut event = Vec::new();
        self.engine.read_now(|machine| {
            if let Some((sequence, record)) = entries.iter_from(sequence).next() {
                write_event(&mut event, sequence, record, machine);
            }
        });
        for piece in event.chunks(PIECE_BYTES) {
            // A copy, because a slice in the connection's queue would keep the whole event in memory.
            if (self.sender.send(Bytes::copy_from_slice(piece)).await).is_err() {
                return false;
            }
        }
        true
    }
}

/// Waits until the service stops.
async fn wait_for_stop(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped: then the service has stopped, too.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

fn write_event(out: &mut Vec<u8>, sequence: u64, record: &[u8], machine: &ControlMachine) {
    let mut writer = Writer::with_capacity(512);
    writer.open_object();
    writer.key("sequence");
    writer.integer(sequence);
    writer.key("changes");
    writer.open_array();
    match ControlMachine::decode(record) {
        Ok(changes) => {
            // Changes of the conductor are not shown; an entry with only those is empty.
            for change in &changes {
                if let Change::Placement(change) = change {
                    change_json::write(&mut writer, change, machine.placement());
                }
            }
        }
        // The engine has applied this record, so it could be decoded before.
        Err(error) => tracing::error!(sequence, %error, "cannot read a record that was applied"),
    }
    writer.close_array();
    writer.close_object();
    out.extend_from_slice(format!("id: {sequence}\nevent: change\ndata: ").as_bytes());
    out.extend_from_slice(&writer.finish());
    out.extend_from_slice(b"\n\n");
}

/// The last event of a stream that cannot go on, with the reason.
fn error_event(error: &FollowError) -> Bytes {
    let error = error_response(error);
    let mut writer = Writer::default();
    writer.open_object();
    writer.key("status");
    writer.integer(error.status());
    writer.key("detail");
    writer.text(error.detail());
    writer.close_object();
    let mut out = Vec::from(b"event: error\ndata: ");
    out.extend_from_slice(&writer.finish());
    out.extend_from_slice(b"\n\n");
    Bytes::from(out)
}
