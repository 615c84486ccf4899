//! Changes of the head that append nothing: a new epoch, the seal of a store that was moved, and the beginning of a
//! copy.

use placewright_journal::JournalError;
use placewright_journal::batch::LogEnd;

use super::EtcdJournal;
use crate::kv;
use crate::proto::TxnRequest;
use crate::rows::{Head, encode_trim};
use crate::store::KnownHead;

/// The head of a log: where the log ends, its epoch, and whether it is sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdHead {
    /// The last entry, even if it was trimmed; 0 if nothing was ever appended.
    pub end: u64,
    /// How often [`EtcdJournal::take_over`] began a new epoch of the log. Unlike the epoch of a leading replica, it is
    /// not the number of an entry.
    pub epoch: u64,
    /// The address of the store that replaces this one, if this one is sealed.
    pub moved_to: Option<String>,
}

impl From<&Head> for EtcdHead {
    fn from(head: &Head) -> Self {
        Self {
            end: head.end.last,
            epoch: head.epoch,
            moved_to: head.moved_to.clone(),
        }
    }
}

impl EtcdJournal {
    /// Reads the head from a majority of the members: it has every append that was acknowledged before this call.
    ///
    /// # Errors
    /// When the store cannot be read, or lost entries that this handle saw.
    pub fn head(&mut self) -> Result<EtcdHead, JournalError> {
        self.refresh("read")?;
        Ok(EtcdHead::from(&self.known.head))
    }

    /// Begins a new epoch, and returns the head with it. Appends that are under way on other handles fail with a
    /// conflict. Nobody else gets the same epoch.
    ///
    /// # Errors
    /// [`JournalError::Sealed`], or the store cannot be written; in the second case the epoch may have grown.
    pub fn take_over(&mut self) -> Result<EtcdHead, JournalError> {
        loop {
            self.refresh("take over")?;
            if let Some(sealed) = self.store.sealed(&self.known.head) {
                return Err(sealed);
            }
            let head = Head {
                epoch: self.known.head.epoch + 1,
                ..self.known.head.clone()
            };
            // If the request is sent twice and the first one takes effect, the second one seems to fail, and the next
            // round of the loop begins another epoch, which does no harm.
            if self.swap("take over", head)? {
                return Ok(EtcdHead::from(&self.known.head));
            }
        }
    }

    pub(super) fn seal_store(&mut self, moved_to: &str) -> Result<u64, JournalError> {
        loop {
            self.refresh("seal")?;
            let head = &self.known.head;
            match &head.moved_to {
                Some(address) if address == moved_to => return Ok(head.end.last),
                // It is sealed with another address. `sealed` has an error for every head with `moved_to`, so `Ok` is
                // never returned; the compiler needs it.
                Some(_) => return self.store.sealed(head).map_or(Ok(head.end.last), Err),
                None => {}
            }
            let head = Head {
                moved_to: Some(moved_to.to_owned()),
                ..head.clone()
            };
            self.swap("seal", head)?;
        }
    }

    /// Lets an empty store begin after entry `sequence`, as if all entries up to it had been trimmed. Does nothing if
    /// the store begins there already and holds no entries, so that it can be repeated.
    pub(super) fn begin_store_after(&mut self, sequence: u64) -> Result<(), JournalError> {
        loop {
            self.refresh("begin")?;
            let trimmed = self.store.read_trimmed("begin")?;
            let end = self.known.head.end.last;
            if end == sequence && trimmed.last == sequence {
                return Ok(());
            }
            if end > 0 {
                let path = self.store.path();
                return Err(JournalError::NotEmpty { path, end });
            }
            let wanted = LogEnd {
                last: sequence,
                ..LogEnd::default()
            };
            let head = Head {
                end: wanted,
                ..self.known.head.clone()
            };
            let keys = &self.store.keys;
            let request = TxnRequest {
                compare: self.known.is_unchanged(keys),
                success: vec![
                    kv::put(keys.head(), head.encode()),
                    kv::put(keys.trim(), encode_trim(&wanted)),
                ],
                failure: Vec::new(),
            };
            // The next round of the loop reads the head again, and so sees whether this transaction took effect.
            self.store.repeat("begin", request)?;
        }
    }

    /// Replaces the head, unless it has changed since it was last read or written; returns whether it was replaced.
    fn swap(&mut self, doing: &'static str, head: Head) -> Result<bool, JournalError> {
        let value = head.encode();
        let key = self.store.keys.head();
        let request = TxnRequest {
            compare: self.known.is_unchanged(&self.store.keys),
            success: vec![kv::put(key, value.clone())],
            failure: Vec::new(),
        };
        let response = self.store.repeat(doing, request)?;
        if response.succeeded {
            self.known = KnownHead {
                head,
                value,
                revision: kv::revision(&response),
            };
        }
        Ok(response.succeeded)
    }
}
