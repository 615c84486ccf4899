//! The authorities that may vouch for a peer.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject as _;

use crate::error::Fault;
use crate::identity::{chain, in_place};
use crate::validity::Validity;

/// Certificates of authorities, and the revocation lists that they signed.
#[derive(Debug, Clone)]
pub struct Authorities {
    roots: Arc<RootCertStore>,
    revocations: Vec<CertificateRevocationListDer<'static>>,
    last_valid: Validity,
}

impl Authorities {
    /// The authorities of a PEM text: certificates, and revocation lists (`X509 CRL`) if there are
    /// any. With a list of an authority, certificates in it are refused; an authority without a list
    /// has revoked nothing.
    ///
    /// # Errors
    ///
    /// The text has no certificate, or something in it is not valid.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Fault> {
        let mut roots = RootCertStore::empty();
        let mut last_valid: Option<Validity> = None;
        for (index, certificate) in chain(pem)?.into_iter().enumerate() {
            let number = index + 1;
            let validity = Validity::of(&certificate).map_err(|fault| in_place(fault, number))?;
            if last_valid.is_none_or(|last| last.not_after_s < validity.not_after_s) {
                last_valid = Some(validity);
            }
            roots
                .add(certificate)
                .map_err(|error| Fault::BadCertificate {
                    number,
                    reason: error.to_string(),
                })?;
        }
        let revocations = CertificateRevocationListDer::pem_slice_iter(pem);
        Ok(Self {
            roots: Arc::new(roots),
            revocations: revocations
                .collect::<Result<_, _>>()
                .map_err(Fault::NotPem)?,
            last_valid: last_valid.ok_or(Fault::NoCertificate)?,
        })
    }

    /// The certificates, as rustls takes them.
    pub fn roots(&self) -> &Arc<RootCertStore> {
        &self.roots
    }

    /// The revocation lists.
    pub fn revocations(&self) -> &[CertificateRevocationListDer<'static>] {
        &self.revocations
    }

    /// When the authority that is valid longest is so.
    pub fn validity(&self) -> Validity {
        self.last_valid
    }
}

impl PartialEq for Authorities {
    fn eq(&self, other: &Self) -> bool {
        self.roots.roots == other.roots.roots && self.revocations == other.revocations
    }
}

impl Eq for Authorities {}
