//! Handshakes with configurations from PEM texts: which peers are accepted, and which protocols are used.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::{Ca, EXPIRED, Pem, VALID, shake_hands};
use placewright_tls::rustls::{
    CertificateError, ClientConfig, Error, HandshakeKind, ProtocolVersion, ServerConfig,
};
use placewright_tls::{
    Authorities, ClientCertificates, ClientSettings, Identity, PeerNames, ServerSettings, Tickets,
};

fn identity(pem: &Pem) -> Identity {
    Identity::from_pem(pem.certificate.as_bytes(), pem.key.as_bytes()).unwrap()
}

fn authorities(ca: &Ca) -> Authorities {
    Authorities::from_pem(ca.pem().as_bytes()).unwrap()
}

fn server(pem: &Pem, clients: ClientCertificates, tickets: &Tickets) -> Arc<ServerConfig> {
    let settings = ServerSettings {
        identity: identity(pem),
        clients,
        protocols: vec![b"http/1.1".to_vec()],
        tickets: tickets.clone(),
    };
    settings.config().unwrap()
}

/// A client that trusts this authority, with a certificate if one is given.
fn client(ca: &Ca, client_pem: Option<&Pem>) -> Arc<ClientConfig> {
    let settings = ClientSettings {
        authorities: authorities(ca),
        identity: client_pem.map(identity),
        protocols: vec![b"http/1.1".to_vec()],
    };
    Arc::new(settings.config().unwrap())
}

fn tickets() -> Tickets {
    Tickets::new().unwrap()
}

#[test]
fn a_client_that_trusts_the_authority_gets_tls_1_3_and_resumes() {
    let ca = Ca::new("ca");
    let server = server(&ca.good("here"), ClientCertificates::Off, &tickets());
    let client = client(&ca, None);
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let (client_connection, server_connection) = shake_hands(&client, &server, "here").unwrap();
        assert_eq!(
            client_connection.protocol_version(),
            Some(ProtocolVersion::TLSv1_3)
        );
        assert_eq!(client_connection.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(server_connection.handshake_kind(), Some(kind));
    }
}

#[test]
fn a_server_with_another_authority_or_name_or_an_expired_certificate_is_refused() {
    let (ca, other) = (Ca::new("ca"), Ca::new("other"));
    let client = client(&ca, None);
    let handshake_error = |pem: &Pem, name| {
        let server = server(pem, ClientCertificates::Off, &tickets());
        match shake_hands(&client, &server, name) {
            Err(("client", Error::InvalidCertificate(why))) => why,
            other => panic!("{:?}", other.map(|_| ())),
        }
    };
    let unknown = handshake_error(&other.good("here"), "here");
    assert_eq!(unknown, CertificateError::UnknownIssuer);
    assert!(matches!(
        handshake_error(&ca.good("here"), "there"),
        CertificateError::NotValidForNameContext { .. }
    ));
    let expired = ca.issue(&["here"], &[], EXPIRED, 1);
    assert!(matches!(
        handshake_error(&expired, "here"),
        CertificateError::ExpiredContext { .. }
    ));
}

#[test]
fn clients_are_accepted_by_their_certificates() {
    let (ca, other) = (Ca::new("ca"), Ca::new("other"));
    let here = ca.good("here");
    let required = server(
        &here,
        ClientCertificates::Required(authorities(&ca)),
        &tickets(),
    );
    let optional = server(
        &here,
        ClientCertificates::Optional(authorities(&ca)),
        &tickets(),
    );
    let client_pem = ca.issue(&["agent.example"], &["placewright://agent/1"], VALID, 8);
    let (_, session) = shake_hands(&client(&ca, Some(&client_pem)), &required, "here").unwrap();
    let names = PeerNames::of(&session.peer_certificates().unwrap()[0]).unwrap();
    assert_eq!(names.dns, ["agent.example"]);
    assert_eq!(names.uris, ["placewright://agent/1"]);
    assert_eq!(names.display_name(), Some("placewright://agent/1"));
    let handshake_error = |client_pem: Option<&Pem>, server| match shake_hands(
        &client(&ca, client_pem),
        server,
        "here",
    ) {
        Err(("server", error)) => error,
        other => panic!("{:?}", other.map(|_| ())),
    };
    assert_eq!(
        handshake_error(None, &required),
        Error::NoCertificatesPresented
    );
    shake_hands(&client(&ca, None), &optional, "here").unwrap();
    for server in [&required, &optional] {
        let unknown = handshake_error(Some(&other.good("agent")), server);
        assert_eq!(unknown, CertificateError::UnknownIssuer.into());
        let expired = handshake_error(Some(&ca.issue(&["agent"], &[], EXPIRED, 9)), server);
        assert!(matches!(
            expired,
            Error::InvalidCertificate(CertificateError::ExpiredContext { .. })
        ));
    }
}

#[test]
fn revoked_certificates_are_refused_and_others_of_their_authority_are_not() {
    const REVOKED: u64 = 13;
    let ca = Ca::new("ca");
    let bundle = format!("{}{}", ca.pem(), ca.revocation_list(REVOKED));
    let bundle = Authorities::from_pem(bundle.as_bytes()).unwrap();
    assert_eq!(bundle.revocations().len(), 1);
    assert_ne!(bundle, authorities(&ca));
    let server = server(
        &ca.good("here"),
        ClientCertificates::Required(bundle),
        &tickets(),
    );
    let revoked = client(&ca, Some(&ca.issue(&["agent"], &[], VALID, REVOKED)));
    let (_, error) = shake_hands(&revoked, &server, "here")
        .map(|_| ())
        .unwrap_err();
    assert_eq!(error, CertificateError::Revoked.into());
    let good = client(&ca, Some(&ca.issue(&["agent"], &[], VALID, REVOKED + 1)));
    shake_hands(&good, &server, "here").unwrap();
}

#[test]
fn sessions_are_resumed_under_the_same_tickets_only() {
    let ca = Ca::new("ca");
    let tickets = tickets();
    let first = server(&ca.good("here"), ClientCertificates::Off, &tickets);
    let renewed = server(&ca.good("here"), ClientCertificates::Off, &tickets);
    let other = server(&ca.good("here"), ClientCertificates::Off, &self::tickets());
    let client = client(&ca, None);
    let kind = |server| {
        let (_, server_connection) = shake_hands(&client, server, "here").unwrap();
        server_connection.handshake_kind()
    };
    assert_eq!(kind(&first), Some(HandshakeKind::Full));
    assert_eq!(kind(&renewed), Some(HandshakeKind::Resumed));
    assert_eq!(kind(&other), Some(HandshakeKind::Full));
}

#[test]
fn a_client_without_a_common_protocol_is_refused() {
    let ca = Ca::new("ca");
    let server = server(&ca.good("here"), ClientCertificates::Off, &tickets());
    let client = ClientSettings {
        authorities: authorities(&ca),
        identity: None,
        protocols: vec![b"h2".to_vec()],
    };
    let client = Arc::new(client.config().unwrap());
    let (side, error) = shake_hands(&client, &server, "here")
        .map(|_| ())
        .unwrap_err();
    assert_eq!((side, error), ("server", Error::NoApplicationProtocol));
}
