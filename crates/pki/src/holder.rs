//! The folder in which a role has its certificate, its key and what it trusts.
//!
//! | file | what |
//! | --- | --- |
//! | `identity.pem` | the certificate, those between it and the authority, and the private key |
//! | `ca.pem` | the authorities that are trusted |
//! | `crl.pem` | the revocation list; may be missing |
//!
//! Certificate and key are one file, so that they are replaced together. Instead of it there may be
//! `tls.crt` and `tls.key`, and `ca.crt` for `ca.pem`: what an authority of the operator's own often
//! writes. Such a certificate is renewed by whoever wrote it.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::authority::Issued;
use crate::error::PkiError;
use crate::files;
use crate::request::KeyRequest;
use crate::verify;

const IDENTITY: &str = "identity.pem";
const AUTHORITIES: &str = "ca.pem";
const LIST: &str = "crl.pem";
/// The names that others give these files.
const CERTIFICATE_OTHER: &str = "tls.crt";
const KEY_OTHER: &str = "tls.key";
const AUTHORITIES_OTHER: &str = "ca.crt";

/// The content of a holder's folder.
pub(crate) struct Held {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) authorities: Vec<CertificateDer<'static>>,
    pub(crate) list: Option<Vec<u8>>,
    /// Whether it is in the form that is renewed here.
    pub(crate) is_own_form: bool,
}

/// Whether a folder has a certificate.
#[must_use]
pub fn is_in(directory: &Path) -> bool {
    directory.join(IDENTITY).exists() || directory.join(CERTIFICATE_OTHER).exists()
}

/// The files of a folder, in whichever form it has: a change of one of them is a reason to load it
/// again.
pub(crate) fn files_of(directory: &Path) -> [PathBuf; 6] {
    [
        IDENTITY,
        AUTHORITIES,
        LIST,
        CERTIFICATE_OTHER,
        KEY_OTHER,
        AUTHORITIES_OTHER,
    ]
    .map(|name| directory.join(name))
}

/// Reads a folder.
pub(crate) fn read(directory: &Path) -> Result<Held, PkiError> {
    let identity = directory.join(IDENTITY);
    let is_own_form = identity.exists();
    let (certificate, key) = if is_own_form {
        (identity.clone(), identity)
    } else {
        (directory.join(CERTIFICATE_OTHER), directory.join(KEY_OTHER))
    };
    if !certificate.exists() {
        return Err(PkiError::Refused(format!(
            "there is no certificate in {}: `placewright pki issue` or an enrolment puts one there",
            directory.display()
        )));
    }
    let authorities = directory.join(AUTHORITIES);
    let authorities = if authorities.exists() {
        authorities
    } else {
        directory.join(AUTHORITIES_OTHER)
    };
    let key_content = files::read(&key)?;
    let held = Held {
        chain: certificates(&certificate)?,
        key: PrivateKeyDer::from_pem_slice(&key_content)
            .map_err(|error| PkiError::content(&key, error))?,
        authorities: certificates(&authorities)?,
        list: files::read_if_there(&directory.join(LIST))?,
        is_own_form,
    };
    Ok(held)
}

/// The certificates in a PEM file; at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let content = files::read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
    let all = all.map_err(|error| PkiError::content(path, error))?;
    if all.is_empty() {
        return Err(PkiError::content(path, "it has no certificate"));
    }
    Ok(all)
}

/// Writes a certificate with its key into a folder, in place of the one there.
///
/// # Errors
///
/// The folder cannot be written.
pub fn write(directory: &Path, request: &KeyRequest, issued: &Issued) -> Result<(), PkiError> {
    // With the new authorities the old certificate is as good as before, so they come first.
    let authorities: String = issued.authorities.iter().map(pem).collect();
    files::replace(&directory.join(AUTHORITIES), authorities.as_bytes())?;
    if let Some(list) = &issued.list {
        write_list(directory, list)?;
    }
    let mut text: String = issued.chain.iter().map(pem).collect();
    text.push_str(request.key());
    files::replace(&directory.join(IDENTITY), text.as_bytes())
}

/// Writes a revocation list into a folder.
///
/// # Errors
///
/// It is no list, or the folder cannot be written.
pub fn write_list(directory: &Path, list: &[u8]) -> Result<(), PkiError> {
    let list = verify::list(list)?;
    crate::certificate::revoked_serials(&list)?;
    files::replace(&directory.join(LIST), block("X509 CRL", &list).as_bytes())
}

fn pem(certificate: &CertificateDer<'static>) -> String {
    block("CERTIFICATE", certificate)
}

/// A PEM block.
fn block(label: &str, content: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    let encoded = STANDARD.encode(content);
    for line in encoded.as_bytes().chunks(64) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
