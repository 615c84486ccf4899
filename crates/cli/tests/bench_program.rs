//! `placewright bench` and `placewright replay` are carried out by the program beside this one.

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
fn arguments_go_to_the_other_program_as_they_are() {
    let direct = env!("CARGO_BIN_EXE_placewright-bench");
    for (name, same) in [
        (&["bench", "http", "--help"][..], &["http", "--help"][..]),
        (&["bench", "--help"], &["--help"]),
        (&["replay", "--help"], &["replay", "--help"]),
        (
            &["bench", "races", "--full", "7"],
            &["races", "--full", "7"],
        ),
        (&["replay", "--no-such-flag"], &["replay", "--no-such-flag"]),
    ] {
        let (through_program, other) = (run(PROGRAM, name), run(direct, same));
        assert_eq!(
            through_program.status.code(),
            other.status.code(),
            "{name:?}"
        );
        assert_eq!(
            text(&through_program.stdout),
            text(&other.stdout),
            "{name:?}"
        );
        assert_eq!(
            text(&through_program.stderr),
            text(&other.stderr),
            "{name:?}"
        );
        assert!(text(&through_program.stdout).len() + text(&through_program.stderr).len() > 100);
    }
}

#[test]
fn without_the_other_program_its_absence_is_named() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let alone = directory.path().join("placewright");
    // A copy would be open for writing in what other tests start meanwhile, and could not be executed.
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
