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
use crate::streamed::FileBody;

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// The whole body in one piece.
    Whole(Bytes),
    /// A stream that lasts until its sender is dropped.
    Stream(mpsc::Receiver<Bytes>),
    /// Several pieces, which are sent as the client takes them.
    Pieces(ChunkedResponse),
    /// The content of a file.
    File(FileBody),
}

impl Body {
    /// A response of existing pieces, none of them empty. Each piece is dropped when the client has received it, and
    /// `permit`, which is for the memory of all pieces, is given back with the last.
    #[must_use]
    pub fn of_pieces(mut pieces: Vec<Bytes>, permit: Option<MemoryPermit>) -> Self {
        if let (Some(last), Some(permit)) = (pieces.last_mut(), permit) {
            let bytes = std::mem::take(last);
            *last = Bytes::from_owner(HeldPiece {
                bytes,
                _permit: permit,
            });
        }
        if pieces.len() > 1 {
            return Self::Pieces(ChunkedResponse::of_existing(pieces));
        }
        Self::Whole(pieces.pop().unwrap_or_default())
    }
}

/// A piece with the permit for the memory of its response.
struct HeldPiece {
    bytes: Bytes,
    _permit: MemoryPermit,
}

impl AsRef<[u8]> for HeldPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A large response in pieces. The pieces either exist already, or each is made when the one before it was sent, so
/// that a client that reads nothing occupies little memory.
pub struct ChunkedResponse {
    /// Makes or takes the next piece; returns `None` after the last one.
    make_piece: Box<dyn FnMut() -> Option<Bytes> + Send>,
    /// Whether other connections had their turn since the last piece.
    has_yielded: bool,
    /// How many bytes are still to come, if that is known.
    bytes_left: Option<u64>,
}

impl ChunkedResponse {
    /// A response of the pieces that `make` returns, until it returns `None`. `permit` is for the memory of the
    /// response, and is given back when the response is sent.
    pub(crate) fn new(
        mut make: impl FnMut() -> Option<Vec<u8>> + Send + 'static,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let make = move || {
            // Moved into the closure, so that the memory stays reserved until the response is sent.
            let _ = &permit;
            make().map(Bytes::from)
        };
        Self {
            make_piece: Box::new(make),
            has_yielded: true,
            bytes_left: None,
        }
    }

    /// A response of existing pieces.
    fn of_existing(pieces: Vec<Bytes>) -> Self {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let mut pieces = pieces.into_iter();
        Self {
            make_piece: Box::new(move || pieces.next()),
            has_yielded: true,
            bytes_left: Some(bytes),
        }
    }

    /// The next piece; none after the last one. Between two pieces the other connections of the thread are served.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.has_yielded {
            self.has_yielded = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_yielded = false;
        let piece = (self.make_piece)();
        if let (Some(left), Some(piece)) = (&mut self.bytes_left, &piece) {
            *left = left.saturating_sub(piece.len() as u64);
        }
        Poll::Ready(piece)
    }
}

impl fmt::Debug for ChunkedResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ChunkedResponse")
            .finish_non_exhaustive()
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
            Body::File(file) => file
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
                .bytes_left
                .map_or_else(SizeHint::default, SizeHint::with_exact),
            Body::File(file) => SizeHint::with_exact(file.bytes_left()),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

/// The body of a request, with the memory that is reserved for it until the request is answered.
#[derive(Debug, Default)]
pub struct RequestBody {
    bytes: Bytes,
    _permit: Option<MemoryPermit>,
}

impl Deref for RequestBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The limits of reading a body.
pub(crate) struct Limits<'a> {
    /// The maximum size of the body.
    pub(crate) bytes_max: usize,
    /// The time in which the body has to arrive.
    pub(crate) timeout: Duration,
    /// The memory for all bodies together.
    pub(crate) budget: &'a MemoryBudget,
}

/// Bodies up to this size need no reservation, because the buffers of a connection are as large.
const SMALL_BYTES: usize = 16 << 10;

/// The memory that a body of more than [`SMALL_BYTES`] holds at first. It is doubled as the body arrives.
const FIRST_BYTES: usize = 64 << 10;

/// A body that holds memory waits no longer than this for more memory, because several bodies may each be waiting for
/// memory that the others hold.
const GROW_WAIT: Duration = Duration::from_secs(1);

