//! Settings that are allowed but probably not intended: `config check` prints what a start logs. Also flags that
//! a command does not read.

use crate::common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use common::{Control, run};

fn write(path: &Path, text: &str, mode: u32) -> String {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn check_prints_what_a_start_warns_about() {
    let directory = tempfile::tempdir().unwrap();
    let path_of = |name: &str| directory.path().join(name);
    // A misspelt name, a file with a secret that everybody can read, a section without effect.
    let policy = write(
        &path_of("policy.yaml"),
        "\"placement:resource_providers:lst\": \"@\"\n",
        0o644,
    );
    let token = write(&path_of("token"), "0123456789abcdef\n", 0o644);
    let users = write(&path_of("users"), "", 0o600);
    let flags = [
        "--policy-file",
        &policy,
        "--control-token-file",
        &token,
        "--http-basic-user-file",
        &users,
    ];
    let check = |further_flags: &[&str]| {
        let arguments = ["config", "check", "--config", "/dev/null"];
        let arguments: Vec<&str> = arguments
            .iter()
            .chain(&flags)
            .chain(further_flags)
            .copied()
            .collect();
        run(&arguments)
    };
    let (code, stdout, stderr) = check(&[]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("no errors, 3 warnings"), "{stdout}");
    let expected = [
        "did you mean placement:resource_providers:list?",
        "control.token_file: everybody on this machine may read",
        "[http_basic] is configured, but auth.strategy is noauth2",
    ];
    for text in expected {
        assert!(stderr.contains(text), "{text}: {stderr}");
    }
    assert_eq!(check(&["--strict"]).0, 2);

    let mut control = Control::spawn(&path_of("store"), &flags, &[]);
    let log = control.lines_up_to("ready");
    for text in expected {
        assert!(log.contains(text), "{text}: {log}");
    }
}

#[test]
fn a_correct_configuration_has_no_warnings() {
    let (code, stdout, stderr) = run(&["config", "check", "--strict", "--config", "/dev/null"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.ends_with("no errors\n"), "{stdout}");
    let (code, _, stderr) = run(&[
        "config",
        "check",
        "cell",
        "--strict",
        "--config",
        "/dev/null",
    ]);
    assert_eq!((code, stderr.as_str()), (0, ""));
}

#[test]
fn stores_and_secret_files_that_others_can_read_give_warnings() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    fs::create_dir(&store).unwrap();
    fs::set_permissions(&store, fs::Permissions::from_mode(0o755)).unwrap();
    write(&store.join("journal.sqlite"), "", 0o644);
    let text = "[agent]\nplacement_token = 'secret'\n";
    let config = write(&directory.path().join("placewright.toml"), text, 0o644);
    let store = store.to_str().unwrap();
    let arguments = [
        "config",
        "check",
        "--config",
        &config,
        "--store-path",
        store,
    ];
    let (code, _, stderr) = run(&arguments);
    assert_eq!(code, 0);
    assert!(stderr.contains("1 files of the store"), "{stderr}");
    assert!(
        stderr.contains("agent.placement_token is in it"),
        "{stderr}"
    );
    write(&directory.path().join("placewright.toml"), text, 0o600);
    for mode in [0o640, 0o660] {
        write(&Path::new(store).join("journal.sqlite"), "", mode);
        let (_, _, stderr) = run(&arguments);
        assert!(stderr.contains("1 files of the store"), "{stderr}");
    }
    write(&Path::new(store).join("journal.sqlite"), "", 0o600);
    let (_, _, stderr) = run(&arguments);
    assert_eq!(stderr, "");
}

#[test]
fn the_group_may_read_only_those_secrets_that_an_operator_made() {
    let directory = tempfile::tempdir().unwrap();
    let path_of = |name: &str| directory.path().join(name);
    let check = |mode: u32| {
        let token = write(&path_of("token"), "0123456789abcdef\n", mode);
        write(&path_of("ca-key.pem"), "", mode);
        write(&path_of("identity.pem"), "", mode);
        write(&path_of("tls.key"), "", mode);
        let folder = directory.path().to_str().unwrap();
        let flags = [
            ["--control-token-file", token.as_str()],
            ["--control-identity-path", folder],
            ["--control-authority-path", folder],
        ];
        let check = ["config", "check", "--config", "/dev/null"];
        let (_, _, stderr) = run(&[&check[..], flags.as_flattened()].concat());
        ["token", "ca-key.pem", "identity.pem", "tls.key"].map(|name| {
            let file = path_of(name).to_str().unwrap().to_owned();
            stderr.lines().any(|line| line.contains(&file))
        })
    };
    assert_eq!(check(0o600), [false, false, false, false]);
    assert_eq!(check(0o640), [false, true, true, false]);
    assert_eq!(check(0o660), [true, true, true, true]);
    assert_eq!(check(0o604), [true, true, true, true]);
}

#[test]
fn passwords_over_http_on_an_open_address_give_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let users = write(&directory.path().join("users"), "", 0o600);
    let check = |listen: &str| {
        let (_, _, stderr) = run(&[
            "config",
            "check",
            "--config",
            "/dev/null",
            "--auth-strategy",
            "http_basic",
            "--http-basic-user-file",
            &users,
            "--compute-listen",
            listen,
        ]);
        stderr
    };
    let warnings = check("192.0.2.1:8774");
    assert!(
        warnings.contains("compute.listen: 192.0.2.1:8774 speaks HTTP"),
        "{warnings}"
    );
    assert!(!check("127.0.0.1:8774").contains("speaks HTTP"));
}

