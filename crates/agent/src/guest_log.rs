//! The guest log: the states of guests, kept in a file so that an agent knows its guests after it was killed.
//!
//! The file is an append-only log with an entry and a checksum for each change of a guest. An incomplete entry at its
//! end, which a kill leaves, is cut off. When the file has grown long, it is rewritten without obsolete entries.
//!
//! The file needs no high-water mark, because lost entries do no harm: the cell knows which guests a host should
//! have, the driver knows which it has, and a guest without an entry is added as [`GuestState::Uncertain`]. So a
//! file that was cut between two entries is accepted. Damage before its end causes a warning, and a copy of the
//! file is kept beside it, because the entries after the damage are not read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use placewright_conductor::cell_conductor::Order;
use placewright_conductor::ids::NUMBER_END;
use placewright_conductor::{Amounts, HostId, InstanceId};
use placewright_records::guests::{self, Entry, GuestRow, GuestStateName};
use placewright_records::server;
use serde::Deserialize;
use thiserror::Error;
use uuid::Uuid;

use crate::file_lock::FileLock;
use crate::private_files::{create_directory, open_options};

pub use placewright_records::guests::GuestKey;

/// A guest as it is recorded in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// The state of the guest.
    pub state: GuestState,
    /// The amounts that it holds of the host's providers.
    pub amounts: Vec<Amounts>,
    /// The server group that its instance is a member of.
    pub group: Option<Uuid>,
    /// The properties of its image: name and value as text.
    pub image_properties: Vec<(String, String)>,
}

/// The state of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestState {
    /// The guest's build is under way or was cancelled, or its build or removal failed. A restart removes the guest.
    Incomplete,
    /// The guest's devices are prepared; the guest was not started yet.
    Prepared,
    /// The guest is running.
    Running,
    /// The guest was stopped for a move to another host.
    Left,
    /// The guest was stopped, and its data kept for an unshelving elsewhere.
    Offloaded,
    /// The guest exists, but was found without an entry, or an operation on it is under way, failed or was cancelled.
    Uncertain,
}

/// The only part of a specification's body that hosts report: the properties of the image.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    request: BodyRequest,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BodyRequest {
    image: Option<BodyImage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BodyImage {
    properties: BTreeMap<String, serde_json::Value>,
}

impl Guest {
    /// The initial state of a guest that is built for an order.
    pub(crate) fn for_order(order: &Order) -> Self {
        // A body without an image, or in another format, is not an error for the agent.
        let body: Body = serde_json::from_str(&server::json(&order.spec.body)).unwrap_or_default();
        let image = body.request.image.unwrap_or_default();
        let properties = image.properties.into_iter().map(|(name, value)| {
            let text = match value {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            (name, text)
        });
        Self {
            state: GuestState::Incomplete,
            amounts: order.amounts.clone(),
            group: order.spec.group,
            image_properties: properties.collect(),
        }
    }

    /// A guest that exists and has no entry in the log, so that nothing else is known of it.
    pub(crate) fn unlogged() -> Self {
        Self {
            state: GuestState::Uncertain,
            amounts: Vec::new(),
            group: None,
            image_properties: Vec::new(),
        }
    }
}

/// Why a guest log cannot be used.
#[derive(Debug, Error)]
pub enum GuestLogError {
    /// The file cannot be read or written.
    #[error("the guest log {}: {source}", file.display())]
    Io {
        /// The path of the file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a guest log, or was written by a later release.
    #[error("{} is no guest log that this release can read", .0.display())]
    UnknownFormat(PathBuf),
    /// Another agent has the file open.
    #[error("another agent uses the guest log {}", .0.display())]
    InUse(PathBuf),
}

/// The magic number at the beginning of a file. The version of its entries follows.
const MAGIC: &[u8; 7] = b"pwguest";
/// The length of the header: the magic number and the version.
const HEADER_BYTES: usize = MAGIC.len() + 1;
/// The length of the prefix of an entry: its length and its checksum.
const PREFIX_BYTES: usize = 8;
/// The maximum length of an entry after its prefix; a greater length in the file means damage.
const ENTRY_BYTES_MAX: usize = 16 << 20;
/// The minimum size in bytes at which a file is compacted.
const COMPACT_BYTES_MIN: u64 = 1 << 20;

/// The guest log: the guests of all hosts of an agent.
#[derive(Debug)]
pub struct GuestLog {
    file: Option<LogFile>,
    guests: BTreeMap<(HostId, GuestKey), Guest>,
    last_session: u64,
}

/// The open file of a guest log, and the bytes that are still to be written to it.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    /// Held while the agent runs.
    _lock: FileLock,
    /// Whether writes are synced, so that they survive a crash of the machine.
    is_durable: bool,
    unwritten: Vec<u8>,
    size_bytes: u64,
    /// The size in bytes after the latest compaction; 0 if there was none since the file was opened.
    compacted_bytes: u64,
}

impl GuestLog {
    /// Creates a guest log without a file: it is in memory only.
    #[must_use]
    pub fn in_memory() -> Self {
        Self {
            file: None,
            guests: BTreeMap::new(),
            last_session: 0,
        }
    }

