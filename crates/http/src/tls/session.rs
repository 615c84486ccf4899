//! The TLS of a connection, as its requests see it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::http::Extensions;
use placewright_net::TlsStream;
use placewright_tls::rustls::{HandshakeKind, ProtocolVersion};
use placewright_tls::{PeerNames, Validity};
use tokio::net::TcpStream;

/// The parameters of a connection's TLS, on which both sides agreed. Each request of the connection has the session
/// among its extensions, as an `Arc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSession {
    /// The version: `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// Whether the handshake resumed an earlier session.
    pub is_resumed: bool,
    /// The names in the client's certificate, which was verified; none if the client showed no certificate.
    pub client: Option<PeerNames>,
}

/// The certificate of a client has expired. A full handshake refuses such a certificate by itself; a handshake that
/// resumes a session does not check the certificate again.
#[derive(Debug)]
pub(crate) struct ClientCertificateExpired;

impl TlsSession {
    /// The session that a finished handshake began or resumed.
    pub(crate) fn of(stream: &TlsStream<TcpStream>) -> Result<Self, ClientCertificateExpired> {
        let (_, session) = stream.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let client = match certificate {
            None => None,
            Some(certificate) => {
                // The certificate was verified before, so reading its validity and names succeeds.
                let validity = Validity::of(certificate).map_err(|_| ClientCertificateExpired)?;
                if validity.is_over(now_s()) {
                    return Err(ClientCertificateExpired);
                }
                Some(PeerNames::of(certificate).map_err(|_| ClientCertificateExpired)?)
            }
        };
        Ok(Self {
            version: match session.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "other",
            },
            is_resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
            client,
        })
    }

    /// The name in the client's certificate, for the log; none if there is no certificate, or no name in it.
    pub(crate) fn client_name(&self) -> Option<&str> {
        self.client.as_ref().and_then(PeerNames::display_name)
    }
}

/// The scheme that a request's client used, by the request's extensions.
pub fn scheme(extensions: &Extensions) -> &'static str {
    match extensions.get::<Arc<TlsSession>>() {
        Some(_) => "https",
        None => "http",
    }
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs().cast_signed())
}
