//! A server in a process of its own, for the duration of a benchmark.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use placewright_roles::PROGRAM_VARIABLE;

/// A running server, which is killed when dropped.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    /// The time from the start of the process until the server was ready.
    pub(crate) time_to_ready: Duration,
}

/// The longest wait for a server to be ready: longer than any target allows.
const READY_MAX: Duration = Duration::from_secs(300);
/// The interval of the readiness checks. It is short, because the measured time is too long by up to one interval.
const READY_POLL: Duration = Duration::from_micros(500);
/// The time-out of one readiness check.
const READY_CHECK_MAX: Duration = Duration::from_secs(5);
/// The number of lines of a server's log that an error contains.
const LOG_LINES_SHOWN: usize = 10;

/// The clock ticks of a second in `/proc/*/stat`: 100 on all common platforms of Linux.
const TICKS_PER_S: f64 = 100.0;

/// The processor time that a process has used in all its threads, in seconds.
///
/// # Errors
///
/// The system has no `/proc`, or there is no such process.
pub(crate) fn cpu_s_of(process: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name of the program, in brackets, may contain spaces. Of the fields after it, user and
    // system time are the 12th and 13th.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<f64>);
    let ticks = ticks.sum::<Result<f64, _>>().context("no times in /proc")?;
    Ok(ticks / TICKS_PER_S)
}

/// The memory of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// The present resident size, in bytes.
    pub(crate) resident_bytes: u64,
    /// The peak of the resident size, in bytes.
    pub(crate) peak_bytes: u64,
}

impl ServerProcess {
    /// Starts a server on this store and waits until the server is ready. The server's log goes to a file
    /// beside the store.
    ///
    /// # Errors
    ///
    /// The server could not be started, ended, or was not ready in time; the error has the end of
    /// the log.
    pub(crate) fn start(store: &Path) -> anyhow::Result<Self> {
        Self::start_with_arguments(store, &[])
    }

    /// Starts a server with further arguments.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub(crate) fn start_with_arguments(
        store: &Path,
        more_arguments: &[OsString],
    ) -> anyhow::Result<Self> {
        let address = free_address()?;
        let arguments = ["control", "--config", "/dev/null", "--placement-listen"];
        let mut arguments: Vec<OsString> = arguments.map(OsString::from).into();
        arguments.push(address.to_string().into());
        arguments.push("--store-path".into());
        arguments.push(store.into());
        arguments.extend_from_slice(more_arguments);
        Self::start_program(&arguments, address, store.with_extension("log"))
    }

    /// Starts `placewright` with other arguments and waits until it is ready at this address.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub(crate) fn start_program(
        arguments: &[OsString],
        address: SocketAddr,
        log: PathBuf,
    ) -> anyhow::Result<Self> {
        let program = product_path()?;
        let start = Instant::now();
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        let mut server = Self {
            child,
            address,
            log,
            time_to_ready: Duration::ZERO,
        };
        while !is_ready(address) {
            if let Some(status) = server.child.try_wait()? {
                bail!("the server ended ({status}): {}", server.log_end());
            }
            if start.elapsed() > READY_MAX {
                bail!("the server did not get ready: {}", server.log_end());
            }
            std::thread::sleep(READY_POLL);
        }
        server.time_to_ready = start.elapsed();
        Ok(server)
    }

    /// The address of the server's API.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL of the server's API.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The server's memory.
    ///
    /// # Errors
    ///
    /// The system has no `/proc`, or the process ended.
    pub(crate) fn memory(&self) -> anyhow::Result<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            kib.map(|kib| kib * 1024)
                .with_context(|| format!("no {name} in /proc"))
        };
        Ok(Memory {
            resident_bytes: field("VmRSS:")?,
            peak_bytes: field("VmHWM:")?,
        })
    }

    /// The processor time that the server has used, in seconds; unlike the time to ready, it does
    /// not depend on how busy the machine is.
    ///
    /// # Errors
    ///
    /// The system has no `/proc`, or the process ended.
    pub(crate) fn cpu_s(&self) -> anyhow::Result<f64> {
        cpu_s_of(self.child.id())
    }

    /// Ends the server with SIGTERM and waits until it has ended; returns how long that took.
    ///
    /// # Errors
    ///
    /// The exit code of the server is not 0.
    pub(crate) fn stop(mut self) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let id = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        let id = id.context("the server's process id")?;
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the server ended with {status}: {}", self.log_end());
        }
        Ok(start.elapsed())
    }

    /// The end of the server's log.
    fn log_end(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Errors mean that the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The path of the program `placewright`: the one in the variable [`PROGRAM_VARIABLE`], otherwise that of `placewright`
/// in the folder of this program.
///
/// # Errors
///
/// The program does not exist.
fn product_path() -> anyhow::Result<PathBuf> {
    let path = match std::env::var_os(PROGRAM_VARIABLE) {
        Some(path) => PathBuf::from(path),
        None => {
            let this_program = std::env::current_exe().context("the path of this program")?;
            this_program.with_file_name("placewright")
        }
    };
    if !path.exists() {
        bail!(
            "{} is not installed: the servers to measure are started from it",
            path.display()
        );
    }
    Ok(path)
}

/// An address with a port that was free a moment ago. Another process may take the port before it is used.
///
/// # Errors
///
/// The system has no free port.
pub(crate) fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Whether the server reports that it is ready.
fn is_ready(address: SocketAddr) -> bool {
    let request_ready = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(READY_CHECK_MAX))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(&status == b"HTTP/1.1 200")
    };
    request_ready().unwrap_or(false)
}
