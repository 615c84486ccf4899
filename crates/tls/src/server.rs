//! Configurations of servers.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;

use crate::authorities::Authorities;
use crate::error::TlsError;
use crate::identity::Identity;
use crate::provider::provider;

/// Whether clients need a certificate, and which authorities may have signed it.
#[derive(Debug, Clone)]
pub enum ClientCertificates {
    /// No certificate is requested.
    Off,
    /// A certificate is requested. A client without one is accepted, a client with an invalid one refused.
    Optional(Authorities),
    /// A client without a valid certificate is refused.
    Required(Authorities),
}

/// The key by which session tickets are encrypted. Configurations with the same key resume each other's sessions.
/// So the key stays when only the server's certificate changes, and is replaced when the rules for clients change.
#[derive(Clone)]
pub struct Tickets(Arc<dyn ProducesTickets>);

impl Tickets {
    /// A new random key, which changes by itself every few hours.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub fn new() -> Result<Self, TlsError> {
        Ok(Self(ring::Ticketer::new().map_err(TlsError::Refused)?))
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Tickets").finish_non_exhaustive()
    }
}

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The certificate and key of the server.
    pub identity: Identity,
    /// Whether clients need a certificate.
    pub clients: ClientCertificates,
    /// The protocols that it offers by ALPN, the best first. A client that offers only other protocols is
    /// refused; a client that offers none is accepted.
    pub protocols: Vec<Vec<u8>>,
    /// The key of session tickets.
    pub tickets: Tickets,
}

impl ServerSettings {
    /// The configuration for rustls: TLS 1.2 and 1.3.
    ///
    /// # Errors
    ///
    /// rustls refuses a setting, for example a revocation list.
    pub fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Refused)?;
        let builder = match &self.clients {
            ClientCertificates::Off => builder.with_no_client_auth(),
            ClientCertificates::Optional(authorities)
            | ClientCertificates::Required(authorities) => {
                let is_required = matches!(self.clients, ClientCertificates::Required(_));
                builder.with_client_cert_verifier(verifier(authorities, is_required)?)
            }
        };
        let identity = Arc::clone(self.identity.certified_key());
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        config.alpn_protocols.clone_from(&self.protocols);
        config.ticketer = Arc::clone(&self.tickets.0);
        // The client keeps its session in a ticket, so the server need not store any.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Arc::new(config))
    }
}

/// The verifier of clients' certificates, which are required or optional.
fn verifier(
    authorities: &Authorities,
    is_required: bool,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = Arc::clone(authorities.roots());
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider()))
        .with_crls(authorities.revocations().iter().cloned())
        // An authority without a list has revoked nothing.
        .allow_unknown_revocation_status();
    if !is_required {
        builder = builder.allow_unauthenticated();
    }
    builder
        .build()
        .map_err(|error| TlsError::BadRevocations(error.to_string()))
}
