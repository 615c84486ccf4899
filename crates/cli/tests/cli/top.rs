//! `placewright top`, in a pseudo terminal and without one, against an installation with simulated hosts.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::pty::{OTHER_SCREEN, Terminal};
use crate::common::{free_address, placewright, run};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::{Value, json};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// A running `placewright up`.
struct Installation {
    child: Child,
    addresses: BTreeMap<&'static str, SocketAddr>,
}

impl Drop for Installation {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Installation {
    fn start(folder: &Path, addresses: BTreeMap<&'static str, SocketAddr>) -> Self {
        let mut command =
            placewright(&["up", "--config", "/dev/null", "--auth-strategy", "noauth2"]);
        command
            .args(["--hosts", "6", "--cells", "2", "--folder"])
            .arg(folder);
        for (service, address) in &addresses {
            command.arg(format!("--{service}-listen={address}"));
        }
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_up = lines.any(|line| line.unwrap().contains("Placewright is up"));
        assert!(is_up, "placewright up ended");
        // It goes on printing, and must not fail because nobody reads.
        thread::spawn(move || lines.for_each(drop));
        Self { child, addresses }
    }

    fn url(&self, service: &str) -> String {
        format!("http://{}", self.addresses[service])
    }

    /// Sends a request, and returns the body of the answer.
    fn ask(&self, service: &str, method: &str, path: &str, body: &Value) -> String {
        let mut stream = TcpStream::connect(self.addresses[service]).unwrap();
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let version = match service {
            "compute" => "compute 2.96",
            _ => "placement 1.39",
        };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Auth-Token: admin\r\n\
             OpenStack-API-Version: {version}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn get(&self, service: &str, path: &str) -> Value {
        let body = self.ask(service, "GET", path, &Value::Null);
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }

    fn make_flavor(&self) {
        let flavor =
            json!({"flavor": {"id": "small", "name": "small", "vcpus": 1, "ram": 64, "disk": 1}});
        self.ask("compute", "POST", "/v2.1/flavors", &flavor);
    }

    fn make_servers(&self, name: &str, count: usize) {
        let server = json!({"server": {"name": name, "flavorRef": "small", "networks": "none",
            "imageRef": "70ace000-0000-4000-8000-000000000001", "min_count": count, "max_count": count}});
        let answer = self.ask("compute", "POST", "/v2.1/servers", &server);
        assert!(
            answer.contains("\"server\"") || answer.contains("reservation_id"),
            "{answer}"
        );
    }

    fn wait_for_active(&self, count: usize) {
        let start = Instant::now();
        loop {
            let path = "/v2.1/servers?all_tenants=1&status=ACTIVE&limit=1000";
            if self.get("compute", path)["servers"]
                .as_array()
                .unwrap()
                .len()
                >= count
            {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "the servers are not active");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// A counter of the process.
    fn counter(&self, name: &str) -> f64 {
        let page = self.ask("health", "GET", "/metrics", &Value::Null);
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        line.unwrap_or_else(|| panic!("there is no {name}"))
    }
}

fn addresses() -> BTreeMap<&'static str, SocketAddr> {
    let services = [
        "compute",
        "placement",
        "scheduler",
        "control",
        "health",
        "ui",
        "image",
        "network",
    ];
    services.map(|service| (service, free_address())).into()
}

/// The number before a text in what was printed.
fn number_before(text: &str, after: &str) -> f64 {
    let (before, _) = text
        .split_once(after)
        .unwrap_or_else(|| panic!("no {after:?} in {text}"));
    let word = before.rsplit([' ', '\n', '[']).next().unwrap();
    word.replace(',', "")
        .parse()
        .unwrap_or_else(|_| panic!("{word:?} before {after:?}"))
}

/// The columns of the table of hosts, by the name of the host.
fn host_rows(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("HOST"));
    let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let rows = lines.map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(fields.len(), head.len(), "{line}");
        let row = head
            .iter()
            .zip(&fields)
            .map(|(name, field)| (name.to_string(), field.to_string()));
        (fields[0].to_owned(), row.collect())
    });
    rows.collect()
}

