//! The interface between holders of certificates and their authority.

use crate::LinkFuture;

/// The authority, as control offers it to cells and cells pass it on to agents.
pub trait CertificateLink: Send + Sync + 'static {
    /// Renews a certificate. The new certificate has the names and rights of the present one and no others.
    fn renew(&self, renewal: Renewal) -> LinkFuture<'_, Certified>;

    /// Issues a certificate to a new holder that shows an invitation. The certificate has the names and rights
    /// of the invitation.
    fn enrol(&self, enrolment: Enrolment) -> LinkFuture<'_, Certified>;
}

/// The data with which a holder renews its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The present certificate (DER), as the holder showed it in a handshake.
    pub present_certificate: Vec<u8>,
    /// The certificate signing request (PKCS #10, DER), signed with the new key.
    pub signing_request: Vec<u8>,
}

/// The data with which a new holder uses an invitation.
#[derive(Clone, PartialEq, Eq)]
pub struct Enrolment {
    /// The identifier of the invitation.
    pub id: Vec<u8>,
    /// The secret of the invitation.
    pub secret: Vec<u8>,
    /// The certificate signing request (PKCS #10, DER), signed with the new key.
    pub signing_request: Vec<u8>,
}

/// Without the fields, so that the secret gets into no log.
impl std::fmt::Debug for Enrolment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enrolment").finish_non_exhaustive()
    }
}

/// A certificate that was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    /// The certificate and those that lead to its authority (DER).
    pub chain: Vec<Vec<u8>>,
    /// The authorities that the holder is to trust (DER).
    pub authorities: Vec<Vec<u8>>,
    /// The revocation list, if there is one.
    pub revocation_list: Option<Vec<u8>>,
}