    /// Opens the guest log in a file, and creates the file if it is missing.
    ///
    /// # Errors
    ///
    /// [`GuestLogError`], also when another agent uses the file.
    pub fn open(path: &Path, is_durable: bool) -> Result<Self, GuestLogError> {
        let io_error = |source| GuestLogError::Io {
            file: path.to_owned(),
            source,
        };
        if let Some(directory) = path.parent() {
            create_directory(directory).map_err(io_error)?;
        }
        let lock = open_options().open(path.with_extension("lock"));
        let lock = lock.map_err(io_error)?;
        let lock = FileLock::take(lock).map_err(|error| match error {
            fs::TryLockError::WouldBlock => GuestLogError::InUse(path.to_owned()),
            fs::TryLockError::Error(error) => io_error(error),
        })?;
        let mut file = open_options().open(path).map_err(io_error)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io_error)?;
        let mut log = Self::in_memory();
        let (version, valid_end) = if bytes.len() < HEADER_BYTES {
            file.set_len(0).map_err(io_error)?;
            file.seek(SeekFrom::Start(0)).map_err(io_error)?;
            file.write_all(&header()).map_err(io_error)?;
            (guests::VERSION, HEADER_BYTES)
        } else {
            let version =
                version_of(&bytes).ok_or_else(|| GuestLogError::UnknownFormat(path.to_owned()))?;
            let valid_end = log.read_entries(&bytes, version);
            if is_damaged(&bytes[valid_end..]) {
                keep_damaged_copy(path, &bytes, valid_end).map_err(io_error)?;
            }
            (version, valid_end)
        };
        let valid_end = valid_end as u64;
        file.set_len(valid_end).map_err(io_error)?;
        file.seek(SeekFrom::Start(valid_end)).map_err(io_error)?;
        log.file = Some(LogFile {
            path: path.to_owned(),
            file,
            _lock: lock,
            is_durable,
            unwritten: Vec::new(),
            size_bytes: valid_end,
            compacted_bytes: 0,
        });
        if version == guests::VERSION {
            log.compact_if_obsolete().map_err(io_error)?;
        } else {
            // Entries of two versions cannot be in one file.
            log.compact().map_err(io_error)?;
        }
        Ok(log)
    }

    /// Reads entries up to the first that is incomplete or damaged, and returns its offset.
    fn read_entries(&mut self, bytes: &[u8], version: u8) -> usize {
        let mut offset = HEADER_BYTES;
        while let Some((entry, end)) = read_entry(bytes, offset, version) {
            match entry {
                Entry::Put(host, key, guest) => {
                    self.guests.insert((host, key), guest.into());
                }
                Entry::Erase(host, key) => {
                    self.guests.remove(&(host, key));
                }
                Entry::Session(session) => self.last_session = session,
            }
            offset = end;
        }
        if self.last_session >= NUMBER_END {
            // Earlier releases accepted any session number from a peer, even one that only pretended to be the cell.
            tracing::warn!(
                session = self.last_session,
                "the guest log has a session number beyond the allowed ones; it is discarded"
            );
            self.last_session = 0;
        }
        offset
    }

