//! Limits of large responses: of the size of each, and of the memory of all that are being sent.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::costly::Caller;
use crate::error::{ApiError, ApiResult};
use crate::json::Writer;
use crate::memory_budget::{MemoryBudget, MemoryPermit, UNIT_BYTES};
use crate::options::HttpOptions;

/// Responses of fewer bytes than this are not counted against the memory for large responses.
pub const SMALL_RESPONSE_BYTES: usize = 256 << 10;

/// The approximate size of a piece of a response.
const PIECE_BYTES: usize = 64 << 10;

/// One caller may occupy at most the memory for large responses, divided by this number.
const SHARE_DIVISOR: usize = 4;

/// When a client that was refused for lack of memory may retry.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The memory that large responses may occupy while they are sent.
#[derive(Debug)]
pub(crate) struct ResponseMemoryLimit {
    total: Arc<Semaphore>,
    /// The same memory, with a limit for each caller.
    shares: MemoryBudget,
}

impl ResponseMemoryLimit {
    pub(crate) fn new(options: &HttpOptions) -> Self {
        let units = options.answers_bytes_max.div_ceil(UNIT_BYTES);
        let total = Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS)));
        let shares = MemoryBudget::of(Arc::clone(&total), units / SHARE_DIVISOR);
        Self { total, shares }
    }

    /// Reserves memory within a caller's share, for a response that occupies `bytes` until it is sent; nothing is
    /// reserved for a small one.
    ///
    /// # Errors
    /// 503 when the responses of the caller, or of all callers together, occupy too much memory.
    pub(crate) fn reserve(
        &self,
        options: &HttpOptions,
        caller: Caller,
        bytes: usize,
    ) -> ApiResult<Option<MemoryPermit>> {
        if bytes < SMALL_RESPONSE_BYTES {
            return Ok(None);
        }
        let permit = self.shares.try_hold(caller, bytes);
        permit.map(Some).ok_or_else(|| {
            let total_max = options.answers_bytes_max;
            ApiError::unavailable(format!(
                "Large answers that were not taken yet hold what placement.answers_bytes_max allows \
                 ({total_max} bytes, of which one project has a quarter). Try again."
            ))
            .with_retry_after(RETRY_AFTER)
        })
    }

    /// Checks that a response of about `bytes` bytes may be sent, and reserves the `memory_bytes` that it
    /// occupies until it is sent; nothing is reserved for a small one. `advice` says how to get a smaller response.
    ///
    /// # Errors
    ///
    /// 400 for a response that is too large; 503 when other responses occupy too much memory.
    pub(crate) fn check_and_reserve(
        &self,
        options: &HttpOptions,
        bytes: usize,
        memory_bytes: usize,
        advice: &str,
    ) -> ApiResult<Option<OwnedSemaphorePermit>> {
        let bytes_max = options.answer_bytes_max;
        if bytes > bytes_max {
            return Err(ApiError::bad_request(format!(
                "The answer would have about {bytes} bytes; placement.answer_bytes_max allows \
                 {bytes_max}. {advice}"
            )));
        }
        if memory_bytes < SMALL_RESPONSE_BYTES {
            return Ok(None);
        }
        let units = u32::try_from(memory_bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.total).try_acquire_many_owned(units);
        permit.map(Some).map_err(|_| {
            ApiError::unavailable(format!(
                "Large answers that other clients have not taken yet hold the {} bytes that \
                 placement.answers_bytes_max allows. Try again.",
                options.answers_bytes_max
            ))
            .with_retry_after(RETRY_AFTER)
        })
    }
}

/// Returns a function that makes the pieces of a list one by one: the text that `open` writes, each item, and the text
/// that `close` writes. The function returns `None` after the last piece.
pub fn pieces_of_list<I>(
    open: impl FnOnce(&mut Writer) + Send,
    items: I,
    write: impl Fn(&mut Writer, I::Item) + Send,
    close: impl FnOnce(&mut Writer) + Send,
) -> impl FnMut() -> Option<Vec<u8>> + Send
where
    I: Iterator + Send,
{
    let mut writer = Writer::with_capacity(2 * PIECE_BYTES);
    open(&mut writer);
    let (mut items, mut close) = (items, Some(close));
    move || {
        // `close` was called for the last piece, so there is no further one.
        close.as_ref()?;
        while writer.written().len() < PIECE_BYTES {
            if let Some(item) = items.next() {
                write(&mut writer, item);
            } else if let Some(close) = close.take() {
                close(&mut writer);
                break;
            }
        }
        Some(writer.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_goes_out_in_pieces_that_are_one_text() {
        let pieces = pieces_of_list(
            |writer| {
                writer.open_object();
                writer.key("all");
                writer.open_array();
            },
            0..100_000_u32,
            |writer, number| writer.integer(number),
            |writer| {
                writer.close_array();
                writer.close_object();
            },
        );
        let pieces: Vec<Vec<u8>> = std::iter::from_fn(pieces).collect();
        assert!(pieces.len() > 5);
        assert!(pieces.iter().all(|piece| piece.len() < 2 * PIECE_BYTES));
        let text = String::from_utf8(pieces.concat()).expect("text");
        assert!(text.starts_with("{\"all\": [0, 1, 2") && text.ends_with(", 99999]}"));
    }

    #[test]
    fn answers_hold_only_so_much_together() {
        let options = HttpOptions {
            answer_bytes_max: 4 << 20,
            answers_bytes_max: 1 << 20,
            ..HttpOptions::default()
        };
        let answers = ResponseMemoryLimit::new(&options);
        let reserve =
            |bytes, memory_bytes| answers.check_and_reserve(&options, bytes, memory_bytes, "");
        let status = |result: ApiResult<_>| result.map(|_| ()).map_err(|error| error.status());
        assert_eq!(status(reserve(5 << 20, 1)), Err(400));
        let first = reserve(4 << 20, 600 << 10).expect("room");
        assert_eq!(status(reserve(4 << 20, 600 << 10)), Err(503));
        assert_eq!(status(reserve(4 << 20, 200 << 10)), Ok(()));
        drop(first);
        assert_eq!(status(reserve(4 << 20, 600 << 10)), Ok(()));
    }
}
