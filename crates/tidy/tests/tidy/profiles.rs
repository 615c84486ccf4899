//! How releases are built.

use std::fs;

use placewright_tidy::manifests::read_toml;
use placewright_tidy::source::workspace;
use toml::Value;

/// With `lto`, the whole program is optimized at the level of the package that has the program, whatever the levels of
/// the others: at level `s` no loop is vectorized. On processors without AVX-512 a refusal then takes 1.7 times as
/// long.
#[test]
fn programs_are_not_optimized_for_size_in_releases() {
    let manifest = read_toml(&workspace().join("Cargo.toml")).expect("it can be read");
    let release = &manifest["profile"]["release"];
    assert_eq!(release["lto"].as_str(), Some("thin"));
    assert!(release.get("opt-level").is_none(), "the default is 3");
    let mut programs = 0;
    for directory in fs::read_dir(workspace().join("crates")).expect("it can be read") {
        let directory = directory.expect("it can be read").path();
        let package = read_toml(&directory.join("Cargo.toml")).expect("it can be read");
        if package.get("bin").is_none() && !directory.join("src/main.rs").exists() {
            continue;
        }
        let name = package["package"]["name"].as_str().expect("it has a name");
        let level = release["package"]
            .get(name)
            .and_then(|package| package.get("opt-level"));
        assert_eq!(level, None::<&Value>, "{name}");
        programs += 1;
    }
    assert!(programs > 0, "no package has a program");
}
