//! `placewright bench` and `placewright replay` are carried out by the program `placewright-bench` beside it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_placewright");

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn arguments_are_passed_on_to_the_bench_program_as_they_are() {
    let bench_program = env!("CARGO_BIN_EXE_placewright-bench");
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
        let direct = run(bench_program, bench_arguments);
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
