//! The guest log: the states of guests, kept in a file so that an agent knows its guests after it
//! was killed.
//!
//! Entries are only appended: one for each change of a guest, with a checksum, read again at the
//! start. An entry that was incomplete when the agent was killed is cut off. When most entries are
//! obsolete, a new file replaces the old one. Without a file everything is in memory.
//!
//! The file needs no mark of how far it has to reach, because nothing depends on it: the cell knows
//! which guests a host should have, the driver knows which it has, and a guest without an entry is
//! reported as found. So a file that was cut between two entries is accepted. Damage before its end
//! is logged, and a copy of the file is kept aside, because entries after the damage are not read.

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

use crate::private;

pub use placewright_records::guests::GuestKey;

/// What the guest log has of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// How far the guest's build or removal has come.
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
    /// It is being built, or a build or removal failed. After a restart it is removed.
    Making,
    /// Its devices are prepared.
    Prepared,
    /// The guest is running.
    Running,
    /// It was stopped for a move to another host.
    Left,
    /// It was stopped and its data kept for an unshelving elsewhere.
    Offloaded,
    /// It exists, and an operation on it is under way or has failed.
    Unsure,
}

/// The part of a specification's body from which a host reports something: the properties of the
/// image.
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
    pub(crate) fn made_by(order: &Order) -> Self {
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
            state: GuestState::Making,
            amounts: order.amounts.clone(),
            group: order.spec.group,
            image_properties: properties.collect(),
        }
    }

    /// A guest of which only its existence is known.
    pub(crate) fn found() -> Self {
        Self {
            state: GuestState::Unsure,
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
    Foreign(PathBuf),
    /// Another agent has the file open.
    #[error("another agent uses the guest log {}", .0.display())]
    InUse(PathBuf),
}

/// The first bytes of a file. After them comes the version of its entries.
const HEAD: &[u8; 7] = b"pwguest";
/// The length of the head with the version.
const HEAD_BYTES: usize = HEAD.len() + 1;
/// The longest valid entry; a greater length means damage.
const ENTRY_BYTES_MAX: usize = 16 << 20;
/// The smallest size at which a file is compacted.
const COMPACT_BYTES_MIN: u64 = 1 << 20;

/// The guest log: the guests of all hosts of an agent.
#[derive(Debug)]
pub struct GuestLog {
    file: Option<LogFile>,
    guests: BTreeMap<(HostId, GuestKey), Guest>,
    session: u64,
}

/// The open file of a guest log, and what is still to be written to it.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    /// An exclusive lock, held while the agent runs.
    _lock: File,
    /// Whether writes are synced, to outlive a crash of the machine and not only of the agent.
    is_durable: bool,
    unwritten: Vec<u8>,
    bytes: u64,
    /// The size in bytes after the latest compaction.
    bytes_compact: u64,
}

