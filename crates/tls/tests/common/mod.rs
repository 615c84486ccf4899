//! A small authority for tests, and handshakes in memory.

#![allow(dead_code, reason = "each test uses a part")]

use std::sync::Arc;

use placewright_tls::rustls::pki_types::ServerName;
use placewright_tls::rustls::{
    ClientConfig, ClientConnection, Error, ServerConfig, ServerConnection,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SanType, SerialNumber, date_time_ymd,
};

/// An authority with a self-signed certificate, which signs the certificates of tests.
pub(crate) struct Ca(CertifiedIssuer<'static, KeyPair>);

/// The years of certificates that are valid when the tests run, for [`Ca::issue`].
pub(crate) const VALID: (i32, i32) = (2020, 2100);
/// The years of certificates that have expired, for [`Ca::issue`].
pub(crate) const EXPIRED: (i32, i32) = (2001, 2002);

/// A certificate with its key, as PEM.
pub(crate) struct Pem {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a server or a client with these DNS names and URIs. It is valid from the beginning of the
    /// first year to the beginning of the end year.
    pub(crate) fn issue(
        &self,
        dns: &[&str],
        uris: &[&str],
        (first_year, end_year): (i32, i32),
        serial: u64,
    ) -> Pem {
        let mut params = CertificateParams::new(
            dns.iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        )
        .unwrap();
        for uri in uris {
            params
                .subject_alt_names
                .push(SanType::URI((*uri).try_into().unwrap()));
        }
        params.not_before = date_time_ymd(first_year, 1, 1);
        params.not_after = date_time_ymd(end_year, 1, 1);
        params.serial_number = Some(SerialNumber::from(serial));
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pem {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// A certificate for this DNS name that is valid for a long time, with the serial number 7.
    pub(crate) fn good(&self, name: &str) -> Pem {
        self.issue(&[name], &[], VALID, 7)
    }

    /// A list that revokes the certificate with this serial number.
    pub(crate) fn revocation_list(&self, serial: u64) -> String {
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: date_time_ymd(2024, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

/// A handshake in memory. After it the client has the server's session tickets. An error names the side that
/// reported it first: `client` or `server`.
pub(crate) fn shake_hands(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
    name: &'static str,
) -> Result<(ClientConnection, ServerConnection), (&'static str, Error)> {
    let name = ServerName::try_from(name).unwrap();
    let mut client = ClientConnection::new(Arc::clone(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
    // More rounds than any handshake needs, so that session tickets arrive, too.
    for _ in 0..8 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).unwrap();
            server
                .process_new_packets()
                .map_err(|error| ("server", error))?;
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            client.read_tls(&mut bytes).unwrap();
            client
                .process_new_packets()
                .map_err(|error| ("client", error))?;
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok((client, server))
}
