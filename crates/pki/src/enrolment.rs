//! TLS of somebody who has a word and no certificate yet.

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
use crate::error::PkiError;
use crate::invitation::{Word, sha256};
use crate::verify::{self, ServerChain, provider};

/// TLS as a client without a certificate, which trusts the authority that the word names and no
/// other. The server has to show that authority's certificate at the end of its chain.
///
/// # Errors
///
/// Never; the kind of the error is that of the other configurations.
pub fn pinned_client(word: &Word) -> Result<Arc<ClientConfig>, PkiError> {
    let pinned = Arc::new(Pinned(word.fingerprint));
    let client = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(pinned);
    let mut client = client.with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec()];
    client.resumption = Resumption::disabled();
    Ok(Arc::new(client))
}

/// What an enrolment gave, as it may be taken: a certificate of the authority that the word names, and no
/// other authority to trust. A cell that passed the enrolment on has no say in that.
///
/// # Errors
///
/// There is another authority, or the certificate is not of this one.
pub fn enrolled(word: &Word, issued: &Issued) -> Result<CertificateFacts, PkiError> {
    let is_named = |authority: &CertificateDer<'_>| sha256(authority) == word.fingerprint;
    if issued.authorities.is_empty() || !issued.authorities.iter().all(is_named) {
        return Err(PkiError::Refused(
            "the server names another authority than the word does".to_owned(),
        ));
    }
    let first = issued.chain.first();
    let first = first.ok_or_else(|| PkiError::Certificate("there is none".to_owned()))?;
    verify::client(&*verify::of_clients(&issued.authorities, None)?, first)?;
    CertificateFacts::read(first)
}

/// Trusts the authority with this fingerprint.
#[derive(Debug)]
struct Pinned([u8; 32]);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut known = intermediates.iter();
        let authority = known.find(|one| sha256(one) == self.0);
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authority = authority.ok_or(unknown)?;
        let chain = ServerChain::new(std::slice::from_ref(authority), None)
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
