//! One-time words with which somebody new gets a first certificate.
//!
//! A word has three parts: which invitation it is, a secret of 128 random bits, and the fingerprint
//! of the authority, by which whoever is new knows that it speaks with the right installation before it
//! says the secret. The authority keeps a hash of the secret only.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use placewright_identity::Identity;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::authority::{Authority, Grant, Issued};
use crate::clock::{later, now};
use crate::error::PkiError;
use crate::files;
use crate::ledger::Entry;

/// What every word begins with.
const MARK: &str = "pw1";
const FILE: &str = "invitations.json";
/// Wrong secrets after which an invitation is void.
const WRONG_MAX: u32 = 5;
/// The most invitations that wait; those that are over are forgotten.
const WAITING_MAX: usize = 10_000;

/// A word, as it is given to somebody.
#[derive(Clone, PartialEq, Eq)]
pub struct Word {
    /// Which invitation it is.
    pub id: [u8; 8],
    /// The secret.
    pub secret: [u8; 16],
    /// SHA-256 of the certificate of the authority.
    pub fingerprint: [u8; 32],
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Word(hidden)")
    }
}

impl Word {
    /// The word as text.
    #[must_use]
    pub fn text(&self) -> String {
        let [id, secret, print] = [&self.id[..], &self.secret, &self.fingerprint]
            .map(|part| URL_SAFE_NO_PAD.encode(part));
        format!("{MARK}.{id}.{secret}.{print}")
    }

    /// Whether a text begins as words do.
    #[must_use]
    pub fn looks_like_one(text: &str) -> bool {
        text.split_once('.').is_some_and(|(mark, _)| mark == MARK)
    }

    /// Reads a word.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn read(text: &str) -> Result<Self, PkiError> {
        let wrong = || {
            PkiError::Refused(
                "that is no word of `placewright pki invite`: it has four parts with full stops \
                 between, and begins with pw1"
                    .to_owned(),
            )
        };
        let parts: Vec<&str> = text.trim().split('.').collect();
        let &[MARK, id, secret, print] = parts.as_slice() else {
            return Err(wrong());
        };
        Ok(Self {
            id: decode(id).ok_or_else(wrong)?,
            secret: decode(secret).ok_or_else(wrong)?,
            fingerprint: decode(print).ok_or_else(wrong)?,
        })
    }
}

fn decode<const LENGTH: usize>(part: &str) -> Option<[u8; LENGTH]> {
    URL_SAFE_NO_PAD.decode(part).ok()?.try_into().ok()
}

/// SHA-256, as the fingerprint of a certificate and as what is kept of a secret.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut all = [0; 32];
    all.copy_from_slice(digest(&SHA256, bytes).as_ref());
    all
}

/// An invitation, as the authority keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Invitation {
    id: String,
    /// SHA-256 of the secret. A secret of 128 random bits needs no slower hash.
    hash: String,
    names: Vec<String>,
    dns: Vec<String>,
    addresses: Vec<std::net::IpAddr>,
    life_s: u64,
    ends_at: i64,
    wrong: u32,
}

impl Invitation {
    fn is_open(&self, at: i64) -> bool {
        self.ends_at > at && self.wrong < WRONG_MAX
    }
}

/// What an invitation that waits is for, and when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The names that the certificate will have.
    pub names: Vec<String>,
    /// When it ends, in seconds since 1970.
    pub ends_at: i64,
}