#[test]
fn figures_are_those_of_the_apis_and_a_terminal_is_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut installation = Installation::start(folder.path(), addresses());
    let ui = installation.url("ui");
    installation.make_flavor();
    installation.make_servers("web", 20);
    installation.wait_for_active(20);
    figures_are_those_of_the_apis(&installation);
    rates_are_those_of_the_metrics(&installation);
    who_may_not_see_them_gets_the_reason(&ui);
    installation = live(installation, folder.path());
    signals_end_it(&installation.url("ui"));
}

fn figures_are_those_of_the_apis(installation: &Installation) {
    let ui = installation.url("ui");
    let once = ["top", "--once", "--interval", "0.5", "--ui-url", &ui];
    let (code, text, error) = run(&[&once[..], &["--sort", "name"]].concat());
    assert_eq!(code, 0, "{error}");
    assert!(!text.contains('\x1b'), "{text}");
    assert_eq!(number_before(&text, " instances"), 20.0);
    assert_eq!(number_before(&text, " under way"), 0.0);
    assert!(text.contains("hosts      6: 6 up;"), "{text}");
    let rows = host_rows(&text);
    assert_eq!(rows.len(), 6, "{text}");
    let providers = installation.get("placement", "/resource_providers");
    let mut used = 0;
    for provider in providers["resource_providers"].as_array().unwrap() {
        let path = format!("/resource_providers/{}", provider["uuid"].as_str().unwrap());
        let usages = &installation.get("placement", &format!("{path}/usages"))["usages"];
        let inventories = installation.get("placement", &format!("{path}/inventories"));
        let row = &rows[provider["name"].as_str().unwrap()];
        for class in ["VCPU", "MEMORY_MB", "DISK_GB"] {
            let inventory = &inventories["inventories"][class];
            let physical =
                inventory["total"].as_f64().unwrap() - inventory["reserved"].as_f64().unwrap();
            let capacity = physical * inventory["allocation_ratio"].as_f64().unwrap();
            assert_eq!(
                row[class],
                format!("{}/{capacity:.0}", usages[class]),
                "{text}"
            );
        }
        used += usages["VCPU"].as_i64().unwrap();
    }
    let sum = text.lines().find(|line| line.starts_with("VCPU ")).unwrap();
    assert_eq!(number_before(sum, " of "), 20.0);
    assert_eq!(used, 20);

    // One cell only, and the fullest host first.
    let (code, text, error) = run(&[&once[..], &["--cell", "cell2"]].concat());
    assert_eq!(code, 0, "{error}");
    assert!(
        host_rows(&text).values().all(|row| row["CELL"] == "cell2"),
        "{text}"
    );
    let (_, text, _) = run(&[&once[..], &["--sort", "instances", "--hosts", "2"]].concat());
    let counts: Vec<i64> = host_rows(&text)
        .values()
        .map(|row| row["INSTANCES"].parse().unwrap())
        .collect();
    assert_eq!(counts.len(), 2, "{text}");
}

fn rates_are_those_of_the_metrics(installation: &Installation) {
    const PLACED: &str = r#"placewright_placements_total{result="claimed"}"#;
    let before = installation.counter(PLACED);
    assert_eq!(before, 20.0);
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            for number in 0..15 {
                installation.make_servers(&format!("load-{number}"), 2);
                thread::sleep(Duration::from_millis(100));
            }
        });
        let ui = installation.url("ui");
        let (code, text, error) = run(&["top", "--interval", "1", "--ui-url", &ui]);
        assert_eq!(code, 0, "{error}");
        let (claims, placed) = (
            number_before(&text, " a second; "),
            number_before(&text, " placed a second"),
        );
        load.join().unwrap();
        let after = installation.counter(PLACED);
        assert!(
            placed > 0.0 && placed <= after - before,
            "{placed} of {}: {text}",
            after - before
        );
        assert_eq!(claims, placed, "{text}");
        assert_eq!(number_before(&text, " conflicts"), 0.0);
    });
    installation.wait_for_active(50);
}

