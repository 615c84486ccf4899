//! Reads PEM files.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::authorities::Authorities;
use crate::error::{FileError, TlsError};
use crate::identity::{Identity, chain, private_key};

/// The largest file in bytes. A bundle with all authorities that browsers trust has a quarter of a MiB.
const BYTES_MAX: u64 = 4 << 20;

/// The files of an identity, which may be one and the same file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    /// The certificate, followed by the intermediate ones.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

impl IdentityFiles {
    /// Reads the identity.
    ///
    /// # Errors
    ///
    /// The file that is not valid, and the error.
    pub fn read(&self) -> Result<Identity, FileError> {
        let chain = chain(&contents(&self.certificate)?)
            .map_err(|error| FileError::new(&self.certificate, error))?;
        let key_error = |error| FileError::new(&self.key, error);
        let key = private_key(&contents(&self.key)?).map_err(key_error)?;
        Identity::new(chain, key).map_err(|error| match error {
            TlsError::KeyMismatch | TlsError::BadKey(_) => key_error(error),
            _ => FileError::new(&self.certificate, error),
        })
    }
}

/// Reads a bundle of authorities; see [`Authorities::from_pem`].
///
/// # Errors
///
/// The file and what is wrong with it.
pub fn read_authorities(path: &Path) -> Result<Authorities, FileError> {
    Authorities::from_pem(&contents(path)?).map_err(|error| FileError::new(path, error))
}

/// Whether users other than the owner and the group may read a file, which a private key should not
/// allow. False if there is no such file.
pub fn others_may_read(path: &Path) -> bool {
    const OTHERS_READ: u32 = 0o004;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & OTHERS_READ != 0)
}

fn contents(path: &Path) -> Result<Vec<u8>, FileError> {
    let read_error = |error| FileError::new(path, TlsError::Unreadable(error));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(read_error)?;
    let mut file = file.take(BYTES_MAX + 1);
    file.read_to_end(&mut bytes).map_err(read_error)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(FileError::new(path, TlsError::TooLong(BYTES_MAX)));
    }
    Ok(bytes)
}
