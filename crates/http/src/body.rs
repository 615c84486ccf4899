//! Bodies of responses and of requests.

use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::HeaderMap;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::header::EXPECT;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::costly::Caller;
use crate::error::{ApiError, ApiResult};
use crate::memory_budget::{MemoryBudget, MemoryPermit};

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// The whole body in one piece.
    Whole(Bytes),
    /// A stream that lasts until its sender is dropped.
    Stream(mpsc::Receiver<Bytes>),
    /// Pieces that are generated as the client takes them.
    Pieces(ChunkedResponse),
}

impl Body {
    /// An answer of pieces that are there, none of them empty. Each is dropped when its client has taken
    /// it, and the room that they hold is given back with the last.
    #[must_use]
    pub fn of_pieces(mut pieces: Vec<Bytes>, held: Option<MemoryPermit>) -> Self {
        if pieces.len() > 1 {
            return Self::Pieces(ChunkedResponse::ready(pieces, held));
        }
        Self::Whole(pieces.pop().unwrap_or_default())
    }
}

/// A large answer: each piece is made when the one before it is on its way, so that a client that
/// takes nothing keeps little.
pub struct ChunkedResponse {
    make: Box<dyn FnMut() -> Option<Bytes> + Send>,
    /// Whether others had their turn since the last piece.
    has_rested: bool,
    /// How many bytes are still to come, if that is known.
    left: Option<u64>,
}

impl ChunkedResponse {
    /// A response of the pieces that `make` returns, until it returns none.
    pub(crate) fn new(
        mut make: impl FnMut() -> Option<Vec<u8>> + Send + 'static,
        held: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let make = move || {
            // What it holds until it is sent, taken off what all large answers may hold.
            let _ = &held;
            make().map(Bytes::from)
        };
        Self {
            make: Box::new(make),
            has_rested: true,
            left: None,
        }
    }

    /// An answer whose pieces are there, and hold room until the last of them is on its way.
    fn ready(pieces: Vec<Bytes>, held: Option<MemoryPermit>) -> Self {
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        let mut pieces = pieces.into_iter();
        let make = move || {
            let _ = &held;
            pieces.next()
        };
        Self {
            make: Box::new(make),
            has_rested: true,
            left: Some(left),
        }
    }

    /// The next piece; between two of them the other connections of the thread are served.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.has_rested {
            self.has_rested = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_rested = false;
        let piece = (self.make)();
        if let (Some(left), Some(piece)) = (&mut self.left, &piece) {
            *left = left.saturating_sub(piece.len() as u64);
        }
        Poll::Ready(piece)
    }
}

