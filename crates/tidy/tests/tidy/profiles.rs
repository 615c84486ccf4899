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
    assert_eq!(release["lto"].as_str(), Some("thin"), "lto in releases");
    // Without a level, that of releases is 3.
    let is_full = |level: Option<&Value>| level.is_none_or(|level| level.as_integer() == Some(3));
    assert!(is_full(release.get("opt-level")), "opt-level in releases");
    let mut programs = 0;
    for directory in fs::read_dir(workspace().join("crates")).expect("it can be read") {
        let directory = directory.expect("it can be read").path();
        let Ok(package) = read_toml(&directory.join("Cargo.toml")) else {
            continue;
        };
        let sources = directory.join("src");
        let has_program = package.get("bin").is_some()
            || sources.join("main.rs").exists()
            || sources.join("bin").exists();
        if has_program {
            let name = package["package"]["name"].as_str().expect("it has a name");
            let profile = release["package"].get(name);
            let level = profile.and_then(|profile| profile.get("opt-level"));
            assert!(is_full(level), "opt-level of {name} in releases");
            programs += 1;
        }
    }
    assert!(programs > 0, "no package has a program");
}
