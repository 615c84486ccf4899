//! New keys, and certificate signing requests for them.

use rcgen::{
    CertificateParams, CertificateSigningRequestParams, DistinguishedName, KeyPair,
    PKCS_ECDSA_P256_SHA256, PublicKey,
};

use crate::error::PkiError;

/// The largest certificate signing request in bytes that is parsed.
pub const SIGNING_REQUEST_BYTES_MAX: usize = 8 << 10;

/// A new key, with a certificate signing request for it. The key never leaves the machine.
pub struct KeyRequest {
    key: String,
    /// The request (PKCS #10, DER), signed with the key.
    pub request: Vec<u8>,
}

impl KeyRequest {
    /// Makes a key on the curve P-256. The request has no names: the authority decides them.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub fn new() -> Result<Self, PkiError> {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&pair)?;
        Ok(Self {
            key: pair.serialize_pem(),
            request: request.der().to_vec(),
        })
    }

    /// The key as PEM.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

impl std::fmt::Debug for KeyRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyRequest(hidden)")
    }
}

/// The public key of a request, after its signature was verified. All other fields of the request are
/// ignored.
pub(crate) fn requested_key(request: &[u8]) -> Result<PublicKey, PkiError> {
    if request.len() > SIGNING_REQUEST_BYTES_MAX {
        return Err(PkiError::Refused(format!(
            "the request has {} bytes, and at most {SIGNING_REQUEST_BYTES_MAX} are allowed",
            request.len()
        )));
    }
    let parsed = CertificateSigningRequestParams::from_der(&request.to_vec().into());
    let parsed = parsed.map_err(|error| {
        PkiError::Refused(format!(
            "the request for a certificate cannot be read: {error}"
        ))
    })?;
    if parsed.public_key.algorithm() != &PKCS_ECDSA_P256_SHA256 {
        return Err(PkiError::Refused(
            "the request is for a key of another kind: keys are on the curve P-256".to_owned(),
        ));
    }
    Ok(parsed.public_key)
}