/// The time after which clients are told to try again, if there was no memory.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Reads the body of a request of this caller.
///
/// # Errors
/// 413 when the body is longer than it may be, 408 when it does not arrive within the time-out, 400 when the client
/// stops sending before the end, 503 when other bodies occupy the memory.
pub(crate) async fn read<B>(
    body: B,
    limits: Limits<'_>,
    caller: impl FnOnce() -> Caller,
) -> ApiResult<RequestBody>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: fmt::Display,
{
    let Limits {
        bytes_max,
        timeout,
        budget,
    } = limits;
    let size = body.size_hint();
    if size.lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    // A body that does not declare its size reserves the maximum at once. So a body waits for its caller's share only
    // before any of it is read.
    let size = size.upper().and_then(|upper| usize::try_from(upper).ok());
    let size = size.map_or(bytes_max, |size| size.min(bytes_max));
    let mut permit = None;
    if size > SMALL_BYTES {
        // In a box, as are the other rare waits below: the future of every request would have room for it.
        let reserved = Box::pin(budget.reserve(caller(), size, timeout)).await;
        permit = Some(reserved.ok_or_else(no_memory)?);
    }
    let reader = BodyReader {
        bytes_max,
        permit,
        // This is less than the time-out of the body, so that a body that gets no memory is refused for lack of memory
        // and not because of its time-out.
        first_wait: timeout / 2,
    };
    let mut collected = std::pin::pin!(reader.collect(body));
    match poll_twice(collected.as_mut()).await {
        Some(result) => result,
        None => match Box::pin(placewright_net::peer_timeout(timeout, collected)).await {
            Some(result) => result,
            None => Err(ApiError::new(408, "The body did not arrive in time.")),
        },
    }
}

fn no_memory() -> ApiError {
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

/// The result of a future that completes at its first or second poll; none if it is pending after both. Most bodies
/// arrive together with their head and need no timer, which would cost a lock that all threads share.
async fn poll_twice<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    let mut is_second = false;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if is_second => Poll::Ready(None),
        Poll::Pending => {
            is_second = true;
            // The future is polled again at once. If it is still pending then, the caller waits with a timer.
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// An unread body is read and discarded up to this size and time; if there is more, the connection has to be
/// closed.
const DRAIN_BYTES_MAX: u64 = 256 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Discards the rest of a body that no handler read, so that the next request on the connection can be found. False if
/// the end of the body was not reached, so that the connection has to be closed.
pub(crate) async fn drain<B>(body: &mut B, headers: &HeaderMap) -> bool
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    if body.is_end_stream() {
        return true;
    }
    // The client withholds the body until it gets 100 (Continue), which reading would send.
    if headers.contains_key(EXPECT) || body.size_hint().lower() > DRAIN_BYTES_MAX {
        return false;
    }
    let discard_all = async {
        let mut discarded = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            discarded += frame.data_ref().map_or(0, |data| data.len() as u64);
            if discarded > DRAIN_BYTES_MAX {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(DRAIN_TIMEOUT, discard_all)
        .await
        .unwrap_or(false)
}

/// Reads a body of a limited size into memory that is reserved for it.
struct BodyReader {
    bytes_max: usize,
    /// The memory that is reserved for the body; `None` for a small one.
    permit: Option<MemoryPermit>,
    /// How long the body waits at most for memory while it holds none.
    first_wait: Duration,
}

impl BodyReader {
    async fn collect<B>(mut self, mut body: B) -> ApiResult<RequestBody>
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
            // From the second piece on, `all` also has the bytes of `first`, so these are not counted twice.
            let total = first.len().max(all.len()) + data.len();
            if total > self.bytes_max {
                return Err(too_large(self.bytes_max));
            }
            if self.permit.is_some() {
                Box::pin(self.hold_memory(total)).await?;
            }
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
        if let Some(permit) = &mut self.permit {
            permit.shrink(bytes.len());
        }
        let _permit = self.permit;
        Ok(RequestBody { bytes, _permit })
    }

    /// Holds memory for this many bytes, rounded up to the capacity to which the buffer grows.
    async fn hold_memory(&mut self, bytes: usize) -> ApiResult<()> {
        let Some(permit) = &mut self.permit else {
            return Ok(());
        };
        let wait = if permit.is_only_reserved() {
            self.first_wait
        } else {
            GROW_WAIT.min(self.first_wait)
        };
        let bytes = bytes.max(FIRST_BYTES).next_power_of_two();
        if permit.grow(bytes, wait).await {
            Ok(())
        } else {
            Err(no_memory())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costly::CostlyExecutor;
    use placewright_auth::{Identity, IdentityParts};

    #[tokio::test]
    async fn the_memory_of_a_response_is_held_until_its_last_piece_is_dropped() {
        let budget = MemoryBudget::new(4 << 20);
        let caller = CostlyExecutor::default().caller(&Identity::new(IdentityParts::default()));
        let is_free = || budget.try_hold(caller, 1 << 20).is_some();
        for count in [1, 3] {
            let permit = budget.try_hold(caller, 1 << 20);
            let pieces = vec![Bytes::from_static(b"piece"); count];
            let mut body = Body::of_pieces(pieces, permit);
            let mut sent = Vec::new();
            while let Some(frame) = body.frame().await {
                assert!(!is_free(), "{count}");
                sent.push(frame.unwrap().into_data().unwrap());
            }
            assert_eq!(sent.concat(), b"piece".repeat(count));
            // The connection may not have written the last piece yet.
            drop(body);
            assert!(!is_free(), "{count}");
            drop(sent);
            assert!(is_free(), "{count}");
        }
        let unsent = Body::of_pieces(vec![Bytes::from_static(b"x")], budget.try_hold(caller, 9));
        drop(unsent);
        assert!(is_free());
    }
}
