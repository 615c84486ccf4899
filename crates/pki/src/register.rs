//! The register of an authority: a line for each issued certificate, and a line for each revocation.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::PkiError;
use crate::files;

const ISSUED: &str = "issued.jsonl";
const REVOKED: &str = "revoked.jsonl";

/// The entry of an issued certificate, or an entry of the same form for an invitation that was withdrawn. Only the
/// entries of certificates are in the register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterEntry {
    /// The certificate's serial number, hexadecimal; empty for an invitation that was withdrawn.
    pub serial: String,
    /// Its names, as URIs.
    pub names: Vec<String>,
    /// The beginning of its validity, in seconds since 1970; for an invitation the same as `at`.
    pub not_before: i64,
    /// The end of its validity, in seconds since 1970.
    pub not_after: i64,
    /// When the certificate was issued, or the invitation withdrawn, in seconds since 1970.
    pub at: i64,
    /// The operation that issued the certificate: `issue`, `renew` or `enrol`; `invite` for an invitation.
    #[serde(rename = "by")]
    pub operation: String,
}

/// The entry of a revoked certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// Its serial number, hexadecimal.
    pub serial: String,
    /// When it was revoked, in seconds since 1970.
    pub at: i64,
}

/// Appends the entry of a certificate, before the certificate is handed out.
pub(crate) fn append_issued(directory: &Path, entry: &RegisterEntry) -> Result<(), PkiError> {
    append(&directory.join(ISSUED), entry)
}

/// Appends the entry of a revoked certificate.
pub(crate) fn append_revoked(directory: &Path, revocation: &Revocation) -> Result<(), PkiError> {
    append(&directory.join(REVOKED), revocation)
}

/// All certificates that were issued, in order.
pub(crate) fn entries(directory: &Path) -> Result<Vec<RegisterEntry>, PkiError> {
    read(&directory.join(ISSUED))
}

/// All revocations by serial number.
pub(crate) fn revocations(directory: &Path) -> Result<BTreeMap<String, Revocation>, PkiError> {
    let revocations: Vec<Revocation> = read(&directory.join(REVOKED))?;
    Ok(revocations
        .into_iter()
        .map(|revocation| (revocation.serial.clone(), revocation))
        .collect())
}

fn append(path: &Path, record: &impl Serialize) -> Result<(), PkiError> {
    let line = serde_json::to_string(record).map_err(|error| PkiError::content(path, error))?;
    files::append_line(path, &line)
}

/// Parses the lines of a file. A last line without a line end was cut off by a power failure: its certificate was never
/// sent to anybody, or its revocation was never reported as made.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, PkiError> {
    let Some(content) = files::read_lines(path)? else {
        return Ok(Vec::new());
    };
    let text = String::from_utf8(content).map_err(|error| PkiError::content(path, error))?;
    let whole_lines = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut records = Vec::new();
    for (number, line) in whole_lines.lines().enumerate() {
        let record = serde_json::from_str(line);
        records.push(
            record.map_err(|error| {
                PkiError::content(path, format!("line {}: {error}", number + 1))
            })?,
        );
    }
    Ok(records)
}
