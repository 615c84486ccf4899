//! Clusters with users and passwords, with TLS and client certificates, and members of two clusters.

use std::fs;
use std::path::Path;

use placewright_journal::{AppendError, Journal, JournalError};
use placewright_journal_etcd::{EtcdJournal, EtcdNotice, EtcdOptions};
use placewright_journal_testing::{EtcdCluster, EtcdClusterOptions, ServerTlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

fn open(url: &str) -> Result<EtcdJournal, JournalError> {
    EtcdJournal::open(&EtcdOptions::parse(url).unwrap())
}

#[test]
fn a_user_needs_the_right_password_and_rights() {
    if !EtcdCluster::available() {
        return;
    }
    let cluster = EtcdCluster::start(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, password: &str| {
        let path = folder.path().join(name);
        fs::write(&path, password).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let right = file("right", "sesame\n");
    let wrong = file("wrong", "guessed\n");
    let address = cluster.address();
    let url = |prefix: &str, user: &str, password: &str| {
        format!("etcd://{address}/{prefix}?user={user}&password_file={password}")
    };
    // The address names a user, but the cluster has no authentication, of which a notice tells the operator.
    let journal = open(&url("open", "writer", &right)).unwrap();
    assert!(journal.notices().contains(&EtcdNotice::NoAuthentication));
    enable_authentication(&cluster);

    let mut journal = open(&url("own", "writer", &right)).unwrap();
    assert_eq!(journal.url(), format!("etcd://{address}/own"));
    journal.append(1, &[b"a"]).unwrap();
    // A token that is not valid any more is replaced: a change of rights ends all tokens.
    post_as_root(&cluster, "/v3/auth/role/add", r#"{"name":"another"}"#);
    journal.append(2, &[b"b"]).unwrap();
    assert_eq!(journal.end().unwrap(), 2);

    let refused = open(&url("own", "writer", &wrong)).err().unwrap();
    assert!(matches!(refused, JournalError::Unsuitable { .. }));
    assert!(refused.to_string().contains("invalid user ID or password"));
    assert!(!refused.to_string().contains("guessed"));
    let missing = open(&url("own", "writer", "/nowhere")).err().unwrap();
    assert!(missing.to_string().contains("/nowhere"), "{missing}");
    let nobody = open(&format!("etcd://{address}/own")).err().unwrap();
    assert!(
        matches!(nobody, JournalError::Unsuitable { .. }),
        "{nobody}"
    );
    let foreign = open(&url("foreign", "writer", &right)).err().unwrap();
    assert!(
        matches!(foreign, JournalError::ReadOnly { .. }),
        "{foreign}"
    );

    // An append by a user who has lost the right to write certainly has no effect, so it fails and is not unknown.
    post_as_root(
        &cluster,
        "/v3/auth/role/revoke",
        r#"{"role":"writer","key":"b3duLw==","range_end":"b3duMA=="}"#,
    );
    assert!(matches!(
        journal.append(3, &[b"c"]),
        Err(AppendError::Failed(JournalError::ReadOnly { .. }))
    ));
}

/// Enables authentication, with the user `writer`, who may read and write the keys below `own/`.
fn enable_authentication(cluster: &EtcdCluster) {
    let member = 0;
    let post = |path: &str, body: &str| cluster.post(member, path, body).unwrap();
    post(
        "/v3/auth/user/add",
        r#"{"name":"root","password":"sesame"}"#,
    );
    post("/v3/auth/role/add", r#"{"name":"root"}"#);
    post("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
    post(
        "/v3/auth/user/add",
        r#"{"name":"writer","password":"sesame"}"#,
    );
    post("/v3/auth/role/add", r#"{"name":"writer"}"#);
    // The keys from "own/" up to "own0", in base64.
    let range = r#""key":"b3duLw==","range_end":"b3duMA==""#;
    post(
        "/v3/auth/role/grant",
        &format!(r#"{{"name":"writer","perm":{{"permType":"READWRITE",{range}}}}}"#),
    );
    post(
        "/v3/auth/user/grant",
        r#"{"user":"writer","role":"writer"}"#,
    );
    post("/v3/auth/enable", "{}");
}

/// Makes a call as the user `root`, whose token etcd's JSON API takes from a header.
fn post_as_root(cluster: &EtcdCluster, path: &str, body: &str) {
    let answer = cluster.post(
        0,
        "/v3/auth/authenticate",
        r#"{"name":"root","password":"sesame"}"#,
    );
    let answer = answer.unwrap();
    let token = answer.split("\"token\":\"").nth(1).unwrap();
    let token = token.split('"').next().unwrap();
    cluster.post_with_token(0, path, body, token).unwrap();
}

/// An authority that signs the certificates of a test.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// Writes a certificate and its key as `name.pem` and `name.key`.
    fn issue(&self, folder: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let names = vec!["127.0.0.1".to_owned(), name.to_owned()];
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    fn write(&self, folder: &Path, name: &str) {
        fs::write(folder.join(name), self.issuer.pem()).unwrap();
    }
}

#[test]
fn tls_checks_both_sides() {
    if !EtcdCluster::available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    authority.write(folder.path(), "ca.pem");
    authority.issue(folder.path(), "server");
    authority.issue(folder.path(), "client");
    other.write(folder.path(), "other-ca.pem");
    other.issue(folder.path(), "stranger");
    let path = |name: &str| folder.path().join(name);
    let tls = ServerTlsFiles {
        certificate: path("server.pem"),
        key: path("server.key"),
        client_authorities: path("ca.pem"),
    };
    let options = EtcdClusterOptions {
        tls: Some(tls),
        ..EtcdClusterOptions::default()
    };
    let cluster = EtcdCluster::start_with(1, &options).unwrap();
    let address = cluster.address();
    let url = |ca: &str, client: &str| {
        let folder = folder.path().to_str().unwrap();
        let identity = match client {
            "" => String::new(),
            client => format!("&cert={folder}/{client}.pem&key={folder}/{client}.key"),
        };
        format!(
            "etcds://{address}/p?ca={folder}/{ca}{identity}&timeout_ms=500&connect_timeout_ms=400"
        )
    };
    let mut journal = open(&url("ca.pem", "client")).unwrap();
    journal.append(1, &[b"secret"]).unwrap();
    assert_eq!(journal.end().unwrap(), 1);
    for (ca, client) in [
        ("ca.pem", ""),
        ("ca.pem", "stranger"),
        ("other-ca.pem", "client"),
    ] {
        let refused = open(&url(ca, client)).err();
        assert!(
            matches!(refused, Some(JournalError::Unreachable { .. })),
            "{ca} {client}"
        );
    }
    let missing = open(&url("no.pem", "client")).err().unwrap();
    assert!(missing.to_string().contains("no.pem"), "{missing}");
    // A file that is not valid any more matters to new connections only.
    fs::write(path("client.pem"), "broken").unwrap();
    journal.append(2, &[b"more"]).unwrap();
    assert!(open(&url("ca.pem", "client")).is_err());
    assert!(
        open(&format!(
            "etcd://{address}/p?timeout_ms=500&connect_timeout_ms=400"
        ))
        .is_err()
    );
}

#[test]
fn members_of_two_clusters_are_refused() {
    if !EtcdCluster::available() {
        return;
    }
    let (one, mut other) = (
        EtcdCluster::start(1).unwrap(),
        EtcdCluster::start(1).unwrap(),
    );
    let url = format!("etcd://{},{}/p", one.address(), other.address());
    let refused = open(&url).err().unwrap();
    assert!(
        matches!(refused, JournalError::Unsuitable { .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("another cluster"), "{refused}");

    // A member that did not answer when the store was opened is noticed when it is used.
    other.kill(0).unwrap();
    let mut journal = open(&url).unwrap();
    assert!(matches!(
        journal.notices().last(),
        Some(EtcdNotice::NoAnswer { .. })
    ));
    journal.append(1, &[b"a"]).unwrap();
    other.start_again(0).unwrap();
    other.wait_until_healthy(0).unwrap();
    drop(one);
    let mut results = (0..2).map(|_| journal.append(2, &[b"b"]));
    assert!(results.any(|result| matches!(
        result,
        Err(AppendError::Failed(JournalError::Unsuitable { .. })
            | AppendError::Unknown(JournalError::Unsuitable { .. }))
    )));
}
