//! `placewright secrets`.

use crate::common::run;

#[test]
fn a_key_is_not_taken_for_unused_if_the_store_is_on_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (config, key_file) = (at("config.toml"), at("key"));
    let (code, _, error) = run(&["secrets", "new-key", "--file", &key_file]);
    assert_eq!(code, 0, "{error}");
    for (section, option, role) in [
        ("store", "url", None),
        ("cell", "store_url", Some("--cell")),
    ] {
        let text = format!(
            "[secrets]\nkey_file = \"{key_file}\"\n[{section}]\n{option} = \"postgresql://u@127.0.0.1:1/x\"\n"
        );
        std::fs::write(&config, text).unwrap();
        let secrets = |arguments: &[&str]| {
            let role = role.as_slice();
            run(&[&["secrets"], arguments, role, &["--config", &config]].concat())
        };
        assert_eq!(secrets(&["rotate"]).0, 0);
        let (code, table, error) = secrets(&["show"]);
        assert_eq!(code, 0, "{error}");
        let older = table.lines().find(|line| line.contains("older")).unwrap();
        assert!(older.ends_with('?'), "{table}");
        let key = older.split_whitespace().next().unwrap();
        let (code, _, error) = secrets(&["remove", key]);
        assert_eq!(code, 1);
        assert!(error.contains(&format!("{section}.{option}")), "{error}");
        assert!(secrets(&["show"]).1.contains(key), "the key is still there");
        assert_eq!(secrets(&["remove", key, "--even-if-used"]).0, 0);
        assert!(!secrets(&["show"]).1.contains(key));
    }
}
