//! `placewright pki`.

use crate::common::run;

#[test]
fn a_mistyped_name_or_serial_number_beside_a_right_one_revokes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let pki = |arguments: &[&str]| {
        let (command, rest) = arguments.split_first().unwrap();
        run(&[&["pki", command, "--pki", &at("pki")], rest].concat())
    };
    let works = |arguments: &[&str]| {
        let (code, text, error) = pki(arguments);
        assert_eq!(code, 0, "{arguments:?}: {error}");
        text
    };
    works(&["init", "--installation", "test"]);
    works(&["issue", "--role=cell", "--cell=c1", "--out", &at("c1")]);
    works(&["invite", "--role=cell", "--cell=c2"]);
    let (issued, invited) = ("placewright://test/cell/c1", "placewright://test/cell/c2");
    let mistyped = "placewright://test/cell/c11";
    for unknown in [["--name", mistyped], ["--serial", "4f1c"]] {
        let right = ["revoke", "--name", issued, "--name", invited];
        let (code, text, error) = pki(&[&right[..], &unknown].concat());
        assert_eq!((code, text.as_str()), (1, ""), "{error}");
        assert!(
            error.contains(&format!("{}; nothing", unknown[1])),
            "{error}"
        );
    }
    let text = works(&["revoke", "--name", issued, "--name", invited]);
    assert!(
        text.contains("revoked") && text.contains("withdrew"),
        "{text}"
    );
}
