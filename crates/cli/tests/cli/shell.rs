//! `placewright completions` and `placewright man`.

use std::process::Command;

use crate::common::run;

#[test]
fn completions_name_commands_and_options() {
    for (shell, beginning) in [
        ("bash", "_placewright() {"),
        ("zsh", "#compdef placewright"),
        ("fish", "#"),
    ] {
        let (code, script, error) = run(&["completions", shell]);
        assert_eq!(code, 0, "{error}");
        assert!(script.starts_with(beginning), "{shell}: {script}");
        for word in ["fits", "topology", "scheduler-url"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let (code, _, error) = run(&["completions", "tcsh"]);
    assert_eq!(code, 2);
    assert!(error.contains("tcsh"), "{error}");
}

#[test]
fn bash_takes_the_completions() {
    let (_, script, _) = run(&["completions", "bash"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), script).unwrap();
    let test = "source \"$1\"; COMP_WORDS=(placewright fi); COMP_CWORD=1; \
                _placewright placewright fi placewright; echo \"${COMPREPLY[@]}\"";
    let path = file.path().as_os_str();
    let bash = Command::new("bash")
        .args(["-c", test, "bash"])
        .arg(path)
        .output();
    let completed = String::from_utf8(bash.unwrap().stdout).unwrap();
    assert_eq!(completed.trim(), "fits");
}

#[test]
fn there_is_a_manual_page_of_each_command() {
    let (code, page, error) = run(&["man"]);
    assert_eq!(code, 0, "{error}");
    assert!(page.contains(".TH placewright 1"), "{page}");
    assert!(page.contains("placewright\\-fits(1)"), "{page}");
    let (code, page, error) = run(&["man", "topology", "apply"]);
    assert_eq!(code, 0, "{error}");
    assert!(page.contains("\\-\\-replace"), "{page}");
    let (code, _, error) = run(&["man", "nothing"]);
    assert_eq!(code, 2);
    assert!(error.contains("there is no command"), "{error}");
}
