//! Bodies that are too large for memory: the body of a request is handed to a sink piece by piece, the body of a
//! response is read from a file.

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io::Read as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body as HttpBody;
use tokio::task::JoinHandle;

use crate::error::{ApiError, ApiResult};

/// The future in which a body sink handles a piece, or the end of the body.
pub type SinkFuture<'a> = Pin<Box<dyn Future<Output = ApiResult<()>> + Send + 'a>>;

/// The destination of a request body that is too large for memory. If the client closes its connection before the end
/// of the body, the sink is dropped without a call of [`Self::finish`].
pub trait BodySink: Send {
    /// Takes the next piece. No more is read from the client until that is done.
    ///
    /// # Errors
    ///
    /// The request is refused, and nothing more of its body is read.
    fn write(&mut self, piece: Bytes) -> SinkFuture<'_>;

    /// Takes the end of the body.
    ///
    /// # Errors
    ///
    /// The request is refused.
    fn finish(self: Box<Self>) -> SinkFuture<'static>;
}

/// The number of bytes that have to arrive within the time-out of a body, so that a client that sends next to nothing
/// cannot go on for ever. This is also the memory that a streamed body occupies, besides one piece.
const WINDOW_BYTES: usize = 256 << 10;

/// Hands the body of a request to a sink.
///
/// # Errors
///
/// Those of the sink; 408 when the body arrives too slowly, 400 when the client stops sending before the end.
pub(crate) async fn receive<B>(
    body: &mut B,
    mut sink: Box<dyn BodySink>,
    timeout: Duration,
) -> ApiResult<()>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: fmt::Display,
{
    loop {
        let window = placewright_net::peer_timeout(timeout, next_window(body)).await;
        let window = window
            .ok_or_else(|| ApiError::new(408, "The body arrives too slowly: it was given up."))??;
        let is_last = window.is_last;
        for piece in window.pieces {
            sink.write(piece).await?;
        }
        if is_last {
            return sink.finish().await;
        }
    }
}

/// Pieces of a body that arrived together.
struct Window {
    pieces: Vec<Bytes>,
    /// Whether the body ends with them.
    is_last: bool,
}

/// Reads pieces until they have [`WINDOW_BYTES`] together, or the body ends.
async fn next_window<B>(body: &mut B) -> ApiResult<Window>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: fmt::Display,
{
    let (mut pieces, mut bytes) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| ApiError::bad_request(format!("Unreadable body: {error}")))?;
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        bytes += piece.len();
        pieces.push(piece);
        if bytes >= WINDOW_BYTES {
            return Ok(Window {
                pieces,
                is_last: false,
            });
        }
    }
    Ok(Window {
        pieces,
        is_last: true,
    })
}

/// How much of a file is in memory at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// The content of a file as the body of a response. It is read on other threads, as fast as the client takes it.
pub struct FileBody {
    bytes_left: u64,
    state: FileState,
    /// A value that the body keeps until it is sent, such as a permit.
    _held: Box<dyn Send>,
}

enum FileState {
    /// The file, while no read is under way.
    Idle(File),
    /// A read on another thread. Its result is the file and the next piece.
    Reading(JoinHandle<std::io::Result<(File, Bytes)>>),
    /// The file was read to its end, or cannot be read further.
    Over,
}

impl FileBody {
    /// The first `bytes` of a file, from its position on. `held` is dropped when they are sent, or the client is gone.
    pub fn new(file: File, bytes: u64, held: impl Send + 'static) -> Self {
        Self {
            bytes_left: bytes,
            state: FileState::Idle(file),
            _held: Box::new(held),
        }
    }

    /// How many bytes are still to come.
    pub(crate) fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// The next piece. If the file ends early or cannot be read, so does the body: the connection is then closed,
    /// because fewer bytes came than were announced.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match std::mem::replace(&mut self.state, FileState::Over) {
                FileState::Over => return Poll::Ready(None),
                FileState::Idle(_) if self.bytes_left == 0 => return Poll::Ready(None),
                FileState::Idle(file) => {
                    let most = self.bytes_left.min(PIECE_BYTES);
                    let read = tokio::task::spawn_blocking(move || read_piece(file, most));
                    self.state = FileState::Reading(read);
                }
                FileState::Reading(mut reading) => {
                    let Poll::Ready(read) = Pin::new(&mut reading).poll(context) else {
                        self.state = FileState::Reading(reading);
                        return Poll::Pending;
                    };
                    let Ok(Ok((file, piece))) = read else {
                        tracing::error!("a file cannot be read while it is sent");
                        return Poll::Ready(None);
                    };
                    self.bytes_left = self.bytes_left.saturating_sub(piece.len() as u64);
                    self.state = FileState::Idle(file);
                    return Poll::Ready(Some(piece));
                }
            }
        }
    }
}

/// Reads the next piece of a file, of at most `most` bytes. The end of the file is an error.
fn read_piece(file: File, most: u64) -> std::io::Result<(File, Bytes)> {
    let mut piece = Vec::new();
    let mut limited = file.take(most);
    if limited.read_to_end(&mut piece)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok((limited.into_inner(), piece.into()))
}

impl fmt::Debug for FileBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("FileBody");
        debug
            .field("bytes_left", &self.bytes_left)
            .finish_non_exhaustive()
    }
}
