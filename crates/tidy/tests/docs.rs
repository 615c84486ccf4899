//! What the pages for contributors, and the one on security, name is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use placewright_tidy::manifests;
use placewright_tidy::source::workspace;

/// Decision records are not among them: what they name was there when they were made.
const PAGES: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/ranking.md",
    "docs/security.md",
    "tests/README.md",
];

/// The pages that name source files without the way to them.
const MAPS: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/ranking.md"];

/// What a path from the root of the workspace begins with.
const FOLDERS: [&str; 5] = ["crates/", "tests/", "docs/", "packaging/", "examples/"];

fn read(page: &str) -> String {
    fs::read_to_string(workspace().join(page)).expect("it can be read")
}

/// What is written as code on one line, and where links go.
fn quoted(page: &str) -> BTreeSet<String> {
    let code = page
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let links = page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next());
    code.chain(links).map(str::to_owned).collect()
}

#[test]
fn every_path_that_a_page_names_exists() {
    let mut gone = Vec::new();
    for page in PAGES {
        for quoted in quoted(&read(page)) {
            // A path may have arguments behind it, and may stand for several with `*`.
            let path = quoted.split_whitespace().next().unwrap_or_default();
            // The map of a crate names its own tests.
            let is_of_crate = path.starts_with("tests/") && path.ends_with(".rs");
            let is_path = !is_of_crate && FOLDERS.iter().any(|folder| path.starts_with(folder));
            let path = path.split('*').next().unwrap_or_default();
            if is_path && !workspace().join(path).exists() {
                gone.push(format!("{page} names {path}"));
            }
        }
    }
    assert!(gone.is_empty(), "not there any more:\n{}", gone.join("\n"));
}

/// The paths of all source files from the root of the workspace.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path.to_string_lossy().into_owned());
        }
    }
}

#[test]
fn every_source_file_that_a_map_names_exists() {
    let mut files = Vec::new();
    sources(&workspace().join("crates"), &mut files);
    let is_there = |name: &str| files.iter().any(|file| file.ends_with(&format!("/{name}")));
    let of_page = |page: &str| -> Vec<String> {
        quoted(&read(page))
            .into_iter()
            .filter(|quoted| quoted.ends_with(".rs") && !quoted.contains([' ', '*', '{']))
            .filter(|name| !is_there(name.trim_start_matches("../")))
            .map(|name| format!("{page} names {name}"))
            .collect()
    };
    let gone: Vec<String> = MAPS.into_iter().flat_map(of_page).collect();
    assert!(gone.is_empty(), "not there any more: {gone:?}");
}

#[test]
fn every_crate_is_listed_for_contributors() {
    let page = read("CONTRIBUTING.md");
    let crates = manifests::crates(&workspace()).expect("the manifests can be read");
    let missing: Vec<_> = crates
        .keys()
        .filter(|name| !page.contains(&format!("| `crates/{name}` |")))
        .collect();
    assert!(
        missing.is_empty(),
        "CONTRIBUTING.md does not list the crates {missing:?}"
    );
}

#[test]
fn every_decision_is_listed_and_numbered() {
    let index = read("docs/decisions/README.md");
    let folder = fs::read_dir(workspace().join("docs/decisions")).expect("it can be read");
    let names = folder.map(|entry| entry.expect("it can be read").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.retain(|name| name != "README.md");
    names.sort();
    for (at, name) in names.iter().enumerate() {
        assert!(
            name.starts_with(&format!("{:04}-", at + 1)),
            "{name} has another number"
        );
        assert!(
            index.contains(&format!("({name})")),
            "docs/decisions/README.md lacks {name}"
        );
        let record = read(&format!("docs/decisions/{name}"));
        for part in [
            "## Context",
            "## Decision",
            "## Consequences",
            "## What else was weighed",
        ] {
            assert!(record.contains(part), "{name} has no part {part:?}");
        }
    }
}
