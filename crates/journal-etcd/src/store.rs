//! The client and the keys, which all handles of a store share, and how failures are reported.

use std::path::PathBuf;
use std::time::Instant;

use parking_lot::Mutex;
use placewright_journal::JournalError;
use placewright_journal::batch::LogEnd;
use prost::bytes::Bytes;

use crate::client::{Client, Repeat};
use crate::failure::{Cause, Failure};
use crate::keys::Keys;
use crate::kv;
use crate::notice::EtcdNotice;
use crate::proto::{Compare, KeyValue, RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use crate::rows::{FORMAT, Head, RowError, decode_trim};

/// The store as all its handles see it.
pub(crate) struct Store {
    pub(crate) client: Client,
    pub(crate) keys: Keys,
    /// The address, without secrets.
    pub(crate) url: String,
    /// Whether trimming compacts etcd's history.
    pub(crate) compact: bool,
    pub(crate) last_compaction: Mutex<Option<Instant>>,
    pub(crate) notices: Vec<EtcdNotice>,
}

/// The head as it was read or written, and the revision at which it was written.
#[derive(Clone, Debug)]
pub(crate) struct KnownHead {
    pub(crate) head: Head,
    pub(crate) value: Bytes,
    pub(crate) revision: i64,
}

impl KnownHead {
    /// The conditions of a transaction that hold if the head has not changed. To compare the revision alone is not
    /// enough: after a restore of the cluster from a backup the same revision may come again with another value.
    pub(crate) fn is_unchanged(&self, keys: &Keys) -> Vec<Compare> {
        vec![
            kv::is_at(keys.head(), self.revision),
            kv::has_value(keys.head(), self.value.clone()),
        ]
    }
}

impl Store {
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(&self.url)
    }

    /// The error for a failure that occurred while `doing` something.
    pub(crate) fn error(&self, doing: &'static str, failure: Failure) -> JournalError {
        error_of(&self.url, doing, failure)
    }

    /// The error for a value that cannot be read.
    pub(crate) fn row_error(&self, error: RowError, key: &str) -> JournalError {
        match error {
            RowError::Newer(found) => JournalError::NewerFormat {
                path: self.path(),
                found: found.into(),
                supported: FORMAT.into(),
            },
            RowError::Bad => self.damaged_store(0, format!("the value of {key} is damaged")),
        }
    }

    pub(crate) fn damaged_store(&self, sequence: u64, reason: String) -> JournalError {
        JournalError::DamagedStore {
            path: self.path(),
            sequence,
            reason,
        }
    }

    /// The error for an append to a sealed store; `None` if the store is not sealed.
    pub(crate) fn sealed(&self, head: &Head) -> Option<JournalError> {
        let moved_to = head.moved_to.clone()?;
        Some(JournalError::Sealed {
            url: self.url.clone(),
            end: head.end.last,
            moved_to,
        })
    }

    pub(crate) fn missing(&self, first: u64, last: u64) -> JournalError {
        JournalError::Missing {
            path: self.path(),
            first,
            last,
        }
    }

    /// Makes reads at one revision, which is the newest that is durable on a majority of the members.
    pub(crate) fn read<const N: usize>(
        &self,
        doing: &'static str,
        reads: [RangeRequest; N],
    ) -> Result<impl Iterator<Item = RangeResponse> + use<N>, JournalError> {
        let request = kv::all(reads.into_iter().map(kv::read).collect());
        self.repeat(doing, request).map(kv::ranges)
    }

    /// Makes a transaction that may be carried out more than once.
    pub(crate) fn repeat(
        &self,
        doing: &'static str,
        request: TxnRequest,
    ) -> Result<TxnResponse, JournalError> {
        let response = self.client.txn(request, Repeat::UntilAnswered);
        response.map_err(|failure| self.error(doing, failure))
    }

    pub(crate) fn read_head(&self, doing: &'static str) -> Result<KnownHead, JournalError> {
        let mut ranges = self.read(doing, [kv::get(self.keys.head())])?;
        self.known_head(kv::one(ranges.next()))
    }

    /// The head in the key that was read; an error if the key does not exist.
    pub(crate) fn known_head(&self, found: Option<KeyValue>) -> Result<KnownHead, JournalError> {
        let found = found.ok_or_else(|| JournalError::NotFound { path: self.path() })?;
        let head = Head::decode(&found.value).map_err(|error| self.row_error(error, "head"))?;
        Ok(KnownHead {
            head,
            value: found.value,
            revision: found.mod_revision,
        })
    }

    /// The end of the trimmed entries.
    pub(crate) fn trimmed(&self, found: Option<&KeyValue>) -> Result<LogEnd, JournalError> {
        let missing = || self.damaged_store(0, "the key trim is missing".into());
        let found = found.ok_or_else(missing)?;
        decode_trim(&found.value).map_err(|error| self.row_error(error, "trim"))
    }

    pub(crate) fn read_trimmed(&self, doing: &'static str) -> Result<LogEnd, JournalError> {
        let mut ranges = self.read(doing, [kv::get(self.keys.trim())])?;
        self.trimmed(kv::one(ranges.next()).as_ref())
    }

    /// Removes keys. A failure is ignored, because a later trim or a later snapshot removes the keys that are left.
    pub(crate) fn delete_if_possible(&self, (from, until): (Bytes, Bytes)) {
        let request = kv::all(vec![kv::delete(from, until)]);
        let _ = self.client.txn(request, Repeat::UntilSent);
    }
}

/// The error for a failure of the store at `url`.
pub(crate) fn error_of(url: &str, doing: &'static str, failure: Failure) -> JournalError {
    let url = url.to_owned();
    let reason = failure.reason;
    match failure.cause {
        Cause::NotDone | Cause::Unknown => JournalError::Unreachable { url, doing, reason },
        Cause::NoSpace => no_space(&url),
        Cause::Denied => JournalError::ReadOnly {
            path: url.into(),
            reason,
        },
        Cause::BadToken | Cause::Refused | Cause::OtherCluster => {
            let reason = with_advice(reason);
            JournalError::Unsuitable { url, reason }
        }
    }
}

/// Appends advice for the operator to an error of etcd, if the cause is a known setting.
fn with_advice(reason: String) -> String {
    let advice = if reason.contains("request is too large") {
        "set --max-request-bytes to etcd's default, 1572864, or more"
    } else if reason.contains("user name is empty") {
        "name a user in the store's address, with user and password_file"
    } else {
        return reason;
    };
    format!("{reason}: {advice}")
}

/// The error for a database at its quota. It names the address, and what an operator can do.
pub(crate) fn no_space(url: &str) -> JournalError {
    JournalError::NoSpace {
        path: format!(
            "{url} (etcd is at its quota: raise --quota-backend-bytes, or run `etcdctl compact` and `etcdctl \
             defrag`, then `etcdctl alarm disarm`)"
        )
        .into(),
    }
}
