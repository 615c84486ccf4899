//! Configurations from files: errors name the file, and changed files are read again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{Ca, Pem, shake_hands};
use placewright_tls::rustls::HandshakeKind;
use placewright_tls::{
    Authorities, ClientFiles, ClientSettings, FileBacked, FileError, Identity, IdentityFiles,
    LoadedServer, Outcome, ServerFiles, others_may_read, read_authorities,
};
use tempfile::TempDir;

/// A directory with files of a server.
struct Site {
    directory: TempDir,
    ca: Ca,
}

impl Site {
    fn new() -> Self {
        let site = Self {
            directory: tempfile::tempdir().unwrap(),
            ca: Ca::new("ca"),
        };
        site.write(&site.ca.good("here"));
        fs::write(site.path("ca.pem"), site.ca.pem()).unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, pem: &Pem) {
        fs::write(self.path("server.pem"), &pem.certificate).unwrap();
        fs::write(self.path("server.key"), &pem.key).unwrap();
    }

    fn files(&self) -> IdentityFiles {
        IdentityFiles {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
        }
    }

    fn server(&self, requests_certificates: bool) -> FileBacked<LoadedServer, FileError> {
        let files = ServerFiles {
            identity: self.files(),
            clients: requests_certificates.then(|| ClientFiles {
                authorities: self.path("ca.pem"),
                is_required: false,
            }),
            protocols: Vec::new(),
        };
        files.load().unwrap()
    }
}

/// The message of an error about a file.
fn about(path: &Path, fault: &str) -> String {
    format!("{}: {fault}", path.display())
}

#[test]
fn errors_of_keys_name_the_file_and_the_fault() {
    let site = Site::new();
    let other = site.ca.good("there");
    let error = || site.files().read().unwrap_err().to_string();
    let key = site.path("server.key");

    fs::write(&key, &other.key).unwrap();
    assert_eq!(error(), about(&key, "it is not the key of the certificate"));
    fs::write(&key, "").unwrap();
    assert!(
        error().starts_with(&about(&key, "it has no private key")),
        "{}",
        error()
    );
    fs::write(
        &key,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    assert!(
        error().starts_with(&about(&key, "its private key is encrypted")),
        "{}",
        error()
    );
    fs::write(
        &key,
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    )
    .unwrap();
    assert!(
        error().starts_with(&about(&key, "its private key cannot be used")),
        "{}",
        error()
    );
    fs::remove_file(&key).unwrap();
    assert!(
        error().starts_with(&about(&key, "cannot read it: No such file")),
        "{}",
        error()
    );
}

#[test]
fn errors_of_certificates_name_the_file_and_the_fault() {
    let site = Site::new();
    let other = site.ca.good("there");
    let error = || site.files().read().unwrap_err().to_string();
    let certificate = site.path("server.pem");
    fs::write(&certificate, "no PEM").unwrap();
    assert_eq!(
        error(),
        about(&certificate, "it holds no certificates (PEM)")
    );
    let half_of_it = &other.certificate[..other.certificate.len() / 2];
    fs::write(&certificate, half_of_it).unwrap();
    assert!(
        error().starts_with(&about(&certificate, "it is not PEM")),
        "{}",
        error()
    );
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(&certificate, format!("{}{broken}", other.certificate)).unwrap();
    assert!(
        error().starts_with(&about(&certificate, "certificate 2 in it is not valid")),
        "{}",
        error()
    );
    fs::write(&certificate, vec![b'a'; (4 << 20) + 1]).unwrap();
    assert_eq!(
        error(),
        about(&certificate, "it has more than 4194304 bytes")
    );

    let bundle = site.path("ca.pem");
    fs::write(&bundle, broken).unwrap();
    let error = read_authorities(&bundle).unwrap_err().to_string();
    assert!(
        error.starts_with(&about(&bundle, "certificate 1 in it is not valid")),
        "{error}"
    );
}

#[test]
fn any_bytes_are_refused_without_a_panic() {
    let site = Site::new();
    let pem = site.ca.good("here");
    for length in 0..pem.certificate.len() {
        let _ = Identity::from_pem(&pem.certificate.as_bytes()[..length], pem.key.as_bytes());
    }
    for position in 28..pem.certificate.len() {
        let mut bytes = pem.certificate.clone().into_bytes();
        bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
        let _ = Identity::from_pem(&bytes, pem.key.as_bytes());
        let _ = Authorities::from_pem(&bytes);
    }
}

#[test]
fn validity_is_that_of_the_certificate() {
    let site = Site::new();
    let identity = site.files().read().unwrap();
    assert_eq!(identity.validity().not_before_s, 1_577_836_800);
    assert_eq!(identity.validity().not_after_s, 4_102_444_800);
    assert_eq!(identity.validity().not_after_text(), "2100-01-01T00:00:00Z");
    assert!(identity.validity().includes(1_577_836_800));
    assert!(!identity.validity().includes(1_577_836_799));
    assert_eq!(identity.names().unwrap().dns, ["here"]);
}

#[test]
fn a_renewed_certificate_is_loaded_unless_it_is_invalid_or_expired() {
    let site = Site::new();
    let server = site.server(false);
    let before = server.current();
    site.write(&site.ca.issue(&["here"], &[], (2020, 2090), 2));
    assert!(matches!(server.check(), Outcome::Changing));
    assert!(matches!(server.check(), Outcome::Replaced));
    let after = server.current();
    assert_ne!(before.validity(), after.validity());

    fs::write(site.path("server.pem"), "no PEM").unwrap();
    assert!(matches!(server.reread(), Outcome::Invalid(_)));
    site.write(&site.ca.issue(&["here"], &[], (2001, 2002), 3));
    let Outcome::Invalid(error) = server.reread() else {
        panic!("an expired certificate took the place of a good one");
    };
    assert!(
        error
            .to_string()
            .ends_with("its certificate expired at 2002-01-01T00:00:00Z")
    );
    assert!(Arc::ptr_eq(&after, &server.current()));
}

#[test]
fn sessions_are_resumed_until_the_authorities_of_clients_change() {
    let site = Site::new();
    let server = site.server(true);
    let client = ClientSettings {
        authorities: Authorities::from_pem(site.ca.pem().as_bytes()).unwrap(),
        identity: None,
        protocols: Vec::new(),
    };
    let client = Arc::new(client.config().unwrap());
    let handshake_kind = || {
        let (_, session) = shake_hands(&client, server.current().config(), "here").unwrap();
        session.handshake_kind().unwrap()
    };
    assert_eq!(handshake_kind(), HandshakeKind::Full);
    site.write(&site.ca.good("here"));
    assert!(matches!(server.reread(), Outcome::Replaced));
    assert_eq!(handshake_kind(), HandshakeKind::Resumed);
    fs::write(site.path("ca.pem"), Ca::new("other").pem()).unwrap();
    assert!(matches!(server.reread(), Outcome::Replaced));
    assert_eq!(handshake_kind(), HandshakeKind::Full);
}

#[test]
fn keys_that_others_may_read_are_detected() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new();
    let key = site.path("server.key");
    for (mode, may_read) in [(0o600, false), (0o640, false), (0o644, true)] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(others_may_read(&key), may_read, "{mode:o}");
    }
    assert!(!others_may_read(&site.path("missing")));
}
