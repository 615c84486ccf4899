//! No crate depends on a crate of a higher level, by the table "Levels" of ARCHITECTURE.md. The dependencies between
//! the modules of a crate have no cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use placewright_tidy::known::{Sizes, check_list};
use placewright_tidy::manifests::{self, Dependencies};
use placewright_tidy::mentions::count_mentions;
use placewright_tidy::modules::{Cycle, Modules};
use placewright_tidy::source::{rust_files, workspace};

/// The level of the services that speak HTTP, in the table of levels.
const HTTP_LEVEL: &str = "APIs";

/// Crates that only a service or a client that speaks HTTP needs.
const HTTP_CRATES: [&str; 10] = [
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

/// The crates that must not depend on the scheduler, because they select no hosts.
const CRATES_WITHOUT_SCHEDULER: [&str; 3] = ["agent", "cell", "client"];

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

fn crates() -> BTreeMap<String, Dependencies> {
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
    let existing: BTreeSet<String> = crates().into_keys().collect();
    let listed: BTreeSet<String> = listed.into_keys().collect();
    let missing: Vec<_> = existing.difference(&listed).collect();
    let removed: Vec<_> = listed.difference(&existing).collect();
    assert!(
        missing.is_empty() && removed.is_empty(),
        "the table \"Levels\" of ARCHITECTURE.md lacks {missing:?}, and names {removed:?}, which do \
         not exist"
    );
}

#[test]
fn no_crate_depends_on_one_of_a_higher_level() {
    let levels = levels();
    // The highest level has the index 0.
    let level_index = |name: &str| levels.iter().position(|(_, crates)| crates.contains(name));
    let mut upward = Vec::new();
    for (name, dependencies) in crates() {
        for dependency in dependencies.workspace {
            if level_index(&dependency) < level_index(&name) {
                upward.push(format!("{name} uses {dependency}"));
            }
        }
    }
    assert!(upward.is_empty(), "arrows up: {upward:#?}");
}

#[test]
fn crates_below_the_apis_do_not_depend_on_http() {
    let crates = crates();
    let levels = levels();
    let (_, apis) = levels
        .iter()
        .find(|(name, _)| name == HTTP_LEVEL)
        .expect("APIs are a level");
    let mut violations = Vec::new();
    let mut linked = manifests::closure(&crates, "control");
    linked.insert("control".to_owned());
    for name in linked {
        if apis.contains(&name) {
            violations.push(format!("control links {name}"));
        } else {
            for dependency in crates[&name]
                .others
                .iter()
                .filter(|dependency| HTTP_CRATES.contains(&dependency.as_str()))
            {
                violations.push(format!("control links {dependency} through {name}"));
            }
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn agents_and_cells_do_not_link_the_scheduler() {
    let crates = crates();
    let links_scheduler = |name| manifests::closure(&crates, name).contains("scheduler");
    // Otherwise the scheduler's crate would have another name, and this test would find nothing.
    assert!(links_scheduler("control"), "control links no `scheduler`");
    for name in CRATES_WITHOUT_SCHEDULER {
        assert!(
            crates.contains_key(name),
            "no crate `{name}`: name its successor here"
        );
        assert!(!links_scheduler(name), "`{name}` links the scheduler");
    }
}

/// Only control's placer claims ranked candidates and goes on to the next one; everything else uses it.
/// `known/claims.txt` lists the exceptions.
#[test]
fn only_the_placer_claims_ranked_candidates() {
    let mut mention_counts = Sizes::new();
    for file in rust_files(&workspace()).expect("the sources can be read") {
        let is_product = file.path.contains("/src/") && !file.path.ends_with("/tests.rs");
        if !is_product
            || DECIDERS
                .iter()
                .any(|decider| file.path.starts_with(decider))
        {
            continue;
        }
        let count = CLAIMS
            .iter()
            .map(|path| count_mentions(&file, path).expect("it is Rust"));
        let count: usize = count.sum();
        if count > 0 {
            mention_counts.insert(file.path, count);
        }
    }
    if let Err(advice) = check_list("claims.txt", &mention_counts) {
        panic!("{advice}");
    }
}

#[test]
fn modules_of_a_crate_have_no_cycles() {
    let mut violations = String::new();
    for (name, modules) in all_modules() {
        for cycle in modules.cycles() {
            violations += &format!("{name}: {}\n", describe(&cycle));
        }
    }
    assert!(
        violations.is_empty(),
        "cycles:\n{violations}What closes one is shown by\n\n    \
         cargo run -p placewright-tidy --example cycles CRATE\n"
    );
}

/// The modules of each crate's library and program, by the crate's folder.
fn all_modules() -> Vec<(String, Modules)> {
    let mut crates = Vec::new();
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
                crates.push((name, modules));
            }
        }
    }
    let files: usize = crates.iter().map(|(_, modules)| modules.file_count()).sum();
    assert!(files > 300, "only {files} modules found");
    crates
}

fn describe(cycle: &Cycle) -> String {
    format!("{} files: {}", cycle.members.len(), cycle.members.join(" "))
}