impl Authority {
    /// Makes an invitation for one certificate, and the word for it.
    ///
    /// # Errors
    ///
    /// The identity is of another installation, too many wait, or nothing can be written.
    pub fn invite(&self, grant: &Grant, ends_in: Duration) -> Result<Word, PkiError> {
        if grant.identity.installation() != self.installation() {
            return Err(PkiError::Refused(format!(
                "the authority is that of {:?}",
                self.installation()
            )));
        }
        let mut word = Word {
            id: [0; 8],
            secret: [0; 16],
            fingerprint: sha256(self.certificate()),
        };
        getrandom::fill(&mut word.id).map_err(PkiError::Random)?;
        getrandom::fill(&mut word.secret).map_err(PkiError::Random)?;
        let _lock = files::lock(self.directory())?;
        let mut waiting = read(self.directory())?;
        if waiting.len() >= WAITING_MAX {
            return Err(PkiError::Refused(format!(
                "{WAITING_MAX} invitations wait already"
            )));
        }
        waiting.push(Invitation {
            id: URL_SAFE_NO_PAD.encode(word.id),
            hash: URL_SAFE_NO_PAD.encode(sha256(&word.secret)),
            names: grant.identity.uris(),
            dns: grant.dns.clone(),
            addresses: grant.addresses.clone(),
            life_s: grant.life.as_secs(),
            ends_at: later(now(), ends_in),
            wrong: 0,
        });
        write(self.directory(), &waiting)?;
        Ok(word)
    }

    /// Uses an invitation: the certificate that it promises, for the key of a request. It is used up
    /// then, whatever becomes of the answer.
    ///
    /// # Errors
    ///
    /// There is no such invitation, it has ended or was used, the secret is wrong, or the request is
    /// not valid. Which of them it is, only the log of the authority says.
    pub fn enrol(&self, id: &[u8], secret: &[u8], request: &[u8]) -> Result<Issued, PkiError> {
        let refused = || {
            PkiError::Refused(
                "the word is not known here, was used already, or has ended: ask for a new one"
                    .to_owned(),
            )
        };
        // A request that cannot be signed does not use the invitation up.
        let key = crate::request::requested_key(request)?;
        let lock = files::lock(self.directory())?;
        let mut waiting = read(self.directory())?;
        let id = URL_SAFE_NO_PAD.encode(id);
        let number = waiting
            .iter()
            .position(|one| one.id == id)
            .ok_or_else(refused)?;
        if waiting[number].hash != URL_SAFE_NO_PAD.encode(sha256(secret)) {
            waiting[number].wrong += 1;
            write(self.directory(), &waiting)?;
            return Err(refused());
        }
        let used = waiting.remove(number);
        write(self.directory(), &waiting)?;
        let grant = Grant {
            identity: Identity::parse(used.names.iter().map(String::as_str))?,
            dns: used.dns,
            addresses: used.addresses,
            life: Duration::from_secs(used.life_s),
        };
        self.certify(&grant, &key, "enrol", &lock)
    }

    /// Withdraws the invitations that `of` chooses, while the folder is locked. Each is returned as the
    /// certificate that it was for, without a serial number.
    pub(crate) fn withdraw(
        &self,
        of: impl Fn(&Entry) -> bool,
        _locked: &File,
    ) -> Result<Vec<Entry>, PkiError> {
        let at = now();
        let promised = |one: &Invitation| Entry {
            serial: String::new(),
            names: one.names.clone(),
            not_before: at,
            not_after: one.ends_at,
            at,
            by: "invite".to_owned(),
        };
        let waiting = read(self.directory())?;
        let (withdrawn, left): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|one| of(&promised(one)));
        if !withdrawn.is_empty() {
            write(self.directory(), &left)?;
        }
        Ok(withdrawn.iter().map(promised).collect())
    }

    /// The invitations that wait.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    pub fn waiting(&self) -> Result<Vec<Waiting>, PkiError> {
        let waiting = read(self.directory())?.into_iter();
        Ok(waiting
            .map(|one| Waiting {
                names: one.names,
                ends_at: one.ends_at,
            })
            .collect())
    }
}

/// The invitations that are not over.
fn read(directory: &Path) -> Result<Vec<Invitation>, PkiError> {
    let path = directory.join(FILE);
    let Some(content) = files::read_if_there(&path)? else {
        return Ok(Vec::new());
    };
    let mut all: Vec<Invitation> =
        serde_json::from_slice(&content).map_err(|error| PkiError::content(&path, error))?;
    let at = now();
    all.retain(|one| one.is_open(at));
    Ok(all)
}

fn write(directory: &Path, all: &[Invitation]) -> Result<(), PkiError> {
    let path = directory.join(FILE);
    let text = serde_json::to_vec(all).map_err(|error| PkiError::content(&path, error))?;
    files::replace(&path, &text)
}
