//! The names in a certificate.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::error::Fault;

/// The names that a certificate is for (its subject alternative names). They say who a peer is only
/// once its certificate is verified, which a finished handshake has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerNames {
    /// Names of machines, as they are in the certificate; one may begin with `*.`.
    pub dns: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
}

impl PeerNames {
    /// The names in a certificate. What is not valid as a name of its kind is left out.
    ///
    /// # Errors
    ///
    /// It is not a certificate of X.509.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, Fault> {
        let certificate =
            EndEntityCert::try_from(certificate).map_err(|error| Fault::BadCertificate {
                number: 1,
                reason: error.to_string(),
            })?;
        Ok(Self {
            dns: certificate.valid_dns_names().map(str::to_owned).collect(),
            uris: certificate.valid_uri_names().map(str::to_owned).collect(),
        })
    }

    /// The name to show of a peer: its first URI, else its first DNS name.
    pub fn shown(&self) -> Option<&str> {
        self.uris.first().or(self.dns.first()).map(String::as_str)
    }
}
