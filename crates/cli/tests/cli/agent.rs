//! `placewright agent` against a placement that requires authentication.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Control, free_address, placewright, run};
use placewright_testing::keystone::{FakeKeystone, token};
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