#[test]
fn executables_that_everybody_may_write_give_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let (commands, state) = (
        directory.path().join("commands"),
        directory.path().join("state"),
    );
    fs::create_dir(&commands).unwrap();
    for name in ["inspect", "list", "spawn", "destroy"] {
        write(&commands.join(name), "#!/bin/sh\n", 0o755);
    }
    let text = commands.to_str().unwrap();
    let check = || {
        let (_, _, stderr) = run(&[
            "config",
            "check",
            "agent",
            "--config",
            "/dev/null",
            "--agent-driver",
            "command",
            "--agent-commands",
            text,
            "--agent-state-path",
            state.to_str().unwrap(),
        ]);
        stderr
    };
    assert!(!check().contains("agent.commands"), "{}", check());
    fs::set_permissions(commands.join("spawn"), fs::Permissions::from_mode(0o777)).unwrap();
    let warnings = check();
    assert!(
        warnings.contains("agent.commands: everybody on this machine may write"),
        "{warnings}"
    );
}

#[test]
fn files_that_roles_rely_on_and_that_everybody_may_write_give_warnings() {
    let directory = tempfile::tempdir().unwrap();
    let path_of = |name: &str| directory.path().join(name);
    let rules = write(&path_of("rules.toml"), "", 0o646);
    let images = write(&path_of("images.json"), r#"{"images": []}"#, 0o666);
    let profiles = write(
        &path_of("profiles.json"),
        r#"{"device_profiles": []}"#,
        0o646,
    );
    let policy = write(&path_of("policy.yaml"), "", 0o642);
    let nodes = write(
        &path_of("nodes.csv"),
        "sn,cpu_milli,memory_mib,gpu,model\nn1,1000,1024,0,\n",
        0o646,
    );
    let control = [
        "--scheduler-rules-file",
        &rules,
        "--compute-images-file",
        &images,
        "--compute-device-profiles-file",
        &profiles,
    ];
    let control = [&control[..], &["--policy-file", &policy]].concat();
    let agent = ["--agent-nodes-file", &nodes];
    for (role, flags, expected) in [
        (
            "control",
            &control[..],
            &[
                "scheduler.rules_file",
                "compute.images_file",
                "compute.device_profiles_file",
                "policy.file",
            ][..],
        ),
        ("agent", &agent, &["agent.nodes_file"]),
    ] {
        let arguments = [&["config", "check", role, "--config", "/dev/null"], flags].concat();
        let (code, _, stderr) = run(&arguments);
        assert_eq!(code, 0, "{stderr}");
        for key in expected {
            let text = format!("{key}: everybody on this machine may write");
            assert!(stderr.contains(&text), "{text}: {stderr}");
        }
    }
}

#[test]
fn files_of_the_compute_api_are_read_by_the_check() {
    for (flag, key) in [
        ("--compute-images-file", "compute.images_file"),
        (
            "--compute-device-profiles-file",
            "compute.device_profiles_file",
        ),
    ] {
        let flag = format!("{flag}=/nowhere/file");
        let arguments = ["config", "check", "control", "--config", "/dev/null", &flag];
        let (code, _, stderr) = run(&arguments);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(key), "{stderr}");
        assert!(stderr.contains("/nowhere/file"), "{stderr}");
    }
}

#[test]
fn flags_that_a_command_does_not_read_are_refused() {
    for (command, flag, reading_commands) in [
        ("up", "--cell-listen=127.0.0.1:1", "`placewright cell`"),
        ("control", "--agent-hosts=1", "`placewright agent`"),
        (
            "agent",
            "--placement-listen=127.0.0.1:1",
            "`placewright control`, `placewright up`",
        ),
        (
            "cell",
            "--store-path=/nowhere",
            "`placewright control`, `placewright up`",
        ),
    ] {
        let (code, _, stderr) = run(&[command, "--config", "/dev/null", flag]);
        assert_eq!(code, 2, "{command} {flag}: {stderr}");
        assert!(
            stderr.contains(reading_commands),
            "{command} {flag}: {stderr}"
        );
    }
}

#[test]
fn help_shows_what_the_command_reads() {
    let sections = |command: &str| {
        let (_, help, _) = run(&[command, "--help"]);
        let lines = help.lines().filter(|line| line.starts_with('['));
        lines
            .map(|line| line.trim_end_matches(':').to_owned())
            .collect::<Vec<_>>()
    };
    let of_agent = ["[agent]", "[keystone]", "[secrets]", "[traces]", "[log]"];
    assert_eq!(sections("agent"), of_agent);
    let of_cell = [
        "[cell]",
        "[store]",
        "[secrets]",
        "[tls]",
        "[auth]",
        "[audit]",
        "[traces]",
        "[log]",
    ];
    assert_eq!(sections("cell"), of_cell);
    let up = sections("up");
    assert_eq!(up[..3], ["[placement]", "[compute]", "[scheduler]"]);
    assert!(!up.contains(&"[cell]".to_owned()) && !up.contains(&"[agent]".to_owned()));
}

#[test]
fn keys_and_variables_of_other_commands_are_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let text = "[cell]\nlisten = '127.0.0.1:1'\n[agent]\nhosts = 3\n";
    let config = write(&directory.path().join("placewright.toml"), text, 0o600);
    let output = common::placewright(&["config", "check", "--strict", "--config", &config])
        .env("PLACEWRIGHT_AGENT_HOSTS", "4")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
