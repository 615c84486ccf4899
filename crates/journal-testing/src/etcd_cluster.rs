//! Real etcd members on this machine, for tests that kill them.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::ports::free_ports;

/// How long members may take to elect a leader. It takes 1 to 2 s on an idle machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause between two looks at whether the members are healthy.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// How often a start is tried with other ports: another program may take a port in between.
const START_ATTEMPTS: usize = 3;
/// The environment variable that makes tests fail, and not be skipped, if a program is missing.
const DEMAND_VARIABLE: &str = "PLACEWRIGHT_TEST_ENGINES";

/// The files with which members serve clients over TLS and ask them for certificates.
#[derive(Clone, Debug)]
pub struct ServerTlsFiles {
    /// The members' certificate (PEM).
    pub certificate: PathBuf,
    /// The key of the members' certificate (PEM).
    pub key: PathBuf,
    /// The authorities of the clients' certificates.
    pub client_authorities: PathBuf,
}

/// The settings of members that differ from the defaults.
#[derive(Clone, Debug, Default)]
pub struct EtcdClusterOptions {
    /// The files for TLS. Without them clients connect without TLS.
    pub tls: Option<ServerTlsFiles>,
    /// The size of the database in bytes at which writes stop.
    pub quota_bytes: Option<u64>,
}

/// Members of etcd in a temporary directory. When this is dropped, the members are killed and the directory is removed.
pub struct EtcdCluster {
    members: Vec<Member>,
    options: EtcdClusterOptions,
    directory: TempDir,
}

struct Member {
    client_port: u16,
    peer_port: u16,
    health_port: u16,
    /// `None` while the member is killed.
    process: Option<Child>,
}

impl EtcdCluster {
    /// Whether the program `etcd` is installed. If it is not, a message on standard error says so.
    ///
    /// # Panics
    /// If the program is not installed, and the environment variable `PLACEWRIGHT_TEST_ENGINES` is 1.
    #[must_use]
    pub fn available() -> bool {
        let output = Command::new("etcd").arg("--version").output();
        let is_installed = output.is_ok_and(|output| output.status.success());
        if !is_installed {
            assert!(
                std::env::var(DEMAND_VARIABLE).as_deref() != Ok("1"),
                "the program etcd is not installed, and {DEMAND_VARIABLE}=1 demands it"
            );
            eprintln!("skipped: the program etcd is not installed (Debian: etcd-server)");
        }
        is_installed
    }

    /// Starts members, and waits until each of them takes requests.
    ///
    /// # Errors
    /// The program cannot be started, or its members do not become healthy.
    pub fn start(members: usize) -> io::Result<Self> {
        Self::start_with(members, &EtcdClusterOptions::default())
    }

