//! The names in a certificate.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::error::TlsError;

/// The subject alternative names of a certificate. They identify a peer only if its certificate was
/// verified, as it is in every completed handshake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerNames {
    /// DNS names as they are in the certificate; they may begin with `*.`.
    pub dns: Vec<String>,
    /// URIs as they are in the certificate, whatever their scheme.
    pub uris: Vec<String>,
}

impl PeerNames {
    /// The names in a certificate, without those that are not valid.
    ///
    /// # Errors
    ///
    /// The bytes are not a certificate of X.509.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, TlsError> {
        let certificate =
            EndEntityCert::try_from(certificate).map_err(|error| TlsError::BadCertificate {
                // For a certificate further on in a file, the caller replaces the number.
                number: 1,
                reason: error.to_string(),
            })?;
        Ok(Self {
            dns: certificate.valid_dns_names().map(str::to_owned).collect(),
            uris: certificate.valid_uri_names().map(str::to_owned).collect(),
        })
    }

    /// The name of a peer in messages and logs: its first URI, else its first DNS name; none if it has neither.
    pub fn display_name(&self) -> Option<&str> {
        self.uris.first().or(self.dns.first()).map(String::as_str)
    }
}
