//! Enrolment: TLS for a new role, which has an invitation's word and no certificate yet.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version,
};

use crate::authority::Issued;
use crate::certificate::CertificateFacts;
use crate::credentials::PROTOCOL;
use crate::error::PkiError;
use crate::invitation::{Word, sha256};
use crate::verify::{self, ServerChainVerifier, provider};

/// The TLS configuration of a client without a certificate, which trusts only the authority that the
/// word names. The server has to show that authority's certificate at the end of its chain.
///
/// # Errors
///
/// rustls refuses a setting, which never happens.
pub fn pinned_client(word: &Word) -> Result<Arc<ClientConfig>, PkiError> {
    let verifier = Arc::new(PinnedAuthority {
        fingerprint: word.fingerprint,
    });
    let client = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut client = client.with_no_client_auth();
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    client.resumption = Resumption::disabled();
    Ok(Arc::new(client))
}

/// Checks the result of an enrolment: a certificate of the authority that the word names, and no other
/// authority to trust. So a cell that forwarded the enrolment cannot add an authority.
///
/// # Errors
///
/// The server names an authority other than the word does, or the certificate is not of that authority.
pub fn check_enrolment(word: &Word, issued: &Issued) -> Result<CertificateFacts, PkiError> {
    let is_named = |authority: &CertificateDer<'_>| sha256(authority) == word.fingerprint;
    if issued.authorities.is_empty() || !issued.authorities.iter().all(is_named) {
        return Err(PkiError::Refused(
            "the server names another authority than the word does".to_owned(),
        ));
    }
    let certificate = issued.chain.first();
    let certificate =
        certificate.ok_or_else(|| PkiError::Certificate("there is none".to_owned()))?;
    verify::verify_client(
        &*verify::client_verifier(&issued.authorities, None)?,
        certificate,
    )?;
    CertificateFacts::read(certificate)
}

/// Trusts only the authority whose certificate has this fingerprint.
#[derive(Debug)]
struct PinnedAuthority {
    fingerprint: [u8; 32],
}

impl ServerCertVerifier for PinnedAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut candidates = intermediates.iter();
        let authority = candidates.find(|certificate| sha256(certificate) == self.fingerprint);
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authority = authority.ok_or(unknown)?;
        let chain = ServerChainVerifier::new(std::slice::from_ref(authority), None)
            .map_err(|error| Error::General(error.to_string()))?;
        chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider().signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider().signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
