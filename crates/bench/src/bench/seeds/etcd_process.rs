//! One member of etcd on a temporary directory, if the program is installed.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::bench::server_process::free_address;

/// The longest wait for the member to take requests.
const READY_MAX: Duration = Duration::from_secs(60);
/// The pause between two checks whether the member takes requests.
const CHECK_PAUSE: Duration = Duration::from_millis(50);

/// A running member, which is killed when dropped.
#[derive(Debug)]
pub(super) struct EtcdProcess {
    child: Child,
    client: SocketAddr,
}

impl EtcdProcess {
    /// The first line that the program prints about its version; `None` if it is not installed.
    pub(super) fn version() -> Option<String> {
        let output = Command::new("etcd").arg("--version").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output
            .status
            .success()
            .then(|| text.lines().next().unwrap_or_default().to_owned())
    }

    /// Starts a member with its data in this directory, and waits until it takes requests.
    ///
    /// # Errors
    ///
    /// The program cannot be started, ends, or is not ready in time.
    pub(super) fn start(directory: &Path) -> anyhow::Result<Self> {
        let (client, peer, health) = (free_address()?, free_address()?, free_address()?);
        let url = |address: SocketAddr| format!("http://{address}");
        let mut command = Command::new("etcd");
        for (name, _) in std::env::vars_os() {
            // These variables would override the options.
            if name.to_string_lossy().starts_with("ETCD_") {
                command.env_remove(name);
            }
        }
        let child = command
            .args(["--name", "seeds"])
            .arg("--data-dir")
            .arg(directory.join("etcd"))
            .args(["--listen-client-urls", &url(client)])
            .args(["--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer)])
            .args(["--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &format!("seeds={}", url(peer))])
            .args(["--listen-metrics-urls", &url(health)])
            .args(["--logger", "zap", "--log-level", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(directory.join("etcd.log"))?)
            .spawn()
            .context("etcd cannot be started")?;
        let mut member = Self { child, client };
        let start = Instant::now();
        while !is_healthy(health) {
            if let Some(status) = member.child.try_wait()? {
                bail!("etcd ended: {status}");
            }
            if start.elapsed() > READY_MAX {
                bail!("etcd did not become ready");
            }
            std::thread::sleep(CHECK_PAUSE);
        }
        Ok(member)
    }

    /// The address of a store in this member, under this prefix.
    pub(super) fn store(&self, prefix: &str) -> String {
        format!("etcd://{}/{prefix}", self.client)
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        // Killing fails if the process ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_healthy(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, CHECK_PAUSE)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("\"health\":\"true\""))
}
