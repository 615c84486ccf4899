//! Arrows only go down: between crates, by the table "Levels" of ARCHITECTURE.md, and between the
//! modules of a crate, which use one another in no circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use placewright_tidy::known::{Entries, hold};
use placewright_tidy::manifests::{self, Uses};
use placewright_tidy::mentions::mentions;
use placewright_tidy::modules::{Circle, Modules};
use placewright_tidy::source::{rust_files, workspace};

/// The level of the services that speak HTTP, in the table of levels.
const HTTP_LEVEL: &str = "APIs";

/// What only a service or a client that speaks HTTP needs.
const HTTP: [&str; 10] = [
    "axum",
    "http",
    "http-body",
    "http-body-util",
    "hyper",
    "hyper-util",
    "matchit",
    "reqwest",
    "tonic",
    "tower",
];

/// The crates that do without the scheduler: they decide nothing about places.
const NO_SCHEDULER: [&str; 3] = ["agent", "cell", "client"];

/// The commands that claim a ranked candidate.
const CLAIMS: [[&str; 2]; 2] = [["Command", "ClaimFirst"], ["Command", "Place"]];

/// The crates that decide these commands, and so have to name them.
const DECIDERS: [&str; 2] = ["crates/placement/", "crates/conductor/"];

/// The levels of ARCHITECTURE.md, the highest first, with their crates.
fn levels() -> Vec<(String, BTreeSet<String>)> {
    let page = fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("it can be read");
    let (_, section) = page
        .split_once("\n## Levels\n")
        .expect("it has a section \"Levels\"");
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1);
    let levels: Vec<_> = rows
        .filter_map(|row| {
            let mut cells = row.trim_matches('|').split('|');
            let name = cells.next()?.trim().to_owned();
            let crates = cells
                .next()?
                .split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned);
            Some((name, crates.collect::<BTreeSet<String>>()))
        })
        .filter(|(_, crates)| !crates.is_empty())
        .collect();
    assert!(
        levels.len() > 2,
        "the table of levels has {} rows",
        levels.len()
    );
    levels
}

fn crates() -> BTreeMap<String, Uses> {
    manifests::crates(&workspace()).expect("the manifests can be read")
}

#[test]
fn every_crate_has_one_level() {
    let mut listed = BTreeMap::new();
    for (level, crates) in levels() {
        for name in crates {
            if let Some(other) = listed.insert(name.clone(), level.clone()) {
                panic!("`{name}` is in two levels of ARCHITECTURE.md: {other}, {level}");
            }
        }
    }
    let there: BTreeSet<String> = crates().into_keys().collect();
    let listed: BTreeSet<String> = listed.into_keys().collect();
    let missing: Vec<_> = there.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&there).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "the table \"Levels\" of ARCHITECTURE.md lacks {missing:?}, and names {gone:?}, which do \
         not exist"
    );
}

#[test]
fn no_crate_uses_one_above_it() {
    let levels = levels();
    let level = |name: &str| levels.iter().position(|(_, crates)| crates.contains(name));
    let mut up = Vec::new();
    for (name, uses) in crates() {
        for used in uses.own {
            if level(&used) < level(&name) {
                up.push(format!("{name} uses {used}"));
            }
        }
    }
    assert!(up.is_empty(), "arrows up: {up:#?}");
}

#[test]
fn what_is_below_the_apis_knows_no_http() {
    let crates = crates();
    let levels = levels();
    let (_, apis) = levels
        .iter()
        .find(|(name, _)| name == HTTP_LEVEL)
        .expect("APIs are a level");
    let mut found = Vec::new();
    let mut below = manifests::closure(&crates, "control");
    below.insert("control".to_owned());
    for name in below {
        if apis.contains(&name) {
            found.push(format!("control links {name}"));
        } else {
            for used in crates[&name]
                .others
                .iter()
                .filter(|used| HTTP.contains(&used.as_str()))
            {
                found.push(format!("control links {used} through {name}"));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn agents_and_cells_do_not_link_the_scheduler() {
    let crates = crates();
    let links_scheduler = |name| manifests::closure(&crates, name).contains("scheduler");
    // A scheduler that nothing links would have another name.
    assert!(links_scheduler("control"), "control links no `scheduler`");
    for name in NO_SCHEDULER {
        assert!(
            crates.contains_key(name),
            "no crate `{name}`: name its successor here"
        );
        assert!(!links_scheduler(name), "`{name}` links the scheduler");
    }
}

/// To rank, claim, and go on to the next candidate is one piece of code, for all that need it.
#[test]
fn ranked_candidates_are_claimed_in_one_place() {
    let mut found = Entries::new();
    for file in rust_files(&workspace()).expect("the sources can be read") {
        let product = file.path.contains("/src/") && !file.path.ends_with("/tests.rs");
        if !product
            || DECIDERS
                .iter()
                .any(|decider| file.path.starts_with(decider))
        {
            continue;
        }
        let named = CLAIMS
            .iter()
            .map(|path| mentions(&file, path).expect("it is Rust"));
        let named: usize = named.sum();
        if named > 0 {
            found.insert(file.path, named);
        }
    }
    if let Err(advice) = hold("claims.txt", &found) {
        panic!("{advice}");
    }
}

#[test]
fn no_modules_of_a_crate_use_one_another_in_a_circle() {
    let mut found = String::new();
    for (name, modules) in all_modules() {
        for circle in modules.circles() {
            found += &format!("{name}: {}\n", describe(&circle));
        }
    }
    assert!(
        found.is_empty(),
        "circles:\n{found}What closes one is shown by\n\n    \
         cargo run -p placewright-tidy --example circles CRATE\n"
    );
}

/// The modules of each crate's library and program, by the crate's folder.
fn all_modules() -> Vec<(String, Modules)> {
    let mut found = Vec::new();
    let folders = fs::read_dir(workspace().join("crates")).expect("it can be read");
    for folder in folders {
        let folder = folder.expect("it can be read").path();
        for root in ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root)) {
            if root.is_file() {
                let name = folder
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                let modules = Modules::read(&root).expect("the modules can be read");
                found.push((name, modules));
            }
        }
    }
    let files: usize = found.iter().map(|(_, modules)| modules.files()).sum();
    assert!(files > 300, "only {files} modules found");
    found
}

fn describe(circle: &Circle) -> String {
    format!(
        "{} files: {}",
        circle.members.len(),
        circle.members.join(" ")
    )
}
