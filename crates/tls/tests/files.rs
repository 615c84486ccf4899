//! Configurations from files: errors name the file, and changed files are read again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{Ca, EXPIRED, Pem, shake_hands};
use placewright_tls::rustls::HandshakeKind;
use placewright_tls::{
    Authorities, ClientFiles, ClientSettings, FileBacked, FileError, Identity, IdentityFiles,
    LoadedServer, Outcome, ServerFiles, others_may_read, read_authorities,
};
use tempfile::TempDir;

/// A directory with files of a server.
struct ServerDirectory {
    root: TempDir,
    ca: Ca,
}

impl ServerDirectory {
    fn new() -> Self {
        let directory = Self {
            root: tempfile::tempdir().unwrap(),
            ca: Ca::new("ca"),
        };
        directory.write(&directory.ca.good("here"));
        fs::write(directory.path("ca.pem"), directory.ca.pem()).unwrap();
        directory
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
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

    fn server(&self) -> FileBacked<LoadedServer, FileError> {
        self.load(None)
    }

    fn server_that_requests_certificates(&self) -> FileBacked<LoadedServer, FileError> {
        self.load(Some(ClientFiles {
            authorities: self.path("ca.pem"),
            is_required: false,
        }))
    }

    fn load(&self, clients: Option<ClientFiles>) -> FileBacked<LoadedServer, FileError> {
        let files = ServerFiles {
            identity: self.files(),
            clients,
            protocols: Vec::new(),
        };
        files.load().unwrap()
    }
}

/// The message of an error that is about a file.
fn file_message(path: &Path, message: &str) -> String {
    format!("{}: {message}", path.display())
}

#[test]
fn errors_of_keys_name_the_file_and_the_error() {
    let directory = ServerDirectory::new();
    let other = directory.ca.good("there");
    let error = || directory.files().read().unwrap_err().to_string();
    let key = directory.path("server.key");

    fs::write(&key, &other.key).unwrap();
    assert_eq!(
        error(),
        file_message(&key, "it is not the key of the certificate")
    );
    fs::write(&key, "").unwrap();
    assert!(
        error().starts_with(&file_message(&key, "it has no private key")),
        "{}",
        error()
    );
    fs::write(
        &key,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    assert!(
        error().starts_with(&file_message(&key, "its private key is encrypted")),
        "{}",
        error()
    );
    fs::write(
        &key,
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    )
    .unwrap();
    assert!(
        error().starts_with(&file_message(&key, "its private key cannot be used")),
        "{}",
        error()
    );
    fs::remove_file(&key).unwrap();
    assert!(
        error().starts_with(&file_message(&key, "cannot read it: No such file")),
        "{}",
        error()
    );
}

#[test]
fn errors_of_certificates_name_the_file_and_the_error() {
    let directory = ServerDirectory::new();
    let other = directory.ca.good("there");
    let error = || directory.files().read().unwrap_err().to_string();
    let certificate = directory.path("server.pem");
    fs::write(&certificate, "no PEM").unwrap();
    assert_eq!(
        error(),
        file_message(&certificate, "it holds no certificates (PEM)")
    );
    let half_of_it = &other.certificate[..other.certificate.len() / 2];
    fs::write(&certificate, half_of_it).unwrap();
    assert!(
        error().starts_with(&file_message(&certificate, "it is not PEM")),
        "{}",
        error()
    );
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(&certificate, format!("{}{broken}", other.certificate)).unwrap();
    assert!(
        error().starts_with(&file_message(
            &certificate,
            "certificate 2 in it is not valid"
        )),
        "{}",
        error()
    );
    fs::write(&certificate, vec![b'a'; (4 << 20) + 1]).unwrap();
    assert_eq!(
        error(),
        file_message(&certificate, "it has more than 4194304 bytes")
    );

    let bundle = directory.path("ca.pem");
    fs::write(&bundle, broken).unwrap();
    let error = read_authorities(&bundle).unwrap_err().to_string();
    assert!(
        error.starts_with(&file_message(&bundle, "certificate 1 in it is not valid")),
        "{error}"
    );
}

#[test]
fn damaged_pem_causes_no_panic() {
    let directory = ServerDirectory::new();
    let pem = directory.ca.good("here");
    for length in 0..pem.certificate.len() {
        let _ = Identity::from_pem(&pem.certificate.as_bytes()[..length], pem.key.as_bytes());
    }
    let content = "-----BEGIN CERTIFICATE-----\n".len();
    for position in content..pem.certificate.len() {
        let mut bytes = pem.certificate.clone().into_bytes();
        bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
        let _ = Identity::from_pem(&bytes, pem.key.as_bytes());
        let _ = Authorities::from_pem(&bytes);
    }
}

#[test]
fn validity_is_that_of_the_certificate() {
    let directory = ServerDirectory::new();
    let identity = directory.files().read().unwrap();
    // From the beginning of 2020 to the beginning of 2100.
    assert_eq!(identity.validity().not_before_s, 1_577_836_800);
    assert_eq!(identity.validity().not_after_s, 4_102_444_800);
    assert_eq!(identity.validity().not_after_text(), "2100-01-01T00:00:00Z");
    assert!(identity.validity().includes(1_577_836_800));
    assert!(!identity.validity().includes(1_577_836_799));
    assert_eq!(identity.names().unwrap().dns, ["here"]);
}

#[test]
fn a_renewed_certificate_is_loaded_unless_it_is_invalid_or_expired() {
    let directory = ServerDirectory::new();
    let server = directory.server();
    let before = server.current();
    directory.write(&directory.ca.issue(&["here"], &[], (2020, 2090), 2));
    assert!(matches!(server.check(), Outcome::Changing));
    assert!(matches!(server.check(), Outcome::Replaced));
    let after = server.current();
    assert_ne!(before.validity(), after.validity());

    fs::write(directory.path("server.pem"), "no PEM").unwrap();
    assert!(matches!(server.reread(), Outcome::Invalid(_)));
    directory.write(&directory.ca.issue(&["here"], &[], EXPIRED, 3));
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
    let directory = ServerDirectory::new();
    let server = directory.server_that_requests_certificates();
    let client = ClientSettings {
        authorities: Authorities::from_pem(directory.ca.pem().as_bytes()).unwrap(),
        identity: None,
        protocols: Vec::new(),
    };
    let client = Arc::new(client.config().unwrap());
    let handshake_kind = || {
        let (_, session) = shake_hands(&client, server.current().config(), "here").unwrap();
        session.handshake_kind().unwrap()
    };
    assert_eq!(handshake_kind(), HandshakeKind::Full);
    directory.write(&directory.ca.good("here"));
    assert!(matches!(server.reread(), Outcome::Replaced));
    assert_eq!(handshake_kind(), HandshakeKind::Resumed);
    fs::write(directory.path("ca.pem"), Ca::new("other").pem()).unwrap();
    assert!(matches!(server.reread(), Outcome::Replaced));
    assert_eq!(handshake_kind(), HandshakeKind::Full);
}

#[test]
fn keys_that_others_may_read_are_detected() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = ServerDirectory::new();
    let key = directory.path("server.key");
    for (mode, may_read) in [(0o600, false), (0o640, false), (0o644, true)] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(others_may_read(&key), may_read, "{mode:o}");
    }
    assert!(!others_may_read(&directory.path("missing")));
}
