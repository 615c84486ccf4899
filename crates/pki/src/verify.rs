//! Verifiers of certificate chains. They do not check names, which their callers do.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::error::PkiError;

/// The cryptography of all TLS configurations.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The trusted authorities, for rustls.
fn roots(authorities: &[CertificateDer<'_>]) -> Result<Arc<RootCertStore>, PkiError> {
    let mut store = RootCertStore::empty();
    for authority in authorities {
        store.add(authority.clone().into_owned())?;
    }
    Ok(Arc::new(store))
}

/// Reads a revocation list, PEM or DER.
pub(crate) fn parse_revocation_list(
    content: &[u8],
) -> Result<CertificateRevocationListDer<'static>, PkiError> {
    // PEM begins with a line of dashes, perhaps after an empty line.
    if !content.starts_with(b"-----") && !content.starts_with(b"\n") {
        return Ok(content.to_vec().into());
    }
    CertificateRevocationListDer::from_pem_slice(content)
        .map_err(|error| PkiError::Certificate(format!("the revocation list: {error}")))
}

fn revocation_lists(
    content: Option<&[u8]>,
) -> Result<Vec<CertificateRevocationListDer<'static>>, PkiError> {
    Ok(content
        .map(parse_revocation_list)
        .transpose()?
        .into_iter()
        .collect())
}

/// The verifier of clients. Certificates of an authority without a revocation list count as not revoked. A
/// client without a certificate passes the handshake, because a new role requests its first certificate without
/// one. Every other call is refused without a certificate.
pub(crate) fn client_verifier(
    authorities: &[CertificateDer<'_>],
    list: Option<&[u8]>,
) -> Result<Arc<dyn ClientCertVerifier>, PkiError> {
    let builder = WebPkiClientVerifier::builder_with_provider(roots(authorities)?, provider());
    let builder = builder
        .with_crls(revocation_lists(list)?)
        .only_check_end_entity_revocation()
        .allow_unknown_revocation_status()
        .allow_unauthenticated();
    builder
        .build()
        .map_err(|error| PkiError::Certificate(error.to_string()))
}

/// Verifies a client's certificate at the present time, as a handshake does.
pub(crate) fn verify_client(
    verifier: &dyn ClientCertVerifier,
    certificate: &CertificateDer<'_>,
) -> Result<(), Error> {
    verifier
        .verify_client_cert(certificate, &[], UnixTime::now())
        .map(drop)
}

/// Verifies the chain of a server, its dates and revocations, but not its DNS names: the role in its URIs
/// is checked after the handshake.
#[derive(Debug)]
pub(crate) struct ServerChainVerifier(Arc<WebPkiServerVerifier>);

impl ServerChainVerifier {
    pub(crate) fn new(
        authorities: &[CertificateDer<'_>],
        list: Option<&[u8]>,
    ) -> Result<Self, PkiError> {
        let builder = WebPkiServerVerifier::builder_with_provider(roots(authorities)?, provider());
        let builder = builder
            .with_crls(revocation_lists(list)?)
            .only_check_end_entity_revocation()
            .allow_unknown_revocation_status();
        let built = builder.build();
        Ok(Self(built.map_err(|error| {
            PkiError::Certificate(error.to_string())
        })?))
    }
}

impl ServerCertVerifier for ServerChainVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let result =
            self.0
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match result {
            // rustls checks DNS names last, so everything else is valid here.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