    /// All guests, by host.
    pub fn guests(&self) -> impl Iterator<Item = (HostId, GuestKey, &Guest)> {
        self.guests
            .iter()
            .map(|((host, key), guest)| (*host, *key, guest))
    }

    /// The guests of one host.
    pub fn guests_of(&self, host: HostId) -> impl Iterator<Item = (GuestKey, &Guest)> {
        let first_key = (host, (InstanceId(Uuid::nil()), 0));
        let rows = self.guests.range(first_key..);
        rows.take_while(move |((row_host, _), _)| *row_host == host)
            .map(|((_, key), guest)| (*key, guest))
    }

    /// Adds or replaces a guest. The change is in the file once [`Self::write`] has returned.
    pub fn put(&mut self, host: HostId, key: GuestKey, guest: &Guest) {
        self.queue_entry(&Entry::Put(host, key, guest.into()));
        self.guests.insert((host, key), guest.clone());
    }

    /// Removes a guest. The change is in the file once [`Self::write`] has returned.
    pub fn erase(&mut self, host: HostId, key: GuestKey) {
        self.queue_entry(&Entry::Erase(host, key));
        self.guests.remove(&(host, key));
    }

    /// Chooses the number of a new session: greater than `after`, which is at least the number that the cell named, and
    /// than all session numbers in the log. It is also at least the present time in microseconds, so that it exceeds
    /// the numbers of a lost log, unless the time of day was set back since. `None` if `after` is so great that no
    /// number is left above it; no valid cell sends such a number.
    pub fn next_session(&mut self, now_us: u64, after: u64) -> Option<u64> {
        let number = now_us
            .max(self.last_session.saturating_add(1))
            .max(after.saturating_add(1));
        if number >= NUMBER_END {
            return None;
        }
        self.last_session = number;
        self.queue_entry(&Entry::Session(number));
        Some(number)
    }

    /// Writes all pending changes to the file.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&mut self) -> Result<(), GuestLogError> {
        let Some(log_file) = &mut self.file else {
            return Ok(());
        };
        if log_file.unwritten.is_empty() {
            return Ok(());
        }
        let path = log_file.path.clone();
        let io_error = |source| GuestLogError::Io { file: path, source };
        if let Err(error) = log_file.append() {
            return Err(io_error(error));
        }
        self.compact_if_obsolete().map_err(io_error)
    }

    /// Adds an entry to those that [`Self::write`] writes.
    fn queue_entry(&mut self, entry: &Entry) {
        if let Some(log_file) = &mut self.file {
            write_entry(&mut log_file.unwritten, entry);
        }
    }

    /// Rewrites the file without obsolete entries if it has at least [`COMPACT_BYTES_MIN`] and is at least four times
    /// as long as after the latest compaction since it was opened.
    fn compact_if_obsolete(&mut self) -> io::Result<()> {
        let must_compact = self.file.as_ref().is_some_and(|file| {
            file.size_bytes >= COMPACT_BYTES_MIN
                && file.size_bytes >= file.compacted_bytes.saturating_mul(4)
        });
        if must_compact { self.compact() } else { Ok(()) }
    }

    /// Replaces the file by one with an entry for the latest session and one for each present guest, in the present
    /// version.
    fn compact(&mut self) -> io::Result<()> {
        let Some(log_file) = &mut self.file else {
            return Ok(());
        };
        let mut bytes = header().to_vec();
        write_entry(&mut bytes, &Entry::Session(self.last_session));
        for ((host, key), guest) in &self.guests {
            write_entry(&mut bytes, &Entry::Put(*host, *key, guest.into()));
        }
        let path = log_file.path.with_extension("new");
        let mut file = open_options().truncate(true).open(&path)?;
        file.write_all(&bytes)?;
        if log_file.is_durable {
            file.sync_all()?;
        }
        fs::rename(&path, &log_file.path)?;
        if log_file.is_durable
            && let Some(directory) = log_file.path.parent()
        {
            File::open(directory)?.sync_all()?;
        }
        log_file.file = file;
        log_file.size_bytes = bytes.len() as u64;
        log_file.compacted_bytes = log_file.size_bytes;
        Ok(())
    }
}

