//! The certificate authorities that are trusted, with their revocation lists.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject as _;

use crate::error::TlsError;
use crate::identity::{chain, with_number};
use crate::validity::Validity;

/// Certificates of authorities, and the revocation lists that they signed.
#[derive(Debug, Clone)]
pub struct Authorities {
    roots: Arc<RootCertStore>,
    revocations: Vec<CertificateRevocationListDer<'static>>,
    /// The validity of the authority that expires last.
    latest_validity: Validity,
}

impl Authorities {
    /// The authorities of a PEM text: certificates, and revocation lists (`X509 CRL`) if there are
    /// any. A certificate in the revocation list of its authority is refused; an authority without a
    /// list has revoked nothing.
    ///
    /// # Errors
    ///
    /// The text has no certificate, or something in it is not valid.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        let mut latest_validity: Option<Validity> = None;
        for (index, certificate) in chain(pem)?.into_iter().enumerate() {
            let number = index + 1;
            let validity =
                Validity::of(&certificate).map_err(|error| with_number(error, number))?;
            if latest_validity.is_none_or(|latest| latest.not_after_s < validity.not_after_s) {
                latest_validity = Some(validity);
            }
            roots
                .add(certificate)
                .map_err(|error| TlsError::BadCertificate {
                    number,
                    reason: error.to_string(),
                })?;
        }
        let revocations = CertificateRevocationListDer::pem_slice_iter(pem);
        Ok(Self {
            roots: Arc::new(roots),
            revocations: revocations
                .collect::<Result<_, _>>()
                .map_err(TlsError::NotPem)?,
            latest_validity: latest_validity.ok_or(TlsError::NoCertificate)?,
        })
    }

    /// The certificates, in the type of rustls.
    pub fn roots(&self) -> &Arc<RootCertStore> {
        &self.roots
    }

    /// The revocation lists (DER) that were in the same text as the certificates.
    pub fn revocations(&self) -> &[CertificateRevocationListDer<'static>] {
        &self.revocations
    }

    /// The validity of the authority that expires last.
    pub fn validity(&self) -> Validity {
        self.latest_validity
    }
}

impl PartialEq for Authorities {
    fn eq(&self, other: &Self) -> bool {
        self.roots.roots == other.roots.roots && self.revocations == other.revocations
    }
}

impl Eq for Authorities {}