    /// Starts members with options.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(members: usize, options: &EtcdClusterOptions) -> io::Result<Self> {
        let mut attempt = 1;
        loop {
            match Self::try_start(members, options) {
                Err(_) if attempt < START_ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    fn try_start(members: usize, options: &EtcdClusterOptions) -> io::Result<Self> {
        let ports = free_ports(3 * members)?;
        let members = ports.chunks_exact(3).map(|ports| Member {
            client_port: ports[0],
            peer_port: ports[1],
            health_port: ports[2],
            process: None,
        });
        let mut cluster = Self {
            members: members.collect(),
            options: options.clone(),
            directory: tempfile::Builder::new()
                .prefix("placewright-etcd-")
                .tempdir()?,
        };
        for member in 0..cluster.members.len() {
            cluster.spawn(member)?;
        }
        for member in 0..cluster.members.len() {
            cluster.wait_until_healthy(member)?;
        }
        Ok(cluster)
    }

    /// The members' client addresses, as `host:port`.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        let members = self.members.iter();
        members
            .map(|member| format!("127.0.0.1:{}", member.client_port))
            .collect()
    }

    /// The client addresses with commas between them.
    #[must_use]
    pub fn address(&self) -> String {
        self.endpoints().join(",")
    }

    /// Kills a member (SIGKILL).
    ///
    /// # Errors
    /// The member does not run.
    pub fn kill(&mut self, member: usize) -> io::Result<()> {
        let mut process = (self.members[member].process.take()).ok_or_else(not_running)?;
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    /// Suspends a member (SIGSTOP): its connections stay open, and nothing is answered.
    ///
    /// # Errors
    /// The member does not run.
    pub fn stop(&self, member: usize) -> io::Result<()> {
        self.signal(member, Signal::STOP)
    }

    /// Lets a suspended member go on (SIGCONT).
    ///
    /// # Errors
    /// The member does not run.
    pub fn resume(&self, member: usize) -> io::Result<()> {
        self.signal(member, Signal::CONT)
    }

    /// Starts a killed member again with its data, without waiting for it.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_again(&mut self, member: usize) -> io::Result<()> {
        self.spawn(member)
    }

    /// Waits until a member takes requests, for which it has to see a leader.
    ///
    /// # Errors
    /// The member does not accept requests within a minute, or has ended.
    pub fn wait_until_healthy(&mut self, member: usize) -> io::Result<()> {
        let started = Instant::now();
        let member = &mut self.members[member];
        loop {
            let process = member.process.as_mut().ok_or_else(not_running)?;
            if let Some(status) = process.try_wait()? {
                return Err(io::Error::other(format!("etcd ended: {status}")));
            }
            let (no_header, no_body) = ("", "");
            let health = http(member.health_port, "GET /health", no_header, no_body);
            if health.is_ok_and(|health| health.contains("\"health\":\"true\"")) {
                return Ok(());
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(io::Error::other("etcd did not become healthy"));
            }
            thread::sleep(LOOK_PAUSE);
        }
    }

    /// Makes a call of etcd's JSON API at a member without TLS, as `/v3/auth/enable`. Returns the response's body.
    ///
    /// # Errors
    /// The connection failed, or the member refused the call.
    pub fn post(&self, member: usize, path: &str, body: &str) -> io::Result<String> {
        let no_token = "";
        self.post_with_token(member, path, body, no_token)
    }

    /// As [`Self::post`], with the token of a user; empty for none.
    ///
    /// # Errors
    /// As [`Self::post`].
    pub fn post_with_token(
        &self,
        member: usize,
        path: &str,
        body: &str,
        token: &str,
    ) -> io::Result<String> {
        let header = match token {
            "" => String::new(),
            token => format!("Authorization: {token}\r\n"),
        };
        let port = self.members[member].client_port;
        http(port, &format!("POST {path}"), &header, body)
    }

    fn signal(&self, member: usize, signal: Signal) -> io::Result<()> {
        let process = (self.members[member].process.as_ref()).ok_or_else(not_running)?;
        kill_process(Pid::from_child(process), signal)?;
        Ok(())
    }

    fn spawn(&mut self, index: usize) -> io::Result<()> {
        let scheme = if self.options.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let mut cluster = String::new();
        for (index, member) in self.members.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            let port = member.peer_port;
            let _ = write!(cluster, "{separator}m{index}=http://127.0.0.1:{port}");
        }
        let member = &mut self.members[index];
        let client_url = format!("{scheme}://127.0.0.1:{}", member.client_port);
        let peer_url = format!("http://127.0.0.1:{}", member.peer_port);
        let health_url = format!("http://127.0.0.1:{}", member.health_port);
        let mut command = Command::new("etcd");
        for (name, _) in std::env::vars_os() {
            // These variables would override the options.
            if name.to_string_lossy().starts_with("ETCD_") {
                command.env_remove(name);
            }
        }
        command
            .args(["--name", &format!("m{index}")])
            .arg("--data-dir")
            .arg(self.directory.path().join(format!("m{index}")))
            .args(["--listen-client-urls", &client_url])
            .args(["--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url])
            .args(["--initial-advertise-peer-urls", &peer_url])
            .args(["--listen-metrics-urls", &health_url])
            .args(["--initial-cluster", &cluster])
            .args(["--initial-cluster-state", "new"])
            .args(["--snapshot-count", "5000"])
            .args(["--logger", "zap", "--log-level", "fatal"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(tls) = &self.options.tls {
            command
                .arg("--client-cert-auth")
                .arg("--cert-file")
                .arg(&tls.certificate)
                .arg("--key-file")
                .arg(&tls.key)
                .arg("--trusted-ca-file")
                .arg(&tls.client_authorities);
        }
        if let Some(bytes) = self.options.quota_bytes {
            command.args(["--quota-backend-bytes", &bytes.to_string()]);
        }
        member.process = Some(command.spawn()?);
        Ok(())
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for process in self.members.iter_mut().filter_map(|m| m.process.as_mut()) {
            // Killing fails if the process ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn not_running() -> io::Error {
    io::Error::other("the member does not run")
}

/// Makes a request over HTTP, with further header lines, and returns the body of a response with status 200.
fn http(port: u16, request: &str, header: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(START_TIMEOUT))?;
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n{header}\r\n{body}"
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(io::Error::other(format!("{request}: {response}"))),
    }
}