impl LogFile {
    fn append(&mut self) -> io::Result<()> {
        let mut written = self.file.write_all(&self.unwritten);
        if self.is_durable {
            written = written.and_then(|()| self.file.sync_data());
        }
        if let Err(error) = written {
            // The entries are written in part or not synced. They are cut off, and the next call writes them all again.
            self.file.set_len(self.size_bytes)?;
            self.file.seek(SeekFrom::Start(self.size_bytes))?;
            return Err(error);
        }
        self.size_bytes += self.unwritten.len() as u64;
        self.unwritten.clear();
        Ok(())
    }
}

/// The header of a file that this release writes.
fn header() -> [u8; HEADER_BYTES] {
    let mut header = [guests::VERSION; HEADER_BYTES];
    header[..MAGIC.len()].copy_from_slice(MAGIC);
    header
}

/// The version of a file's entries, if this release can read it.
fn version_of(bytes: &[u8]) -> Option<u8> {
    let version = *bytes.strip_prefix(MAGIC)?.first()?;
    (1..=guests::VERSION).contains(&version).then_some(version)
}

impl From<&Guest> for GuestRow {
    fn from(guest: &Guest) -> Self {
        Self {
            state: guest.state.into(),
            amounts: guest.amounts.clone(),
            group: guest.group,
            image_properties: guest.image_properties.clone(),
        }
    }
}

impl From<GuestRow> for Guest {
    fn from(row: GuestRow) -> Self {
        Self {
            state: row.state.into(),
            amounts: row.amounts,
            group: row.group,
            image_properties: row.image_properties,
        }
    }
}

/// Converts between [`GuestState`] and its form in the file, [`GuestStateName`]. Their variants have the same names.
macro_rules! convert_states {
    ($($state:ident),*) => {
        impl From<GuestState> for GuestStateName {
            fn from(state: GuestState) -> Self {
                match state { $( GuestState::$state => Self::$state, )* }
            }
        }

        impl From<GuestStateName> for GuestState {
            fn from(name: GuestStateName) -> Self {
                match name { $( GuestStateName::$state => Self::$state, )* }
            }
        }
    };
}

convert_states!(Incomplete, Prepared, Running, Left, Offloaded, Uncertain);

/// Whether the bytes after the last valid entry are more than an incomplete entry.
fn is_damaged(rest: &[u8]) -> bool {
    let length = rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    length.is_some_and(|length| {
        length as usize > ENTRY_BYTES_MAX || rest.len() >= PREFIX_BYTES + length as usize
    })
}

/// Writes a copy of a damaged file beside it.
fn keep_damaged_copy(path: &Path, bytes: &[u8], valid_end: usize) -> io::Result<()> {
    let copy = path.with_extension("damaged");
    open_options()
        .truncate(true)
        .open(&copy)?
        .write_all(bytes)?;
    tracing::warn!(
        file = %path.display(), copy = %copy.display(), from_byte = valid_end,
        "the guest log is damaged: its entries from this byte on are lost. Guests that the driver lists and that \
         have no entry are added as uncertain"
    );
    Ok(())
}

/// Appends an entry: its length, its checksum and its bytes.
fn write_entry(bytes: &mut Vec<u8>, entry: &Entry) {
    let body = guests::encode(entry);
    let Some(length) = u32::try_from(body.len())
        .ok()
        .filter(|_| body.len() <= ENTRY_BYTES_MAX)
    else {
        // If it were written, neither it nor any entry after it could be read again.
        tracing::error!(
            bytes = body.len(),
            "a guest is too large for the guest log, so it is not recorded"
        );
        return;
    };
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
}

/// The entry at an offset, and the offset of the next one; none if it is incomplete or damaged.
fn read_entry(bytes: &[u8], offset: usize, version: u8) -> Option<(Entry, usize)> {
    let read_u32 = |from: usize| {
        let bytes = bytes.get(from..from + 4)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    };
    let length = read_u32(offset)? as usize;
    let checksum = read_u32(offset + 4)?;
    if length > ENTRY_BYTES_MAX {
        return None;
    }
    let end = offset + PREFIX_BYTES + length;
    let body = bytes.get(offset + PREFIX_BYTES..end)?;
    if crc32fast::hash(body) != checksum {
        return None;
    }
    Some((guests::decode(version, body).ok()?, end))
}
