//! What an authority has done: a line for each certificate, and for each that was revoked.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::PkiError;
use crate::files;

const ISSUED: &str = "issued.jsonl";
const REVOKED: &str = "revoked.jsonl";

/// A certificate that was issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its serial number, hexadecimal.
    pub serial: String,
    /// What it says, as URIs.
    pub names: Vec<String>,
    /// From when on it is valid, in seconds since 1970.
    pub not_before: i64,
    /// Until when it is valid.
    pub not_after: i64,
    /// When it was issued.
    pub at: i64,
    /// By what: `issue`, `renew`, `enrol`.
    pub by: String,
}

/// A certificate that was revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// Its serial number, hexadecimal.
    pub serial: String,
    /// When.
    pub at: i64,
}

/// Adds a certificate.
pub(crate) fn issued(directory: &Path, entry: &Entry) -> Result<(), PkiError> {
    append(&directory.join(ISSUED), entry)
}

/// Adds a revocation.
pub(crate) fn revoked(directory: &Path, revocation: &Revocation) -> Result<(), PkiError> {
    append(&directory.join(REVOKED), revocation)
}

/// All certificates that were issued, in order.
pub(crate) fn entries(directory: &Path) -> Result<Vec<Entry>, PkiError> {
    read(&directory.join(ISSUED))
}

/// All revocations by serial number.
pub(crate) fn revocations(directory: &Path) -> Result<BTreeMap<String, Revocation>, PkiError> {
    let all: Vec<Revocation> = read(&directory.join(REVOKED))?;
    Ok(all
        .into_iter()
        .map(|one| (one.serial.clone(), one))
        .collect())
}

fn append(path: &Path, one: &impl Serialize) -> Result<(), PkiError> {
    let line = serde_json::to_string(one).map_err(|error| PkiError::content(path, error))?;
    files::append_line(path, &line)
}

/// The lines of a file. A last one without its end was being written when the power went: what it
/// tells of was not given out.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, PkiError> {
    let Some(content) = files::read_lines(path)? else {
        return Ok(Vec::new());
    };
    let text = String::from_utf8(content).map_err(|error| PkiError::content(path, error))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut all = Vec::new();
    for (number, line) in whole.lines().enumerate() {
        let one = serde_json::from_str(line);
        all.push(
            one.map_err(|error| PkiError::content(path, format!("line {}: {error}", number + 1)))?,
        );
    }
    Ok(all)
}
