//! Invitations: one-time words with which a new role gets its first certificate.
//!
//! A word has three parts after its prefix: the id of the invitation, a secret of 128 random bits, and the fingerprint
//! of the authority, by which the new role checks that a server belongs to the right installation before it sends the
//! secret. The authority stores only a hash of the secret.

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
use crate::files::{self, Staged};
use crate::register::RegisterEntry;

/// The prefix of every word.
const PREFIX: &str = "pw1";
const FILE: &str = "invitations.json";
/// The number of wrong secrets after which an invitation is void.
const WRONG_SECRETS_MAX: u32 = 5;
/// The most open invitations. Those that have ended or are void do not count.
const OPEN_MAX: usize = 10_000;

/// The word of an invitation.
#[derive(Clone, PartialEq, Eq)]
pub struct Word {
    /// The id of the invitation.
    pub id: [u8; 8],
    /// The secret, which proves that the role that enrols was invited.
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
        let [id, secret, fingerprint] = [&self.id[..], &self.secret, &self.fingerprint]
            .map(|part| URL_SAFE_NO_PAD.encode(part));
        format!("{PREFIX}.{id}.{secret}.{fingerprint}")
    }

    /// Whether a text begins with the prefix of words.
    #[must_use]
    pub fn has_prefix(text: &str) -> bool {
        text.split_once('.')
            .is_some_and(|(prefix, _)| prefix == PREFIX)
    }

    /// Reads a word.
    ///
    /// # Errors
    ///
    /// The text is not a word.
    pub fn read(text: &str) -> Result<Self, PkiError> {
        let not_a_word = || {
            PkiError::Refused(
                "that is no word of `placewright pki invite`: it has four parts with full stops \
                 between, and begins with pw1"
                    .to_owned(),
            )
        };
        let parts: Vec<&str> = text.trim().split('.').collect();
        let &[PREFIX, id, secret, fingerprint] = parts.as_slice() else {
            return Err(not_a_word());
        };
        Ok(Self {
            id: decode(id).ok_or_else(not_a_word)?,
            secret: decode(secret).ok_or_else(not_a_word)?,
            fingerprint: decode(fingerprint).ok_or_else(not_a_word)?,
        })
    }
}

fn decode<const LENGTH: usize>(part: &str) -> Option<[u8; LENGTH]> {
    URL_SAFE_NO_PAD.decode(part).ok()?.try_into().ok()
}

/// SHA-256, used for fingerprints of certificates and hashes of secrets.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

/// An invitation, as the authority stores it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Invitation {
    /// The id of the word, in base 64.
    id: String,
    /// SHA-256 of the secret, in base 64. A secret of 128 random bits needs no slower hash.
    #[serde(rename = "hash")]
    secret_hash: String,
    /// The identity's names, as URIs.
    names: Vec<String>,
    dns: Vec<String>,
    addresses: Vec<std::net::IpAddr>,
    /// The life of the certificate.
    life_s: u64,
    /// When the invitation ends, in seconds since 1970.
    ends_at: i64,
    /// How many wrong secrets were tried.
    #[serde(rename = "wrong")]
    wrong_secrets: u32,
}

impl Invitation {
    fn is_open(&self, at: i64) -> bool {
        self.ends_at > at && self.wrong_secrets < WRONG_SECRETS_MAX
    }
}

