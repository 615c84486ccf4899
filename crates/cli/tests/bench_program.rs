//! `placewright bench` and `placewright replay` are carried out by the program `placewright-bench` beside it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

const BENCH_PROGRAM: &str = env!("CARGO_BIN_EXE_placewright-bench");
const PROGRAM: &str = env!("CARGO_BIN_EXE_placewright");

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn arguments_are_passed_on_to_the_bench_program_as_they_are() {
    for (arguments, bench_arguments) in [
        (&["bench", "http", "--help"][..], &["http", "--help"][..]),
        (&["bench", "--help"], &["--help"]),
        (&["replay", "--help"], &["replay", "--help"]),
        (
            &["bench", "races", "--full", "7"],
            &["races", "--full", "7"],
        ),
        (&["replay", "--no-such-flag"], &["replay", "--no-such-flag"]),
    ] {
        let forwarded = run(PROGRAM, arguments);
        let direct = run(BENCH_PROGRAM, bench_arguments);
        assert_eq!(
            forwarded.status.code(),
            direct.status.code(),
            "{arguments:?}"
        );
        assert_eq!(
            text(&forwarded.stdout),
            text(&direct.stdout),
            "{arguments:?}"
        );
        assert_eq!(
            text(&forwarded.stderr),
            text(&direct.stderr),
            "{arguments:?}"
        );
        assert!(text(&forwarded.stdout).len() + text(&forwarded.stderr).len() > 100);
    }
}

#[test]
fn a_missing_bench_program_is_reported() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let alone = directory.path().join("placewright");
    // While a copy is written, another test may start a process, which inherits the open file: then the copy could
    // not be executed ("text file busy").
    std::fs::hard_link(PROGRAM, &alone).unwrap();
    let run = run(alone.to_str().unwrap(), &["bench", "durable"]);
    assert_eq!(run.status.code(), Some(1));
    let output = text(&run.stderr);
    assert!(
        output.contains("placewright-bench is not installed"),
        "{output}"
    );
    assert!(output.contains("cargo build"), "{output}");
}

/// A trace of one host and one task in a folder.
fn write_trace(folder: &Path) {
    let nodes = "sn,cpu_milli,memory_mib,gpu,model\na,32000,1000,0,\n";
    let tasks = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time\nt1,1000,100,0,0,0\n";
    std::fs::write(folder.join("nodes.csv"), nodes).unwrap();
    std::fs::write(folder.join("tasks.csv"), tasks).unwrap();
}

/// A replay of the trace in a folder, with further arguments.
fn replay(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(BENCH_PROGRAM);
    command.arg("replay").args(["--wait", "0"]);
    for (option, name) in [
        ("--nodes", "nodes.csv"),
        ("--tasks", "tasks.csv"),
        ("--out", "out"),
    ] {
        command.arg(option).arg(folder.join(name));
    }
    command.args(arguments);
    command
}

#[test]
fn a_page_that_others_could_reach_or_that_has_no_place_is_refused_and_nothing_changes() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = directory.path();
    write_trace(folder);
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    // An installation that answers nothing. A request to it would leave a connection that can be accepted below.
    let installation = TcpListener::bind("127.0.0.1:0").unwrap();
    installation.set_nonblocking(true).unwrap();
    let url = format!("http://{}", installation.local_addr().unwrap());
    for (address, why) in [
        ("0.0.0.0:8771", "this machine only"),
        ("[::]:8771", "this machine only"),
        ("192.0.2.7:8771", "this machine only"),
        ("8771", "a loopback address and a port"),
        (&*taken, "cannot listen there"),
    ] {
        let arguments = ["--url", &url, "--placement-url", &url, "--page", address];
        let run = replay(folder, &arguments).output().unwrap();
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{address}: {said}");
        assert!(said.contains(why), "{address}: {said}");
        assert!(installation.accept().is_err(), "{address}");
        assert!(!folder.join("out").exists(), "{address}");
    }
}

/// Answers requests for hosts and flavors, as an installation with the host of the trace and no flavors.
fn serve_installation() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = BufReader::new(client.unwrap());
            let mut line = String::new();
            client.read_line(&mut line).unwrap();
            let body = match line.split(' ').nth(1) {
                Some(path) if path.contains("/os-hypervisors/") => {
                    r#"{"hypervisors": [{"id": "a", "hypervisor_hostname": "a", "state": "up", "status": "enabled"}]}"#
                }
                _ => r#"{"flavors": []}"#,
            };
            while line.trim_end() != "" {
                line.clear();
                client.read_line(&mut line).unwrap();
            }
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close");
            write!(client.get_mut(), "{head}\r\n\r\n{body}").unwrap();
        }
    });
    address
}

#[test]
fn the_page_stays_with_the_result_until_a_signal_and_the_exit_code_is_that_of_the_run() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = directory.path();
    write_trace(folder);
    let url = format!("http://{}", serve_installation());
    for signal in [Signal::TERM, Signal::INT] {
        let urls = ["--url", &url, "--placement-url", &url];
        let more = ["--limit", "0", "--page", "127.0.0.1:0"];
        let mut command = replay(folder, &[urls, more].concat());
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let staying = lines.find(|line| line.as_ref().unwrap().contains("the page stays at"));
        let staying = staying.unwrap().unwrap();
        let (_, rest) = staying.split_once("http://").unwrap();
        let host = rest.split('/').next().unwrap();
        assert!(folder.join("out/report.json").exists());
        let mut page = TcpStream::connect(host).unwrap();
        let head = format!("Host: {host}\r\nConnection: close");
        write!(page, "GET /ui/api/replay HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
        let mut answer = String::new();
        page.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(r#""state":"ended""#), "{answer}");
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal:?}");
    }
}
