//! Starts the program as a user would.

pub(crate) mod collector;
pub(crate) mod pty;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

/// An address on loopback that no other test gets while this process runs.
pub(crate) fn free_address() -> SocketAddr {
    placewright_journal_testing::free_address().unwrap()
}

/// The program with these arguments, without this machine's configuration.
pub(crate) fn placewright(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_placewright"));
    command
        .args(arguments)
        .env_remove("PLACEWRIGHT_CONFIG")
        .stdin(Stdio::null());
    command
}

/// Runs the program to its end: exit code, standard output, standard error.
pub(crate) fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = placewright(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// A running `placewright control`.
pub(crate) struct Control {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    log: BufReader<ChildStderr>,
}

impl Control {
    /// Starts control on a store and waits until its log reports that it is ready.
    pub(crate) fn start(store: &Path, flags: &[&str]) -> Self {
        Self::start_with_variables(store, flags, &[])
    }

    /// Starts control with further environment variables, and waits until it is ready.
    pub(crate) fn start_with_variables(
        store: &Path,
        flags: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut control = Self::spawn(store, flags, variables);
        control.wait_for_line("ready");
        control
    }

    /// Starts control without waiting until it is ready.
    pub(crate) fn spawn(store: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let store = store.to_str().unwrap();
        Self::spawn_at(&[&["--store-path", store][..], flags].concat(), variables)
    }

    /// Starts control with flags that say where its store is, and waits until it is ready.
    pub(crate) fn start_at(flags: &[&str]) -> Self {
        let mut control = Self::spawn_at(flags, &[]);
        control.wait_for_line("ready");
        control
    }

    fn spawn_at(flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let address = free_address();
        let listen = address.to_string();
        let mut child = placewright(&["control", "--config", "/dev/null"])
            .args(["--placement-listen", &listen])
            .args(flags)
            .envs(variables.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            address,
            log,
        }
    }

    /// Reads the log up to a line with this text.
    #[allow(dead_code, reason = "not every test program reads the log")]
    pub(crate) fn wait_for_line(&mut self, text: &str) -> String {
        let mut line = String::new();
        while self.log.read_line(&mut line).unwrap() > 0 {
            if line.contains(text) {
                return line;
            }
            line.clear();
        }
        panic!("the log ended before a line with {text:?}");
    }

    /// Reads the log up to a line with this text; returns the lines before it.
    pub(crate) fn lines_up_to(&mut self, text: &str) -> String {
        let mut lines = String::new();
        loop {
            let start = lines.len();
            assert!(
                self.log.read_line(&mut lines).unwrap() > 0,
                "the log ended before a line with {text:?}: {lines}"
            );
            if lines[start..].contains(text) {
                lines.truncate(start);
                return lines;
            }
        }
    }

    /// Sends a request without a body and with this header, and returns the response.
    pub(crate) fn request_with(&self, head: &str, header: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(
            stream,
            "{head} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{header}\r\n\r\n"
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    /// Sends a request on a new connection, and returns the response.
    pub(crate) fn request(&self, head: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{head} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Auth-Token: admin\r\n\
             OpenStack-API-Version: placement 1.39\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Waits until the process ends; returns the exit code and the rest of the log.
    pub(crate) fn end(mut self) -> (i32, String) {
        let mut rest_of_log = String::new();
        self.log.read_to_string(&mut rest_of_log).unwrap();
        (self.child.wait().unwrap().code().unwrap(), rest_of_log)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