impl fmt::Debug for ChunkedResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pieces").finish_non_exhaustive()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Body::Stream(receiver) => receiver
                .poll_recv(context)
                .map(|bytes| Some(Ok(Frame::data(bytes?)))),
            Body::Pieces(pieces) => pieces
                .poll(context)
                .map(|bytes| Some(Ok(Frame::data(bytes?)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Pieces(pieces) => pieces
                .left
                .map_or_else(SizeHint::default, SizeHint::with_exact),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

/// The body of a request, with the room that it holds until the request is answered.
#[derive(Debug, Default)]
pub struct Content {
    bytes: Bytes,
    _held: Option<MemoryPermit>,
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What bodies may take.
pub(crate) struct Limits<'a> {
    /// One of them, in bytes.
    pub(crate) bytes_max: usize,
    /// Time that one has.
    pub(crate) timeout: Duration,
    /// All of them together.
    pub(crate) room: &'a MemoryBudget,
}

/// Smaller bodies hold no room: a connection's buffers are as large.
const SMALL_BYTES: usize = 16 << 10;

/// What a larger body holds at first; it doubles as the body comes.
const FIRST_BYTES: usize = 64 << 10;

/// A body that holds room waits no longer than this for more of it: those of several callers could
/// wait for each other.
const GROW_WAIT: Duration = Duration::from_secs(1);

/// Who found no room may ask again after so long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Reads the body of a request of this caller.
///
/// # Errors
/// 413 when it is longer than it may be, 408 when it is not there in time, 400 when the client breaks
/// off, 503 when other bodies leave no room in that time.
pub(crate) async fn read<B>(
    body: B,
    limits: Limits<'_>,
    caller: impl FnOnce() -> Caller,
) -> ApiResult<Content>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: fmt::Display,
{
    let Limits {
        bytes_max,
        timeout,
        room,
    } = limits;
    let size = body.size_hint();
    if size.lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    // Of what does not say how long it is, the most: then no body waits for another of its caller in
    // the middle.
    let size = size.upper().and_then(|upper| usize::try_from(upper).ok());
    let size = size.map_or(bytes_max, |size| size.min(bytes_max));
    let mut held = None;
    if size > SMALL_BYTES {
        let found = room.reserve(caller(), size, timeout).await;
        held = Some(found.ok_or_else(no_room)?);
    }
    let reading = Reading {
        bytes_max,
        held,
        // Less than the body has, so that the answer says what was waited for.
        wait: timeout / 2,
    };
    let mut collected = std::pin::pin!(reading.collect(body));
    match poll_twice(collected.as_mut()).await {
        Some(result) => result,
        None => match placewright_net::peer_timeout(timeout, collected).await {
            Some(result) => result,
            None => Err(ApiError::new(408, "The body did not arrive in time.")),
        },
    }
}

fn no_room() -> ApiError {
    ApiError::unavailable(
        "Try again later: other requests' bodies hold the room that placement.bodies_bytes_max \
         allows, of which one project has a quarter.",
    )
    .with_retry_after(RETRY_AFTER)
}

fn too_large(bytes_max: usize) -> ApiError {
    let detail = format!("The limit is {bytes_max} bytes, as placement.body_bytes_max says.");
    ApiError::new(413, detail)
}

/// The result of a future that completes at its first or second poll. Most bodies arrive together
/// with their head and need no timer, which would cost a lock that all threads share.
async fn poll_twice<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    let mut is_second = false;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if is_second => Poll::Ready(None),
        Poll::Pending => {
            is_second = true;
            // Polled again at once; only if it is pending even then, the caller waits with a timer.
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// An unread body is read and discarded up to this size and time; beyond that the connection has to
/// be closed.
const DRAIN_BYTES_MAX: u64 = 256 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Discards what is left of a body that no handler read, so that the next request on the connection
/// can be found. True when nothing is left.
pub(crate) async fn drain<B>(body: &mut B, headers: &HeaderMap) -> bool
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    if body.is_end_stream() {
        return true;
    }
    // Reading would invite the client to send the body that it withholds.
    if headers.contains_key(EXPECT) || body.size_hint().lower() > DRAIN_BYTES_MAX {
        return false;
    }
    let take_all = async {
        let mut taken = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            taken += frame.data_ref().map_or(0, |data| data.len() as u64);
            if taken > DRAIN_BYTES_MAX {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(DRAIN_TIMEOUT, take_all)
        .await
        .unwrap_or(false)
}

/// How a body is read.
struct Reading {
    bytes_max: usize,
    /// The room reserved for it; none for a small one.
    held: Option<MemoryPermit>,
    /// Time to wait for the first of that room.
    wait: Duration,
}

impl Reading {
    async fn collect<B>(mut self, mut body: B) -> ApiResult<Content>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: fmt::Display,
    {
        let mut first = Bytes::new();
        let mut all = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame
                .map_err(|error| ApiError::bad_request(format!("Unreadable body: {error}")))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let total = first.len().max(all.len()) + data.len();
            if total > self.bytes_max {
                return Err(too_large(self.bytes_max));
            }
            self.hold(total).await?;
            // Most bodies arrive in one piece, which is not copied.
            if first.is_empty() && all.is_empty() {
                first = data;
            } else {
                if all.is_empty() {
                    all.extend_from_slice(&first);
                }
                all.extend_from_slice(&data);
            }
        }
        let bytes = if all.is_empty() { first } else { all.freeze() };
        if let Some(held) = &mut self.held {
            held.shrink(bytes.len());
        }
        let _held = self.held;
        Ok(Content { bytes, _held })
    }

    /// Holds room for so many bytes, and for what the buffer grows by with them.
    async fn hold(&mut self, bytes: usize) -> ApiResult<()> {
        let Some(held) = &mut self.held else {
            return Ok(());
        };
        let wait = if held.is_only_reserved() {
            self.wait
        } else {
            GROW_WAIT.min(self.wait)
        };
        let bytes = bytes.max(FIRST_BYTES).next_power_of_two();
        if held.grow(bytes, wait).await {
            Ok(())
        } else {
            Err(no_room())
        }
    }
}
