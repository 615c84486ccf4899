//! Servers with passwords, with TLS and client certificates, and servers of two systems.

use std::fs;
use std::path::Path;

use placewright_journal::{AppendError, Journal, JournalError};
use placewright_journal_postgresql::{PostgresqlJournal, PostgresqlNotice, PostgresqlOptions};
use placewright_journal_testing::{PostgresqlCluster, PostgresqlClusterOptions, ServerTlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

fn open(url: &str) -> Result<PostgresqlJournal, JournalError> {
    PostgresqlJournal::open(&PostgresqlOptions::parse(url).unwrap())
}

/// One server that waits for no standby.
fn alone() -> PostgresqlClusterOptions {
    PostgresqlClusterOptions {
        synchronous_standby_names: String::new(),
        ..PostgresqlClusterOptions::default()
    }
}

#[test]
fn a_user_needs_the_right_password_and_rights() {
    if !PostgresqlCluster::available() {
        return;
    }
    let options = PostgresqlClusterOptions {
        password: Some("sesame".into()),
        ..alone()
    };
    let cluster = PostgresqlCluster::start_with(0, &options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, password: &str| {
        let path = folder.path().join(name);
        fs::write(&path, password).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (file("right", "sesame\n"), file("wrong", "guessed\n"));
    let address = cluster.address();
    let url = |parameters: &str| {
        format!("postgresql://{address}/placewright?allow_async=yes{parameters}")
    };
    let mut journal = open(&url(&format!("&password_file={right}"))).unwrap();
    journal.append(1, &[b"a"]).unwrap();
    for (parameters, said) in [
        (
            format!("&password_file={wrong}"),
            "password authentication failed",
        ),
        (String::new(), "password"),
        ("&password_file=/nowhere".to_owned(), "/nowhere"),
        (format!("&user=nobody&password_file={right}"), "nobody"),
    ] {
        let refused = open(&url(&parameters)).err().unwrap();
        let is_unsuitable = matches!(refused, JournalError::Unsuitable { .. });
        assert!(is_unsuitable, "{parameters}: {refused:?}");
        let text = format!("{refused} {refused:?}");
        assert!(text.contains(said), "{text}");
        assert!(
            !text.contains("guessed") && !text.contains("sesame"),
            "{text}"
        );
    }
    let missing = format!("postgresql://{address}/nothing?allow_async=yes&password_file={right}");
    let missing = open(&missing).err().unwrap().to_string();
    assert!(missing.contains("does not exist"), "{missing}");

    check_rights(&cluster, &mut journal, &|schema| {
        url(&format!("&password_file={right}&schema={schema}"))
    });
}

/// Gives and takes rights of the user to whom the journal belongs, and checks which calls fail.
fn check_rights(
    cluster: &PostgresqlCluster,
    journal: &mut PostgresqlJournal,
    url: &dyn Fn(&str) -> String,
) {
    // The administrator creates the schema, so that the user needs no right to the database.
    let statements = "CREATE SCHEMA other; REVOKE CREATE ON DATABASE placewright FROM placewright; \
                      ALTER DATABASE placewright OWNER TO postgres";
    cluster.sql(0, statements).unwrap();
    for schema in ["foreign", "other"] {
        let refused = open(&url(schema)).err().unwrap();
        let is_denied = matches!(refused, JournalError::ReadOnly { .. });
        assert!(is_denied, "{schema}: {refused:?}");
    }
    cluster
        .sql(0, "GRANT CREATE, USAGE ON SCHEMA other TO placewright")
        .unwrap();
    open(&url("other")).unwrap().append(1, &[b"a"]).unwrap();

    // An append by a user who has lost the right to write fails, and is known not to be made.
    let statement = "ALTER TABLE placewright.batch OWNER TO postgres; \
                     GRANT SELECT ON placewright.batch TO placewright";
    cluster.sql(0, statement).unwrap();
    assert!(matches!(
        journal.append(2, &[b"b"]),
        Err(AppendError::Failed(JournalError::ReadOnly { .. }))
    ));
    assert_eq!(journal.end().unwrap(), 1);
}

/// An authority that signs certificates.
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

    /// Writes a certificate for a host and its key as `name.pem` and `name.key`.
    fn issue(&self, folder: &Path, name: &str, host: &str) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        // OpenSSL takes a certificate whose own name is that of its issuer for a self-signed one, so the names differ.
        let common_name = DnType::CommonName;
        params.distinguished_name.push(common_name, host);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// Writes the certificate of the authority itself.
    fn write(&self, folder: &Path, name: &str) {
        fs::write(folder.join(name), self.issuer.pem()).unwrap();
    }
}

#[test]
fn tls_checks_both_sides() {
    if !PostgresqlCluster::available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    authority.write(folder.path(), "ca.pem");
    authority.issue(folder.path(), "server", "127.0.0.1");
    authority.issue(folder.path(), "client", "placewright");
    other.write(folder.path(), "other-ca.pem");
    other.issue(folder.path(), "stranger", "placewright");
    let path = |name: &str| folder.path().join(name);
    let tls = ServerTlsFiles {
        certificate: path("server.pem"),
        key: path("server.key"),
        client_authorities: path("ca.pem"),
    };
    let options = PostgresqlClusterOptions {
        tls: Some(tls),
        ..alone()
    };
    let cluster = PostgresqlCluster::start_with(0, &options).unwrap();
    let port = cluster.address().replace("127.0.0.1", "");
    let terms = "allow_async=yes&timeout_ms=5000&connect_timeout_ms=400";
    let url = |host: &str, ca: &str, client: &str| {
        let folder = folder.path().to_str().unwrap();
        let identity = match client {
            // The client has no certificate.
            "" => String::new(),
            client => format!("&sslcert={folder}/{client}.pem&sslkey={folder}/{client}.key"),
        };
        format!(
            "postgresql://{host}{port}/placewright?sslmode=verify-full&sslrootcert={folder}/{ca}{identity}&{terms}"
        )
    };
    let mut journal = open(&url("127.0.0.1", "ca.pem", "client")).unwrap();
    journal.append(1, &[b"secret"]).unwrap();
    assert_eq!(journal.end().unwrap(), 1);
    for (host, ca, client) in [
        ("127.0.0.1", "ca.pem", ""),
        ("127.0.0.1", "ca.pem", "stranger"),
        ("127.0.0.1", "other-ca.pem", "client"),
        // The certificate is for the address, and not for the name.
        ("localhost", "ca.pem", "client"),
    ] {
        assert!(
            open(&url(host, ca, client)).is_err(),
            "{host} {ca} {client}"
        );
    }
    let missing = open(&url("127.0.0.1", "no.pem", "client")).err().unwrap();
    assert!(missing.to_string().contains("no.pem"), "{missing}");
    // A file that is not valid any more matters to new connections only.
    fs::write(path("client.pem"), "broken").unwrap();
    journal.append(2, &[b"more"]).unwrap();
    assert!(open(&url("127.0.0.1", "ca.pem", "client")).is_err());
    // The server refuses connections without TLS.
    let plain = format!("postgresql://127.0.0.1{port}/placewright?{terms}");
    assert!(open(&plain).is_err());
}

#[test]
fn servers_of_two_systems_are_refused() {
    if !PostgresqlCluster::available() {
        return;
    }
    let mut one = PostgresqlCluster::start_with(0, &alone()).unwrap();
    let mut other = PostgresqlCluster::start_with(0, &alone()).unwrap();
    other.kill(0).unwrap();
    let url = format!(
        "postgresql://{},{}/placewright?allow_async=yes&timeout_ms=500&connect_timeout_ms=400",
        one.address(),
        other.address()
    );
    let mut journal = open(&url).unwrap();
    let last = journal.notices().last();
    assert!(matches!(last, Some(PostgresqlNotice::NoAnswer { .. })));
    journal.append(1, &[b"a"]).unwrap();
    other.start_again(0).unwrap();
    other.wait_until_ready(0).unwrap();
    one.kill(0).unwrap();
    let error = match journal.append(2, &[b"b"]) {
        Err(AppendError::Failed(error)) => error,
        // The answer may have been on its way.
        Err(AppendError::Unknown(_)) => journal.resolve().unwrap_err(),
        other => panic!("{other:?}"),
    };
    assert!(matches!(error, JournalError::Unsuitable { .. }), "{error}");
    assert!(error.to_string().contains("another system"), "{error}");
}
