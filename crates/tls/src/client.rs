//! Configurations of clients.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::WebPkiServerVerifier;

use crate::authorities::Authorities;
use crate::error::TlsError;
use crate::identity::Identity;
use crate::provider::provider;

/// The settings of a client.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The authorities that may have signed the server's certificate.
    pub authorities: Authorities,
    /// The certificate that the client shows to servers that request one, if it has one.
    pub identity: Option<Identity>,
    /// The protocols that it offers by ALPN, the best first.
    pub protocols: Vec<Vec<u8>>,
}

impl ClientSettings {
    /// The configuration for rustls: TLS 1.2 and 1.3. The server's certificate has to be for the
    /// name that the client connects to.
    ///
    /// # Errors
    ///
    /// rustls refuses a setting, for example a revocation list.
    pub fn config(&self) -> Result<ClientConfig, TlsError> {
        let roots = Arc::clone(self.authorities.roots());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider()))
            .with_crls(self.authorities.revocations().iter().cloned())
            // An authority without a list has revoked nothing.
            .allow_unknown_revocation_status()
            .build()
            .map_err(|error| TlsError::BadRevocations(error.to_string()))?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Refused)?
            .with_webpki_verifier(verifier);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = Arc::clone(identity.certified_key());
                builder
                    .with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(key)))
            }
        };
        config.alpn_protocols.clone_from(&self.protocols);
        Ok(config)
    }
}
