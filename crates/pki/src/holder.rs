//! The folder in which a role has its certificate, its key and the authorities that it trusts.
//!
//! | file | content |
//! | --- | --- |
//! | `identity.pem` | the certificate, the intermediate ones, and the private key |
//! | `ca.pem` | the authorities that are trusted |
//! | `crl.pem` | the revocation list; may be missing |
//!
//! Certificate and key are in one file, so that they are replaced together. Instead there may be
//! `tls.crt` and `tls.key`, and `ca.crt` in place of `ca.pem`, which are the names that other tools use.
//! Placewright does not renew such a certificate; the tool that wrote it does.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::authority::Issued;
use crate::error::PkiError;
use crate::files::{self, Staged};
use crate::request::KeyRequest;
use crate::verify;

const IDENTITY: &str = "identity.pem";
const AUTHORITIES: &str = "ca.pem";
const REVOCATION_LIST: &str = "crl.pem";
/// The names that other authorities' tools give these files.
const OTHER_CERTIFICATE: &str = "tls.crt";
const OTHER_KEY: &str = "tls.key";
const OTHER_AUTHORITIES: &str = "ca.crt";

/// How much room is kept in a folder while its certificate is issued: more than the usual files take.
const ROOM_BYTES: usize = 64 << 10;

/// The content of a holder's folder.
pub(crate) struct FolderContent {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) authorities: Vec<CertificateDer<'static>>,
    pub(crate) revocation_list: Option<Vec<u8>>,
    /// Whether certificate and key are in `identity.pem`, and so are renewed by Placewright.
    pub(crate) is_renewed_by_placewright: bool,
}

/// Whether a folder has a certificate.
#[must_use]
pub fn has_certificate(directory: &Path) -> bool {
    directory.join(IDENTITY).exists() || directory.join(OTHER_CERTIFICATE).exists()
}

/// All files that a folder may have. It is loaded again when one of them changes.
pub(crate) fn files_of(directory: &Path) -> [PathBuf; 6] {
    [
        IDENTITY,
        AUTHORITIES,
        REVOCATION_LIST,
        OTHER_CERTIFICATE,
        OTHER_KEY,
        OTHER_AUTHORITIES,
    ]
    .map(|name| directory.join(name))
}

/// Reads the files of a folder. Their content is parsed, and not verified.
pub(crate) fn read(directory: &Path) -> Result<FolderContent, PkiError> {
    let identity = directory.join(IDENTITY);
    let is_renewed_by_placewright = identity.exists();
    let (certificate, key) = if is_renewed_by_placewright {
        (identity.clone(), identity)
    } else {
        (directory.join(OTHER_CERTIFICATE), directory.join(OTHER_KEY))
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
        directory.join(OTHER_AUTHORITIES)
    };
    let key_content = files::read(&key)?;
    let content = FolderContent {
        chain: certificates(&certificate)?,
        key: PrivateKeyDer::from_pem_slice(&key_content)
            .map_err(|error| PkiError::content(&key, error))?,
        authorities: certificates(&authorities)?,
        revocation_list: files::read_if_exists(&directory.join(REVOCATION_LIST))?,
        is_renewed_by_placewright,
    };
    Ok(content)
}

/// The certificates in a PEM file; at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let content = files::read(path)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
    let certificates = parsed.map_err(|error| PkiError::content(path, error))?;
    if certificates.is_empty() {
        return Err(PkiError::content(path, "it has no certificate"));
    }
    Ok(certificates)
}

/// A folder that was checked to be writable. Whoever requests a certificate makes this check first, because a
/// certificate that cannot be written is lost: it is in the authority's register, and its invitation is used up.
#[derive(Debug)]
pub struct WritableFolder {
    directory: PathBuf,
    /// A temporary file that reserves room on the disk. It is removed before the files are written.
    room: Staged,
}

impl WritableFolder {
    /// Makes sure that a folder can be written, and keeps room for the files. The folder is made if it is missing.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn of(directory: &Path) -> Result<Self, PkiError> {
        let identity = directory.join(IDENTITY);
        if identity.is_dir() {
            return Err(PkiError::content(&identity, "it is a folder"));
        }
        Ok(Self {
            directory: directory.to_owned(),
            room: Staged::write(&identity, &[0; ROOM_BYTES])?,
        })
    }

    /// Writes a certificate with its key, in place of the one there.
    ///
    /// # Errors
    ///
    /// The folder can no longer be written.
    pub fn write(self, request: &KeyRequest, issued: &Issued) -> Result<(), PkiError> {
        drop(self.room);
        let directory = &self.directory;
        // The authorities are written first, because the old certificate is valid with the new ones as well.
        let authorities: String = issued.authorities.iter().map(pem).collect();
        files::replace(&directory.join(AUTHORITIES), authorities.as_bytes())?;
        if let Some(list) = &issued.revocation_list {
            write_revocation_list(directory, list)?;
        }
        let mut text: String = issued.chain.iter().map(pem).collect();
        text.push_str(request.key());
        files::replace(&directory.join(IDENTITY), text.as_bytes())
    }
}

/// Writes a certificate with its key into a folder, in place of the one there.
///
/// # Errors
///
/// The folder cannot be written.
pub fn write(directory: &Path, request: &KeyRequest, issued: &Issued) -> Result<(), PkiError> {
    WritableFolder::of(directory)?.write(request, issued)
}

/// Writes a revocation list into a folder.
///
/// # Errors
///
/// The bytes are no revocation list, or the folder cannot be written.
pub fn write_revocation_list(directory: &Path, list: &[u8]) -> Result<(), PkiError> {
    let list = verify::parse_revocation_list(list)?;
    crate::certificate::revoked_serials(&list)?;
    files::replace(
        &directory.join(REVOCATION_LIST),
        pem_block("X509 CRL", &list).as_bytes(),
    )
}

/// Writes a revocation list into a folder, unless the one there is of the same authority and at least as new. A present
/// list that cannot be read as one is replaced. Returns whether the list was written.
///
/// # Errors
///
/// The bytes are no revocation list, or the folder cannot be read or written.
pub fn write_newer_revocation_list(directory: &Path, list: &[u8]) -> Result<bool, PkiError> {
    let new = verify::parse_revocation_list(list)?;
    crate::certificate::revoked_serials(&new)?;
    let present = files::read_if_exists(&directory.join(REVOCATION_LIST))?;
    let present = present.and_then(|content| verify::parse_revocation_list(&content).ok());
    let is_newer = present.is_none_or(|present| {
        // The new list was parsed above, so an error is about the present one.
        crate::certificate::is_newer_list(&new, &present).unwrap_or(true)
    });
    if is_newer {
        write_revocation_list(directory, list)?;
    }
    Ok(is_newer)
}

fn pem(certificate: &CertificateDer<'static>) -> String {
    pem_block("CERTIFICATE", certificate)
}

/// The PEM form of DER bytes: base 64 between the lines that name the label.
fn pem_block(label: &str, content: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    let encoded = STANDARD.encode(content);
    for line in encoded.as_bytes().chunks(64) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
