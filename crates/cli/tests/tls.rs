//! TLS of the running program: HTTP and HTTPS on one port, HTTPS only, client certificates, files that
//! are read again. `tests/tls/run` tries it with other clients, and under load.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{Control, run};
use placewright_tls::rustls::pki_types::ServerName;
use placewright_tls::rustls::{ClientConnection, ProtocolVersion, StreamOwned};
use placewright_tls::{Authorities, ClientSettings, Identity};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::Signal;

/// A certificate and its key as PEM.
struct Pem {
    certificate: String,
    key: String,
}

/// An authority, and a server's files in a directory.
struct Site {
    directory: tempfile::TempDir,
    ca: CertifiedIssuer<'static, KeyPair>,
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn issue(ca: &CertifiedIssuer<'static, KeyPair>, name: &str) -> Pem {
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    Pem {
        certificate: params.signed_by(&key, ca).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

impl Site {
    fn new() -> Self {
        let site = Self {
            directory: tempfile::tempdir().unwrap(),
            ca: authority(),
        };
        site.write(&issue(&site.ca, "here"));
        std::fs::write(site.path("ca.pem"), site.ca.pem()).unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, pem: &Pem) {
        std::fs::write(self.path("server.pem"), &pem.certificate).unwrap();
        std::fs::write(self.path("server.key"), &pem.key).unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(self.path("server.key"), mode).unwrap();
    }

    fn start(&self, more: &[&str]) -> Control {
        let (certificate, key) = (self.path("server.pem"), self.path("server.key"));
        let files = [
            "--placement-tls-certificate",
            text(&certificate),
            "--placement-tls-key",
            text(&key),
            // Files are read again because of signals only.
            "--tls-reload-check-ms=3600000",
        ];
        Control::start(&self.path("store"), &[&files, more].concat())
    }

    /// Sends a request over TLS; returns the answer, and the server's certificate.
    fn ask(
        &self,
        control: &Control,
        own: Option<&Pem>,
    ) -> Result<(String, Vec<u8>), std::io::Error> {
        let identity =
            |pem: &Pem| Identity::from_pem(pem.certificate.as_bytes(), pem.key.as_bytes());
        let settings = ClientSettings {
            authorities: Authorities::from_pem(self.ca.pem().as_bytes()).unwrap(),
            identity: own.map(|own| identity(own).unwrap()),
            protocols: vec![b"http/1.1".to_vec()],
        };
        let name = ServerName::try_from("here").unwrap();
        let client = ClientConnection::new(Arc::new(settings.config().unwrap()), name).unwrap();
        let mut stream = StreamOwned::new(client, TcpStream::connect(control.address)?);
        stream.write_all(
            b"GET /resource_providers HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\
              X-Auth-Token: admin\r\n\r\n",
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        assert_eq!(
            stream.conn.protocol_version(),
            Some(ProtocolVersion::TLSv1_3)
        );
        let shown = stream.conn.peer_certificates().unwrap()[0].to_vec();
        Ok((answer, shown))
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_port_takes_http_and_https_or_https_only() {
    let site = Site::new();
    let both = site.start(&[]);
    assert!(site.ask(&both, None).unwrap().0.starts_with("HTTP/1.1 200"));
    let plain = both.request_with("GET /", "Accept: application/json");
    assert!(plain.starts_with("HTTP/1.1 200"), "{plain}");
    both.signal(Signal::TERM);
    assert_eq!(both.end().0, 0);
    let only = site.start(&["--placement-tls-plain=refuse"]);
    assert!(site.ask(&only, None).unwrap().0.starts_with("HTTP/1.1 200"));
    let plain = only.request_with("GET /", "Accept: application/json");
    assert!(
        plain.starts_with("HTTP/1.1 400") && plain.contains("https://"),
        "{plain}"
    );
    only.signal(Signal::TERM);
    assert_eq!(only.end().0, 0);
}

#[test]
fn clients_show_certificates_where_they_have_to() {
    let site = Site::new();
    let bundle = site.path("ca.pem");
    let mut control = site.start(&[
        "--placement-tls-client-ca",
        text(&bundle),
        "--placement-tls-client-certificates=required",
    ]);
    assert!(site.ask(&control, None).is_err());
    assert!(
        site.ask(&control, Some(&issue(&authority(), "agent")))
            .is_err()
    );
    let own = issue(&site.ca, "agent.example");
    assert!(
        site.ask(&control, Some(&own))
            .unwrap()
            .0
            .starts_with("HTTP/1.1 200")
    );
    let line = control.wait_for_line("uri=/resource_providers");
    assert!(
        line.contains("TLSv1.3") && line.contains("agent.example"),
        "{line}"
    );
    control.signal(Signal::TERM);
    control.end();
}

#[test]
fn sighup_takes_a_new_certificate_and_keeps_the_old_one_if_that_is_wrong() {
    let site = Site::new();
    let mut control = site.start(&[]);
    let (_, first) = site.ask(&control, None).unwrap();
    site.write(&issue(&site.ca, "here"));
    control.signal(Signal::HUP);
    control.wait_for_line("read the certificate again");
    control.wait_for_line("SIGHUP: read");
    let (_, second) = site.ask(&control, None).unwrap();
    assert_ne!(first, second);
    std::fs::write(site.path("server.key"), issue(&site.ca, "other").key).unwrap();
    control.signal(Signal::HUP);
    let said = control.lines_up_to("SIGHUP: read");
    let key = site.path("server.key");
    let expected = format!("{}: it is not the key of the certificate", text(&key));
    assert!(said.contains(&expected), "{said}");
    assert_eq!(site.ask(&control, None).unwrap().1, second);
    control.signal(Signal::TERM);
    control.end();
}

#[test]
fn config_check_names_the_option_that_lacks_another() {
    for (flag, named) in [
        ("--compute-tls-key=/k", "compute.tls_key"),
        ("--placement-tls-plain=refuse", "placement.tls_plain"),
        (
            "--scheduler-tls-client-certificates=optional",
            "scheduler.tls_client_certificates",
        ),
    ] {
        let (code, _, said) = run(&["config", "check", "--config", "/dev/null", flag]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(named), "{said}");
    }
}
