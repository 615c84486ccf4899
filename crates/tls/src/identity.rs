//! A certificate chain with its private key.

use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::error::TlsError;
use crate::names::PeerNames;
use crate::provider::provider;
use crate::validity::Validity;

/// The identity of a server or a client: its certificate, the intermediate ones, and the private key.
#[derive(Debug, Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    validity: Validity,
}

impl Identity {
    /// An identity from two PEM texts: the chain, its own certificate first, and its key.
    ///
    /// # Errors
    ///
    /// One of the texts is not valid, or they do not belong together.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Self::new(chain(certificates)?, private_key(key)?)
    }

    /// An identity from a chain, its own certificate first, and its key.
    ///
    /// # Errors
    ///
    /// A certificate is not valid, the key has an unknown algorithm or belongs to another
    /// certificate.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, TlsError> {
        let certificate = chain.first().ok_or(TlsError::NoCertificate)?;
        let validity = Validity::of(certificate)?;
        // Checks that webpki can parse the certificate, so that [`Self::names`] cannot fail.
        PeerNames::of(certificate)?;
        let key = provider().key_provider.load_private_key(key);
        let certified = CertifiedKey::new(chain, key.map_err(TlsError::BadKey)?);
        certified.keys_match().map_err(|_| TlsError::KeyMismatch)?;
        Ok(Self {
            certified: Arc::new(certified),
            validity,
        })
    }

    /// The chain with the key, in the type of rustls.
    pub fn certified_key(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// The chain, its own certificate first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// When its own certificate is valid.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// The names in its own certificate.
    ///
    /// # Errors
    ///
    /// It never fails, because the certificate was checked when the identity was made.
    pub fn names(&self) -> Result<PeerNames, TlsError> {
        PeerNames::of(self.chain().first().ok_or(TlsError::NoCertificate)?)
    }
}

/// The certificates of a PEM text. There is at least one, and each can be parsed.
pub(crate) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(TlsError::NotPem)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    for (index, certificate) in chain.iter().enumerate() {
        PeerNames::of(certificate).map_err(|error| with_number(error, index + 1))?;
    }
    Ok(chain)
}

/// Adds the number of the certificate to its error.
pub(crate) fn with_number(error: TlsError, number: usize) -> TlsError {
    match error {
        TlsError::BadCertificate { reason, .. } => TlsError::BadCertificate { number, reason },
        other => other,
    }
}

/// The first private key of a PEM text.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    match PrivateKeyDer::from_pem_slice(pem) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) if is_encrypted(pem) => Err(TlsError::EncryptedKey),
        Err(pem::Error::NoItemsFound) => Err(TlsError::NoKey),
        // In OpenSSL's older format an encrypted key has headers, which are not base64.
        Err(_) if is_encrypted(pem) => Err(TlsError::EncryptedKey),
        Err(error) => Err(TlsError::NotPem(error)),
    }
}

fn is_encrypted(pem: &[u8]) -> bool {
    const MARKERS: [&[u8]; 2] = [
        b"-----BEGIN ENCRYPTED PRIVATE KEY",
        b"Proc-Type: 4,ENCRYPTED",
    ];
    MARKERS
        .iter()
        .any(|marker| pem.windows(marker.len()).any(|window| window == *marker))
}
