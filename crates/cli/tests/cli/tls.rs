//! TLS of the running program: HTTP and HTTPS on one port, HTTPS only, client certificates, files that are read again.
//! `tests/tls/run` tests TLS with other clients, and under load.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use crate::common::{Control, free_address, placewright, run};
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

    fn start(&self, further_flags: &[&str]) -> Control {
        let (certificate, key) = (self.path("server.pem"), self.path("server.key"));
        let files = [
            "--placement-tls-certificate",
            text(&certificate),
            "--placement-tls-key",
            text(&key),
            // Files are read again only on SIGHUP.
            "--tls-reload-check-ms=3600000",
        ];
        Control::start(&self.path("store"), &[&files, further_flags].concat())
    }

    /// Sends a request over TLS. Returns the response and the server's certificate.
    fn request(
        &self,
        control: &Control,
        client_pem: Option<&Pem>,
    ) -> Result<(String, Vec<u8>), std::io::Error> {
        let identity =
            |pem: &Pem| Identity::from_pem(pem.certificate.as_bytes(), pem.key.as_bytes());
        let settings = ClientSettings {
            authorities: Authorities::from_pem(self.ca.pem().as_bytes()).unwrap(),
            identity: client_pem.map(|client_pem| identity(client_pem).unwrap()),
            protocols: vec![b"http/1.1".to_vec()],
        };
        let name = ServerName::try_from("here").unwrap();
        let client = ClientConnection::new(Arc::new(settings.config().unwrap()), name).unwrap();
        let mut stream = StreamOwned::new(client, TcpStream::connect(control.address)?);
        stream.write_all(
            b"GET /resource_providers HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\
              X-Auth-Token: admin\r\n\r\n",
        )?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        assert_eq!(
            stream.conn.protocol_version(),
            Some(ProtocolVersion::TLSv1_3)
        );
        let server_certificate = stream.conn.peer_certificates().unwrap()[0].to_vec();
        Ok((response, server_certificate))
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn an_installation_in_one_process_names_the_schemes_of_its_listeners() {
    let site = Site::new();
    let mut command = placewright(&["up", "--config", "/dev/null", "--auth-strategy=noauth2"]);
    command.args(["--hosts=0", "--cells=1", "--folder", text(&site.path("up"))]);
    for service in [
        "placement",
        "compute",
        "scheduler",
        "image",
        "network",
        "ui",
        "control",
    ] {
        command.arg(format!("--{service}-listen={}", free_address()));
    }
    command.arg(format!("--health-listen={}", free_address()));
    let (certificate, key) = (site.path("server.pem"), site.path("server.key"));
    command.args(["--compute-tls-certificate", text(&certificate)]);
    command.args(["--compute-tls-key", text(&key)]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut summary = String::new();
    while !summary.contains("Three things to try") {
        assert!(output.read_line(&mut summary).unwrap() > 0, "{summary}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for line in [
        "compute    https://127.0.0.1:",
        "placement  http://127.0.0.1:",
    ] {
        assert!(summary.contains(line), "{summary}");
    }
    let clouds = std::fs::read_to_string(site.path("up/clouds.yaml")).unwrap();
    assert!(clouds.contains("endpoint: https://127.0.0.1:"), "{clouds}");
}

#[test]
fn a_port_accepts_http_and_https_or_https_only() {
    let site = Site::new();
    let http_and_https = site.start(&[]);
    let (response, _) = site.request(&http_and_https, None).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    let plain = http_and_https.request_with("GET /", "Accept: application/json");
    assert!(plain.starts_with("HTTP/1.1 200"), "{plain}");
    http_and_https.signal(Signal::TERM);
    let (exit_code, _) = http_and_https.end();
    assert_eq!(exit_code, 0);
    let https_only = site.start(&["--placement-tls-plain=refuse"]);
    let (response, _) = site.request(&https_only, None).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    let plain = https_only.request_with("GET /", "Accept: application/json");
    assert!(
        plain.starts_with("HTTP/1.1 400") && plain.contains("https://"),
        "{plain}"
    );
    https_only.signal(Signal::TERM);
    let (exit_code, _) = https_only.end();
    assert_eq!(exit_code, 0);
}

#[test]
fn clients_need_certificates_where_they_are_required() {
    let site = Site::new();
    let bundle = site.path("ca.pem");
    let mut control = site.start(&[
        "--placement-tls-client-ca",
        text(&bundle),
        "--placement-tls-client-certificates=required",
    ]);
    assert!(site.request(&control, None).is_err());
    assert!(
        site.request(&control, Some(&issue(&authority(), "agent")))
            .is_err()
    );
    let client_pem = issue(&site.ca, "agent.example");
    let (response, _) = site.request(&control, Some(&client_pem)).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    let line = control.wait_for_line("uri=/resource_providers");
    assert!(
        line.contains("TLSv1.3") && line.contains("agent.example"),
        "{line}"
    );
    control.signal(Signal::TERM);
    control.end();
}

#[test]
fn sighup_loads_a_new_certificate_unless_it_is_invalid() {
    let site = Site::new();
    let mut control = site.start(&[]);
    let (_, first) = site.request(&control, None).unwrap();
    site.write(&issue(&site.ca, "here"));
    control.signal(Signal::HUP);
    control.wait_for_line("read the certificate again");
    control.wait_for_line("SIGHUP: read");
    let (_, second) = site.request(&control, None).unwrap();
    assert_ne!(first, second);
    std::fs::write(site.path("server.key"), issue(&site.ca, "other").key).unwrap();
    control.signal(Signal::HUP);
    let log = control.lines_up_to("SIGHUP: read");
    let key = site.path("server.key");
    let expected = format!("{}: it is not the key of the certificate", text(&key));
    assert!(log.contains(&expected), "{log}");
    let (_, unchanged) = site.request(&control, None).unwrap();
    assert_eq!(unchanged, second);
    control.signal(Signal::TERM);
    control.end();
}

#[test]
fn config_check_names_the_option_that_lacks_another() {
    for (flag, option) in [
        ("--compute-tls-key=/k", "compute.tls_key"),
        ("--placement-tls-plain=refuse", "placement.tls_plain"),
        (
            "--scheduler-tls-client-certificates=optional",
            "scheduler.tls_client_certificates",
        ),
    ] {
        let (code, _, log) = run(&["config", "check", "--config", "/dev/null", flag]);
        assert_eq!(code, 2, "{log}");
        assert!(log.contains(option), "{log}");
    }
}