fn who_may_not_see_them_gets_the_reason(ui: &str) {
    let (code, _, error) = run(&["top", "--ui-url", ui, "--token", "demo:demo"]);
    assert_eq!(code, 1);
    assert!(error.contains("403") && error.contains(ui), "{error}");
    let (code, _, error) = run(&["top", "--ui-url", ui, "--cell", "nowhere"]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("cell1, cell2"), "{error}");
}

/// Keys, and a service that goes away and comes back.
fn live(installation: Installation, folder: &Path) -> Installation {
    let ui = installation.url("ui");
    let mut terminal = Terminal::start(&["--interval", "0.5", "--ui-url", &ui]);
    let modes =
        tcgetattr(&terminal.screen).unwrap().local_modes | LocalModes::ICANON | LocalModes::ECHO;
    terminal.wait_for("table of hosts", |screen| {
        // What hosts report of their instances comes a little later than the servers' states.
        screen.contains("hosts 1 to 6 of 6, by load") && number_before(screen, " instances") == 50.0
    });
    assert!(terminal.shown.lock().unwrap().contains(OTHER_SCREEN));
    terminal.press("s");
    terminal.wait_for("other order", |screen| screen.contains("by vcpu"));
    terminal.press("Sr");
    terminal.wait_for("order from its end", |screen| {
        screen.contains("by load, the other way around")
    });
    terminal.press("c");
    terminal.wait_for("cell", |screen| screen.contains("of cell cell1"));
    terminal.press("C\x1b[B+");
    terminal.wait_for("next host", |screen| {
        screen.contains("hosts 2 to 6 of 6") && screen.contains("every 1 s")
    });
    terminal.press("-");

    let addresses = installation.addresses.clone();
    drop(installation);
    let gone = format!("no answer from {ui}");
    terminal.wait_for("trouble", |screen| {
        screen.contains("Not up to date") && screen.contains(&gone)
    });
    let installation = Installation::start(folder, addresses);
    let is_back =
        |screen: &str| !screen.contains("Not up to date") && screen.contains("50 instances");
    terminal.wait_for("figures again", is_back);
    terminal.press("q");
    terminal.end(modes);
    installation
}

fn signals_end_it(ui: &str) {
    for signal in [None, Some(Signal::TERM), Some(Signal::HUP)] {
        let mut terminal = Terminal::start(&["--ui-url", ui]);
        let modes = tcgetattr(&terminal.screen).unwrap().local_modes
            | LocalModes::ICANON
            | LocalModes::ECHO;
        terminal.wait_for("table of hosts", |screen| {
            screen.contains("hosts 1 to 6 of 6")
        });
        match signal {
            None => terminal.press("\x03"),
            Some(signal) => {
                let id = Pid::from_raw(i32::try_from(terminal.child.id()).unwrap()).unwrap();
                kill_process(id, signal).unwrap();
            }
        }
        terminal.end(modes);
    }
}

#[test]
fn what_is_wrong_is_told_with_the_address_or_the_argument() {
    let (code, _, error) = run(&["top", "--ui-url", "http://127.0.0.1:1"]);
    assert_eq!(code, 1);
    assert!(
        error.contains("no answer from http://127.0.0.1:1"),
        "{error}"
    );
    for arguments in [
        &["top", "--interval", "0"][..],
        &["top", "--interval", "soon"],
        &["top", "--sort", "colour"],
        &["top", "--ui-url", "ftp://x"],
        &["top", "--hosts", "-1"],
    ] {
        let (code, _, error) = run(arguments);
        assert_eq!(code, 2, "{arguments:?}: {error}");
    }
    let (code, help, _) = run(&["top", "--help"]);
    assert_eq!(code, 0);
    let (example, usage) = (
        help.find("placewright top --once").unwrap(),
        help.find("Usage:").unwrap(),
    );
    assert!(example < usage, "{help}");
    let (_, page, _) = run(&["man", "top"]);
    assert!(
        page.contains("\\-\\-interval") && page.contains("Ctrl\\-C"),
        "{page}"
    );
}