impl GuestLog {
    /// Creates a guest log in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self {
            file: None,
            guests: BTreeMap::new(),
            session: 0,
        }
    }

    /// Opens the guest log in a file, and creates the file if it is missing.
    ///
    /// # Errors
    ///
    /// [`GuestLogError`], also when another agent uses the file.
    pub fn open(path: &Path, is_durable: bool) -> Result<Self, GuestLogError> {
        let wrong = |source| GuestLogError::Io {
            file: path.to_owned(),
            source,
        };
        if let Some(directory) = path.parent() {
            private::create_directory(directory).map_err(wrong)?;
        }
        let lock = private::options().open(path.with_extension("lock"));
        let lock = lock.map_err(wrong)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(GuestLogError::InUse(path.to_owned())),
            Err(fs::TryLockError::Error(error)) => return Err(wrong(error)),
        }
        let mut file = private::options().open(path).map_err(wrong)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(wrong)?;
        let mut log = Self::in_memory();
        let (version, good) = if bytes.len() < HEAD_BYTES {
            file.set_len(0).map_err(wrong)?;
            file.seek(SeekFrom::Start(0)).map_err(wrong)?;
            file.write_all(&head()).map_err(wrong)?;
            (guests::VERSION, HEAD_BYTES)
        } else {
            let version =
                version_of(&bytes).ok_or_else(|| GuestLogError::Foreign(path.to_owned()))?;
            let good = log.read(&bytes, version);
            if is_damaged(&bytes[good..]) {
                keep_aside(path, &bytes, good).map_err(wrong)?;
            }
            (version, good)
        };
        let good = good as u64;
        file.set_len(good).map_err(wrong)?;
        file.seek(SeekFrom::Start(good)).map_err(wrong)?;
        log.file = Some(LogFile {
            path: path.to_owned(),
            file,
            _lock: lock,
            is_durable,
            unwritten: Vec::new(),
            bytes: good,
            bytes_compact: 0,
        });
        if version == guests::VERSION {
            log.compact_if_old().map_err(wrong)?;
        } else {
            // Entries of two versions cannot be in one file.
            log.compact().map_err(wrong)?;
        }
        Ok(log)
    }

    /// Reads entries up to the first incomplete one, and returns the offset of that.
    fn read(&mut self, bytes: &[u8], version: u8) -> usize {
        let mut at = HEAD_BYTES;
        while let Some((entry, next)) = read_entry(bytes, at, version) {
            match entry {
                Entry::Put(host, key, guest) => {
                    self.guests.insert((host, key), guest.into());
                }
                Entry::Erase(host, key) => {
                    self.guests.remove(&(host, key));
                }
                Entry::Session(session) => self.session = session,
            }
            at = next;
        }
        if self.session >= NUMBER_END {
            // Earlier releases accepted any session number from a peer that posed as the cell.
            tracing::warn!(
                session = self.session,
                "the guest log has a session that nobody can have begun: sessions are counted anew"
            );
            self.session = 0;
        }
        at
    }

    /// All guests, by host.
    pub fn guests(&self) -> impl Iterator<Item = (HostId, GuestKey, &Guest)> {
        self.guests
            .iter()
            .map(|((host, key), guest)| (*host, *key, guest))
    }

    /// The guests of one host.
    pub fn guests_of(&self, host: HostId) -> impl Iterator<Item = (GuestKey, &Guest)> {
        let from = (host, (InstanceId(Uuid::nil()), 0));
        let rows = self.guests.range(from..);
        rows.take_while(move |((of, _), _)| *of == host)
            .map(|((_, key), guest)| (*key, guest))
    }

    /// Sets what the log has of a guest. It is in the file once [`Self::write`] has returned.
    pub fn keep(&mut self, host: HostId, key: GuestKey, guest: &Guest) {
        self.append(&Entry::Put(host, key, guest.into()));
        self.guests.insert((host, key), guest.clone());
    }

    /// Removes a guest. Its removal is in the file once [`Self::write`] has returned.
    pub fn erase(&mut self, host: HostId, key: GuestKey) {
        self.append(&Entry::Erase(host, key));
        self.guests.remove(&(host, key));
    }

    /// Chooses the number of a new session: greater than `after` and than all numbers that the log
    /// has. It is at least the time, so that it is also greater than the numbers that an agent
    /// chose whose log is lost, unless the clock was set back since. None if there is no greater
    /// number, because `after` is greater than what a valid cell sends.
    pub fn next_session(&mut self, now_us: u64, after: u64) -> Option<u64> {
        let next = now_us
            .max(self.session.saturating_add(1))
            .max(after.saturating_add(1));
        if next >= NUMBER_END {
            return None;
        }
        self.session = next;
        self.append(&Entry::Session(next));
        Some(next)
    }

    /// Writes all pending changes.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&mut self) -> Result<(), GuestLogError> {
        let Some(kept) = &mut self.file else {
            return Ok(());
        };
        if kept.unwritten.is_empty() {
            return Ok(());
        }
        let path = kept.path.clone();
        let wrong = |source| GuestLogError::Io { file: path, source };
        if let Err(error) = kept.append() {
            return Err(wrong(error));
        }
        self.compact_if_old().map_err(wrong)
    }

    fn append(&mut self, entry: &Entry) {
        if let Some(kept) = &mut self.file {
            write_entry(&mut kept.unwritten, entry);
        }
    }

    /// Rewrites the file if most of its entries are obsolete.
    fn compact_if_old(&mut self) -> io::Result<()> {
        let is_old = self.file.as_ref().is_some_and(|kept| {
            kept.bytes >= COMPACT_BYTES_MIN && kept.bytes >= kept.bytes_compact.saturating_mul(4)
        });
        if is_old { self.compact() } else { Ok(()) }
    }

    /// Replaces the file by one that has the present guests only, in the present version.
    fn compact(&mut self) -> io::Result<()> {
        let Some(kept) = &mut self.file else {
            return Ok(());
        };
        let mut bytes = head().to_vec();
        write_entry(&mut bytes, &Entry::Session(self.session));
        for ((host, key), guest) in &self.guests {
            write_entry(&mut bytes, &Entry::Put(*host, *key, guest.into()));
        }
        let path = kept.path.with_extension("new");
        let mut file = private::options().truncate(true).open(&path)?;
        file.write_all(&bytes)?;
        if kept.is_durable {
            file.sync_all()?;
        }
        fs::rename(&path, &kept.path)?;
        if kept.is_durable
            && let Some(directory) = kept.path.parent()
        {
            File::open(directory)?.sync_all()?;
        }
        kept.file = file;
        kept.bytes = bytes.len() as u64;
        kept.bytes_compact = kept.bytes;
        Ok(())
    }
}

