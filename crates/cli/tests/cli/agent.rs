//! `placewright agent` against a placement that requires authentication.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Control, free_address, placewright, run};
use placewright_testing::keystone::{FakeKeystone, token};
use rustix::process::Signal;
use serde_json::json;

/// An agent with two simulated hosts and no cell; killed when dropped.
struct Agent(Child);

impl Agent {
    fn start(state: &Path, control: &Control, flags: &[&str]) -> Self {
        Self::start_with_resync(state, control, "1", flags)
    }

    fn start_with_resync(state: &Path, control: &Control, resync_s: &str, flags: &[&str]) -> Self {
        let url = format!("http://{}", control.address);
        let cell = free_address().to_string();
        let mut command = placewright(&["agent", "--config", "/dev/null", "--agent-hosts", "2"]);
        command
            .args(["--agent-placement-url", &url, "--agent-cell", &cell])
            .args(["--agent-resync-s", resync_s, "--agent-state-path"])
            .arg(state)
            .args(flags)
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until placement has the agent's two hosts; returns their UUIDs.
fn wait_for_hosts(control: &Control, header: &str) -> Vec<String> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let response = control.request_with("GET /resource_providers", header);
        let body = response.split_once("\r\n\r\n").unwrap().1;
        let providers: serde_json::Value = serde_json::from_str(body).unwrap();
        let providers = providers["resource_providers"].as_array();
        let uuids = providers.into_iter().flatten();
        let uuids: Vec<String> = uuids
            .map(|provider| provider["uuid"].as_str().unwrap().to_owned())
            .collect();
        if uuids.len() == 2 {
            return uuids;
        }
        assert!(Instant::now() < end, "{response}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_agent_sends_tokens_of_its_service_user_and_gets_new_ones() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let keystone = runtime.block_on(FakeKeystone::start());
    let body = token(json!({"project": {"id": "p1", "domain": {"id": "d2"}}}));
    keystone.add_token("operator", body.clone());
    // The fake names the tokens that it issues own-1, own-2 and so on, and says that a token is valid only after
    // `add_token` was called for it.
    for number in 1..=4 {
        keystone.add_token(&format!("own-{number}"), body.clone());
    }
    let directory = tempfile::tempdir().unwrap();
    let password_file = directory.path().join("password");
    std::fs::write(&password_file, "sesame\n").unwrap();
    let url = keystone.url();
    let keystone_flags = [
        "--keystone-auth-url",
        &url,
        "--keystone-username",
        "placement",
        "--keystone-password-file",
        password_file.to_str().unwrap(),
    ];
    let auth_flags = [
        "--auth-strategy",
        "keystone",
        "--keystone-cache-seconds",
        "0",
    ];
    let control_flags = [auth_flags.as_slice(), &keystone_flags].concat();
    let control = Control::start(&directory.path().join("store"), &control_flags);
    let agent_flags = [["--agent-placement-keystone"].as_slice(), &keystone_flags].concat();
    let _agent = Agent::start(&directory.path().join("agent"), &control, &agent_flags);
    let operator_header = "X-Auth-Token: operator";
    let uuids = wait_for_hosts(&control, operator_header);

    // When its token is revoked, the agent gets another one and creates the deleted provider again.
    let logins_before = keystone.logins();
    for number in 1..=logins_before {
        keystone.remove_token(&format!("own-{number}"));
    }
    for number in logins_before + 1..logins_before + 10 {
        keystone.add_token(&format!("own-{number}"), body.clone());
    }
    let delete = format!("DELETE /resource_providers/{}", uuids[0]);
    control.request_with(&delete, operator_header);
    assert_eq!(wait_for_hosts(&control, operator_header), uuids);
    assert!(
        keystone.logins() > logins_before,
        "a new token was asked for"
    );
}

/// Writes an executable of the driver `command`.
fn write_command(directory: &Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_agent_compares_all_hosts_although_one_changes_all_the_time() {
    let directory = tempfile::tempdir().unwrap();
    let commands = directory.path().join("commands");
    std::fs::create_dir(&commands).unwrap();
    // The host `busy` reports another amount of memory at each inspection. Hosts are inspected each second.
    let inspect = r#"cat >/dev/null
printf '{"hosts":[{"name":"calm"},{"name":"busy","inventories":{"MEMORY_MB":{"total":%s}}}]}' "$(date +%s)""#;
    write_command(&commands, "inspect", inspect);
    write_command(&commands, "list", r#"echo '{"guests": []}'"#);
    for name in ["spawn", "destroy"] {
        write_command(&commands, name, "exit 0");
    }
    let control = Control::start(&directory.path().join("store"), &[]);
    let flags = [
        "--agent-driver",
        "command",
        "--agent-commands",
        commands.to_str().unwrap(),
        "--agent-inspect-s",
        "1",
    ];
    let agent_state = directory.path().join("agent");
    let _agent = Agent::start_with_resync(&agent_state, &control, "3", &flags);
    let header = "X-Auth-Token: admin";
    let uuids = wait_for_hosts(&control, header);

    let named = control.request_with("GET /resource_providers?name=calm", header);
    let calm = uuids.iter().find(|uuid| named.contains(*uuid)).unwrap();
    control.request_with(&format!("DELETE /resource_providers/{calm}"), header);
    assert_eq!(
        wait_for_hosts(&control, header).len(),
        2,
        "the host that is not there is written again"
    );
}

#[test]
fn an_agent_with_incomplete_or_contradictory_credentials_does_not_start() {
    for (flags, what) in [
        (&["--agent-placement-keystone"][..], "[keystone]"),
        (
            &["--agent-placement-user", "u"][..],
            "placement_password_file",
        ),
        (
            &[
                "--agent-placement-keystone",
                "--agent-placement-user",
                "u",
                "--agent-placement-password-file",
                "/nowhere",
            ][..],
            "placement_keystone",
        ),
    ] {
        let arguments = [&["agent", "--config", "/dev/null"][..], flags].concat();
        let (code, _, log) = run(&arguments);
        assert_eq!(code, 2, "{log}");
        assert!(log.contains(what), "{log}");
    }
}

/// Starts an agent with many hosts, waits until placement has all of them, and ends it. Returns how many requests
/// that took beyond those that each batch of hosts begins with, and how many requests were writes.
fn write_many_hosts(state: &Path, control: &Control, hosts: u64) -> (u64, u64) {
    let url = format!("http://{}", control.address);
    let cell = free_address().to_string();
    let mut command = placewright(&["agent", "--config", "/dev/null", "--agent-cell", &cell]);
    command
        .args(["--agent-placement-url", &url, "--agent-state-path"])
        .arg(state)
        .args(["--agent-hosts", &hosts.to_string()])
        .stderr(Stdio::piped());
    let mut agent = Agent(command.spawn().unwrap());
    let log = BufReader::new(agent.0.stderr.take().unwrap());
    let (mut written, mut requests, mut writes) = (0, 0, 0);
    for line in log.lines() {
        let line = line.unwrap();
        let number = |name: &str| {
            let (_, rest) = line.split_once(&format!(" {name}=")).unwrap();
            let digits = rest.split(' ').next().unwrap();
            digits.parse::<u64>().unwrap()
        };
        if line.contains("wrote the inventories") {
            assert_eq!(number("failed"), 0, "{line}");
            written += number("hosts");
            requests += number("requests");
            writes += number("writes");
        }
        if written >= hosts {
            break;
        }
    }
    assert_eq!(written, hosts, "the log ended early");
    (requests, writes)
}

#[test]
fn an_agent_looks_for_a_few_of_many_new_hosts_only_and_writes_what_can_be_claimed_last() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let control = Control::start(&store, &["--audit-destination=file"]);
    let hosts = 200;
    let (requests, writes) = write_many_hosts(&directory.path().join("new"), &control, hosts);
    // Each is created, and gets inventories and a trait.
    assert!((3 * hosts..4 * hosts).contains(&requests), "{requests}");
    assert!(writes >= 3 * hosts, "{writes}");
    // An agent that has lost its folder finds the hosts, and has nothing to write.
    let (requests, writes) = write_many_hosts(&directory.path().join("again"), &control, hosts);
    assert_eq!((requests, writes), (3 * hosts, 0));
    // Some hosts are new.
    let more = 2 * hosts;
    let (requests, _) = write_many_hosts(&directory.path().join("more"), &control, more);
    assert!(
        (6 * hosts..8 * hosts + 100).contains(&requests),
        "{requests}"
    );
    control.signal(Signal::TERM);
    let (code, log) = control.end();
    assert_eq!(code, 0, "{log}");
    let audit_log = std::fs::read_to_string(store.join("audit.log")).unwrap();
    let writes_to = |resource: &str| {
        let path = format!("/{resource}\"");
        let lines = audit_log.lines().enumerate();
        lines.filter_map(move |(number, line)| {
            // The path comes after the route, which has no UUID.
            let (before, _) = line.rsplit_once(&path)?;
            Some((before.rsplit('/').next()?.to_owned(), number))
        })
    };
    let traits: BTreeMap<String, usize> = writes_to("traits").collect();
    let inventories: BTreeMap<String, usize> = writes_to("inventories").collect();
    assert_eq!(inventories.len() as u64, more);
    for (host, line) in inventories {
        assert!(traits[&host] < line, "{host}");
    }
}
