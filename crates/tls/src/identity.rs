//! A certificate chain with its private key.

use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::error::Fault;
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
    /// An identity from two PEM texts: the chain, beginning with the own certificate, and the key.
    ///
    /// # Errors
    ///
    /// One of the texts is not valid, or they do not belong together.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, Fault> {
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
    ) -> Result<Self, Fault> {
        let certificate = chain.first().ok_or(Fault::NoCertificate)?;
        let validity = Validity::of(certificate)?;
        PeerNames::of(certificate)?;
        let key = provider().key_provider.load_private_key(key);
        let certified = CertifiedKey::new(chain, key.map_err(Fault::BadKey)?);
        certified.keys_match().map_err(|_| Fault::OtherKey)?;
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
    pub fn names(&self) -> Result<PeerNames, Fault> {
        PeerNames::of(self.chain().first().ok_or(Fault::NoCertificate)?)
    }
}

/// The certificates of a PEM text. There is at least one, and each can be parsed.
pub(crate) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(Fault::NotPem)?;
    if chain.is_empty() {
        return Err(Fault::NoCertificate);
    }
    for (index, certificate) in chain.iter().enumerate() {
        PeerNames::of(certificate).map_err(|fault| with_number(fault, index + 1))?;
    }
    Ok(chain)
}

/// Adds the number of the certificate to its fault.
pub(crate) fn with_number(fault: Fault, number: usize) -> Fault {
    match fault {
        Fault::BadCertificate { reason, .. } => Fault::BadCertificate { number, reason },
        other => other,
    }
}

/// The first private key of a PEM text.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, Fault> {
    match PrivateKeyDer::from_pem_slice(pem) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) if is_encrypted(pem) => Err(Fault::EncryptedKey),
        Err(pem::Error::NoItemsFound) => Err(Fault::NoKey),
        // In OpenSSL's older format an encrypted key has headers, which are not base64.
        Err(_) if is_encrypted(pem) => Err(Fault::EncryptedKey),
        Err(error) => Err(Fault::NotPem(error)),
    }
}

fn is_encrypted(pem: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 2] = [
        b"-----BEGIN ENCRYPTED PRIVATE KEY",
        b"Proc-Type: 4,ENCRYPTED",
    ];
    PREFIXES
        .iter()
        .any(|prefix| pem.windows(prefix.len()).any(|window| window == *prefix))
}