impl LogFile {
    fn append(&mut self) -> io::Result<()> {
        if let Err(error) = self.file.write_all(&self.unwritten) {
            // A part of the entries may be in the file. It is cut off, and all are written again
            // the next time.
            self.file.set_len(self.bytes)?;
            self.file.seek(SeekFrom::Start(self.bytes))?;
            return Err(error);
        }
        self.bytes += self.unwritten.len() as u64;
        self.unwritten.clear();
        if self.is_durable {
            self.file.sync_data()?;
        }
        Ok(())
    }
}

/// The head of a file that this release writes.
fn head() -> [u8; HEAD_BYTES] {
    let mut head = [guests::VERSION; HEAD_BYTES];
    head[..HEAD.len()].copy_from_slice(HEAD);
    head
}

/// The version of a file's entries, if this release can read it.
fn version_of(bytes: &[u8]) -> Option<u8> {
    let version = *bytes.strip_prefix(HEAD)?.first()?;
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

/// Declares the names under which states are on record, in both directions.
macro_rules! on_record {
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

on_record!(Making, Prepared, Running, Left, Offloaded, Unsure);

/// Whether the bytes after the last good entry are more than an entry that was cut off by a kill.
fn is_damaged(rest: &[u8]) -> bool {
    let length = rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    length.is_some_and(|length| {
        length as usize > ENTRY_BYTES_MAX || rest.len() >= 8 + length as usize
    })
}

/// Keeps a copy of a damaged file.
fn keep_aside(path: &Path, bytes: &[u8], good: usize) -> io::Result<()> {
    let aside = path.with_extension("damaged");
    private::options()
        .truncate(true)
        .open(&aside)?
        .write_all(bytes)?;
    tracing::warn!(
        record = %path.display(),
        kept = %aside.display(),
        from_byte = good,
        "the guest log is damaged: what comes behind is not known any more, and guests are \
         taken as the driver finds them"
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
        // Such an entry could not be read again, nor could any entry after it.
        tracing::error!(
            bytes = body.len(),
            "a guest is too large for the guest log, which does not have it"
        );
        return;
    };
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
}

fn read_entry(bytes: &[u8], at: usize, version: u8) -> Option<(Entry, usize)> {
    let number = |from: usize| {
        let bytes = bytes.get(from..from + 4)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    };
    let length = number(at)? as usize;
    let checksum = number(at + 4)?;
    if length > ENTRY_BYTES_MAX {
        return None;
    }
    let end = at + 8 + length;
    let body = bytes.get(at + 8..end)?;
    if crc32fast::hash(body) != checksum {
        return None;
    }
    Some((guests::decode(version, body).ok()?, end))
}
