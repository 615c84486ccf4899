//! The bytes of an upload on their way to the disk, hashed as they come.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use placewright_conductor::super_conductor::ImageContent;
use placewright_http::{ApiError, ApiResult, BodySink, SinkFuture};
use tempfile::NamedTempFile;

use crate::error;
use crate::folder::ImageFolder;
use crate::hashing_writer::HashingWriter;
use crate::options::Limits;
use crate::transfers::Transfer;

/// How many bytes gather in memory before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// The place where the sink leaves the complete upload for the handler.
pub(crate) type Inbox = Arc<Mutex<Option<Received>>>;

/// An upload of which all bytes arrived.
pub(crate) struct Received {
    pub(crate) file: NamedTempFile,
    pub(crate) content: ImageContent,
    /// Kept so that the upload counts as under way until the handler has ended.
    pub(crate) _transfer: Transfer,
}

/// An upload under way.
pub(crate) struct Upload {
    folder: ImageFolder,
    limits: Limits,
    transfer: Transfer,
    /// The bytes that the project's images have already.
    bytes_in_use: u64,
    inbox: Inbox,
    /// How many bytes have arrived.
    size: u64,
    /// The bytes that have arrived and are not written yet.
    buffer: Vec<u8>,
    /// `None` before the first bytes are written, and while a thread has it.
    writer: Option<HashingWriter>,
}

impl Upload {
    /// Begins an upload to an image. `bytes_in_use` is the size of all images that the image's project has already.
    ///
    /// # Errors
    ///
    /// 413 when the length that the client declared exceeds a limit.
    pub(crate) fn begin(
        (folder, limits): (ImageFolder, Limits),
        transfer: Transfer,
        bytes_in_use: u64,
        declared: Option<u64>,
        inbox: Inbox,
    ) -> ApiResult<Self> {
        let upload = Self {
            folder,
            limits,
            transfer,
            bytes_in_use,
            inbox,
            size: 0,
            buffer: Vec::new(),
            writer: None,
        };
        if let Some(declared) = declared {
            upload.check_size(declared, declared)?;
        }
        Ok(upload)
    }

    /// Checks the limits. `size` is the size of this image; `arrived` counts the bytes of all uploads of the project
    /// that are under way.
    fn check_size(&self, size: u64, arrived: u64) -> ApiResult<()> {
        let Limits {
            image_bytes_max,
            project_bytes_max,
            ..
        } = self.limits;
        if size > image_bytes_max {
            return Err(ApiError::too_large(format!(
                "The image is too large: image.image_bytes_max allows {image_bytes_max} bytes."
            )));
        }
        if self.bytes_in_use.saturating_add(arrived) > project_bytes_max {
            return Err(error::over_project_bytes(project_bytes_max));
        }
        Ok(())
    }

    async fn take(&mut self, piece: Bytes) -> ApiResult<()> {
        let bytes = piece.len() as u64;
        self.size = self.size.saturating_add(bytes);
        let arrived = self.transfer.add(bytes);
        self.check_size(self.size, arrived)?;
        self.buffer.extend_from_slice(&piece);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    /// Writes the bytes of the buffer, on a thread that may block.
    async fn flush(&mut self) -> ApiResult<()> {
        let (writer, folder) = (self.writer.take(), self.folder.clone());
        let mut buffer = std::mem::take(&mut self.buffer);
        let free_bytes_min = self.limits.free_bytes_min;
        let write = move || {
            let needed = free_bytes_min.saturating_add(buffer.len() as u64);
            if folder.free_bytes()? < needed {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let mut writer = match writer {
                Some(writer) => writer,
                None => HashingWriter::new(folder.begin()?),
            };
            writer.write(&buffer)?;
            buffer.clear();
            Ok((writer, buffer))
        };
        let (writer, buffer) = run(write).await?;
        self.writer = Some(writer);
        self.buffer = buffer;
        Ok(())
    }

    async fn end(mut self) -> ApiResult<()> {
        self.flush().await?;
        let Some(writer) = self.writer.take() else {
            return Err(ApiError::new(500, "The image was not written."));
        };
        let (file, content) = writer.finish();
        *self.inbox.lock() = Some(Received {
            file,
            content,
            _transfer: self.transfer,
        });
        Ok(())
    }
}

impl BodySink for Upload {
    fn write(&mut self, piece: Bytes) -> SinkFuture<'_> {
        Box::pin(self.take(piece))
    }

    fn finish(self: Box<Self>) -> SinkFuture<'static> {
        Box::pin(self.end())
    }
}

/// Runs work that writes to the disk, on a thread that may block.
///
/// # Errors
///
/// 507 when the disk is full, 500 when it fails otherwise.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> ApiResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(disk_error(&error)),
        Err(_) => Err(ApiError::new(500, "The image could not be written.")),
    }
}

fn disk_error(error: &io::Error) -> ApiError {
    if matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    ) {
        tracing::error!("the disk with the images is full");
        let detail = "There is no room for the image: the operator has to make some.";
        return ApiError::new(507, detail);
    }
    tracing::error!(%error, "an image cannot be written");
    ApiError::new(500, "The image could not be written.")
}