/// An invitation that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenInvitation {
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
    /// The identity is of another installation, too many invitations are open, or nothing can be written.
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
        let mut invitations = read_open(self.directory())?;
        if invitations.len() >= OPEN_MAX {
            return Err(PkiError::Refused(format!(
                "{OPEN_MAX} invitations wait already"
            )));
        }
        invitations.push(Invitation {
            id: URL_SAFE_NO_PAD.encode(word.id),
            secret_hash: URL_SAFE_NO_PAD.encode(sha256(&word.secret)),
            names: grant.identity.uris(),
            dns: grant.dns.clone(),
            addresses: grant.addresses.clone(),
            life_s: grant.life.as_secs(),
            ends_at: later(now(), ends_in),
            wrong_secrets: 0,
        });
        write(self.directory(), &invitations)?;
        Ok(word)
    }

    /// Uses an invitation: issues its certificate for the key of a request. The invitation cannot be used
    /// again, even if the response is lost. If no certificate can be issued, the invitation stays open.
    ///
    /// # Errors
    ///
    /// There is no such invitation, it has ended, was used or is void, or the secret is wrong: the error does not say
    /// which. Or the request is not valid, or nothing can be written.
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
        let mut invitations = read_open(self.directory())?;
        let id = URL_SAFE_NO_PAD.encode(id);
        let index = invitations
            .iter()
            .position(|invitation| invitation.id == id)
            .ok_or_else(refused)?;
        if invitations[index].secret_hash != URL_SAFE_NO_PAD.encode(sha256(secret)) {
            invitations[index].wrong_secrets += 1;
            write(self.directory(), &invitations)?;
            return Err(refused());
        }
        let invitation = invitations.remove(index);
        let grant = Grant {
            identity: Identity::parse(invitation.names.iter().map(String::as_str))?,
            dns: invitation.dns,
            addresses: invitation.addresses,
            life: Duration::from_secs(invitation.life_s),
        };
        // The folder is locked, so nobody else uses the invitation meanwhile. The new list is written beside the old
        // one before the certificate is issued, and takes its place before the certificate is handed out. So no
        // invitation gives two certificates, and nothing is issued if the list cannot be written.
        let remaining = stage(self.directory(), &invitations)?;
        let issued = self.certify(&grant, &key, "enrol", &lock)?;
        remaining.commit()?;
        Ok(issued)
    }

    /// Withdraws the invitations that `selects` accepts. Returns an entry for each, in the form of the register: with
    /// the names that the certificate would have had and the end of the invitation, and without a serial number. The
    /// operation is `invite`, and the time is that of the withdrawal. `_locked` proves that the caller has locked the
    /// folder.
    pub(crate) fn withdraw(
        &self,
        selects: impl Fn(&RegisterEntry) -> bool,
        _locked: &File,
    ) -> Result<Vec<RegisterEntry>, PkiError> {
        let at = now();
        let entry_of = |invitation: &Invitation| RegisterEntry {
            serial: String::new(),
            names: invitation.names.clone(),
            not_before: at,
            not_after: invitation.ends_at,
            at,
            operation: "invite".to_owned(),
        };
        let invitations = read_open(self.directory())?;
        let (withdrawn, remaining): (Vec<_>, Vec<_>) = invitations
            .into_iter()
            .partition(|invitation| selects(&entry_of(invitation)));
        if !withdrawn.is_empty() {
            write(self.directory(), &remaining)?;
        }
        Ok(withdrawn.iter().map(entry_of).collect())
    }

    /// The open invitations.
    ///
    /// # Errors
    ///
    /// The file of invitations cannot be read.
    pub fn open_invitations(&self) -> Result<Vec<OpenInvitation>, PkiError> {
        let invitations = read_open(self.directory())?.into_iter();
        Ok(invitations
            .map(|invitation| OpenInvitation {
                names: invitation.names,
                ends_at: invitation.ends_at,
            })
            .collect())
    }
}

/// The open invitations of an authority's folder; those that have ended or are void are left out.
fn read_open(directory: &Path) -> Result<Vec<Invitation>, PkiError> {
    let path = directory.join(FILE);
    let Some(content) = files::read_if_exists(&path)? else {
        return Ok(Vec::new());
    };
    let mut invitations: Vec<Invitation> =
        serde_json::from_slice(&content).map_err(|error| PkiError::content(&path, error))?;
    let at = now();
    invitations.retain(|invitation| invitation.is_open(at));
    Ok(invitations)
}

fn write(directory: &Path, invitations: &[Invitation]) -> Result<(), PkiError> {
    stage(directory, invitations)?.commit()
}

fn stage(directory: &Path, invitations: &[Invitation]) -> Result<Staged, PkiError> {
    let path = directory.join(FILE);
    let text = serde_json::to_vec(invitations).map_err(|error| PkiError::content(&path, error))?;
    Staged::write(&path, &text)
}
