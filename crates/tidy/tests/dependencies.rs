//! Licences, banned crates and sources of all dependencies, by `deny.toml`. The same is checked by
//! `cargo deny check`, which is not installed everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use placewright_tidy::manifests::table;
use placewright_tidy::source::workspace;
use toml::{Table, Value};

fn deny(section: &str, key: &str) -> Vec<Value> {
    let file = table(&workspace().join("deny.toml")).expect("it can be read");
    let list = file
        .get(section)
        .and_then(|section| section.get(key))
        .and_then(Value::as_array);
    list.unwrap_or_else(|| panic!("deny.toml has no {section}.{key}"))
        .clone()
}

fn texts(values: Vec<Value>) -> BTreeSet<String> {
    values
        .into_iter()
        .filter_map(|value| value.as_str().map(str::to_owned))
        .collect()
}

/// The packages of Cargo.lock.
fn locked() -> Vec<Table> {
    let lock = table(&workspace().join("Cargo.lock")).expect("it can be read");
    let packages = lock
        .get("package")
        .and_then(Value::as_array)
        .expect("it has packages");
    packages
        .iter()
        .filter_map(|package| package.as_table().cloned())
        .collect()
}

fn text<'p>(package: &'p Table, key: &str) -> &'p str {
    package.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The licence of every package that is built on this platform, by name and version.
fn licences() -> BTreeMap<String, String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let about = Command::new(rustc)
        .arg("-vV")
        .output()
        .expect("rustc runs")
        .stdout;
    let about = String::from_utf8_lossy(&about);
    let host = about
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("it says so");
    // Only what is built here has been downloaded for certain.
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            host,
        ])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let packages = metadata["packages"].as_array().expect("it has packages");
    let entry = |package: &serde_json::Value| {
        let part = |key: &str| package[key].as_str().unwrap_or("none").to_owned();
        (
            format!("{} {}", part("name"), part("version")),
            part("license"),
        )
    };
    packages.iter().map(entry).collect()
}

/// Whether an expression of licences, as in SPDX and as in older manifests, can be met with those
/// that are allowed. `AND` binds more tightly than `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ");
    if let Some((before, inner, after)) = innermost(&expression) {
        // What is in brackets counts as one licence, which is allowed or not.
        let mut allowed = allowed.clone();
        let verdict = if is_allowed(inner, &allowed) {
            "yes"
        } else {
            "no"
        };
        allowed.insert("yes".to_owned());
        return is_allowed(&format!("{before} {verdict} {after}"), &allowed);
    }
    expression.split(" OR ").any(|choice| {
        choice
            .split(" AND ")
            .all(|licence| allowed.contains(licence.trim()))
    })
}

fn innermost(expression: &str) -> Option<(&str, &str, &str)> {
    let close = expression.find(')')?;
    let open = expression[..close].rfind('(')?;
    Some((
        &expression[..open],
        &expression[open + 1..close],
        &expression[close + 1..],
    ))
}

#[test]
fn every_licence_is_one_of_those_allowed() {
    let allowed = texts(deny("licenses", "allow"));
    let licences = licences();
    assert!(licences.len() > 100, "only {} packages", licences.len());
    let refused: Vec<_> = licences
        .iter()
        .filter(|(_, licence)| !is_allowed(licence, &allowed))
        .collect();
    assert!(
        refused.is_empty(),
        "deny.toml does not allow the licences of {refused:#?}"
    );
}

#[test]
fn no_banned_crate_is_locked() {
    let banned: BTreeSet<String> = deny("bans", "deny")
        .iter()
        .filter_map(|ban| Some(ban.get("crate")?.as_str()?.to_owned()))
        .collect();
    assert!(!banned.is_empty(), "deny.toml bans nothing");
    let locked = locked();
    let found: Vec<&str> = locked
        .iter()
        .map(|package| text(package, "name"))
        .filter(|name| banned.contains(*name))
        .collect();
    assert!(
        found.is_empty(),
        "deny.toml bans {found:?}, which Cargo.lock has"
    );
}

#[test]
fn everything_comes_from_the_registries_allowed() {
    let allowed: BTreeSet<String> = texts(deny("sources", "allow-registry"))
        .into_iter()
        .map(|registry| format!("registry+{registry}"))
        .collect();
    for package in locked() {
        let (name, source) = (text(&package, "name"), text(&package, "source"));
        if source.is_empty() {
            assert!(
                name.starts_with("placewright-"),
                "{name} comes from a folder"
            );
        } else {
            assert!(allowed.contains(source), "{name} comes from {source}");
        }
    }
}

#[test]
fn expressions_of_licences_are_understood() {
    let allowed = [
        "MIT",
        "Apache-2.0",
        "Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
    ];
    let allowed = allowed.map(str::to_owned).into();
    for expression in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0 OR MIT",
        "GPL-3.0 / MIT",
        "(MIT OR GPL-3.0) AND Unicode-3.0",
        "GPL-3.0 OR (MIT AND (Unicode-3.0 OR ISC))",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
    ] {
        assert!(is_allowed(expression, &allowed), "{expression}");
    }
    for expression in [
        "none",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR ISC) AND GPL-3.0",
        "(ISC)",
    ] {
        assert!(!is_allowed(expression, &allowed), "{expression}");
    }
}
