//! Checks the licences, banned crates and sources of all dependencies with `deny.toml`, as
//! `cargo deny check` does, which is not installed everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use placewright_tidy::manifests::read_toml;
use placewright_tidy::source::workspace;
use toml::{Table, Value};

/// The list with this key in a section of deny.toml.
fn deny_list(section: &str, key: &str) -> Vec<Value> {
    let file = read_toml(&workspace().join("deny.toml")).expect("it can be read");
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
fn locked_packages() -> Vec<Table> {
    let lock = read_toml(&workspace().join("Cargo.lock")).expect("it can be read");
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
    let version_text = Command::new(rustc)
        .arg("-vV")
        .output()
        .expect("rustc runs")
        .stdout;
    let version_text = String::from_utf8_lossy(&version_text);
    let host = version_text
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("rustc names its host");
    // Only the packages for this platform are certain to be downloaded.
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
    let name_and_licence = |package: &serde_json::Value| {
        let text_of = |key: &str| package[key].as_str().unwrap_or("none").to_owned();
        (
            format!("{} {}", text_of("name"), text_of("version")),
            text_of("license"),
        )
    };
    packages.iter().map(name_and_licence).collect()
}

/// Whether allowed licences satisfy an expression, which is as in SPDX or, in older manifests, with `/`
/// for `OR`. `AND` binds more tightly than `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ");
    if let Some((before_brackets, inner, after_brackets)) = split_innermost_brackets(&expression) {
        // The expression in brackets is replaced by a marker for one licence, which is allowed or not.
        let mut allowed = allowed.clone();
        let marker = if is_allowed(inner, &allowed) {
            "yes"
        } else {
            "no"
        };
        allowed.insert("yes".to_owned());
        return is_allowed(
            &format!("{before_brackets} {marker} {after_brackets}"),
            &allowed,
        );
    }
    expression.split(" OR ").any(|choice| {
        choice
            .split(" AND ")
            .all(|licence| allowed.contains(licence.trim()))
    })
}

fn split_innermost_brackets(expression: &str) -> Option<(&str, &str, &str)> {
    let close = expression.find(')')?;
    let open = expression[..close].rfind('(')?;
    Some((
        &expression[..open],
        &expression[open + 1..close],
        &expression[close + 1..],
    ))
}

#[test]
fn every_licence_is_allowed() {
    let allowed = texts(deny_list("licenses", "allow"));
    let licences = licences();
    assert!(licences.len() > 100, "only {} packages", licences.len());
    let disallowed: Vec<_> = licences
        .iter()
        .filter(|(_, licence)| !is_allowed(licence, &allowed))
        .collect();
    assert!(
        disallowed.is_empty(),
        "deny.toml does not allow the licences of {disallowed:#?}"
    );
}

#[test]
fn no_banned_crate_is_locked() {
    let banned: BTreeSet<String> = deny_list("bans", "deny")
        .iter()
        .filter_map(|ban| Some(ban.get("crate")?.as_str()?.to_owned()))
        .collect();
    assert!(!banned.is_empty(), "deny.toml bans nothing");
    let locked_packages = locked_packages();
    let found: Vec<&str> = locked_packages
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
fn every_package_comes_from_an_allowed_registry() {
    let allowed: BTreeSet<String> = texts(deny_list("sources", "allow-registry"))
        .into_iter()
        .map(|registry| format!("registry+{registry}"))
        .collect();
    for package in locked_packages() {
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
fn licence_expressions_are_evaluated() {
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
