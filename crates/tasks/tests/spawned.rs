//! All tasks and threads are started through this crate, so that every long-lived one is supervised.
//!
//! The test reads the sources without their unit tests, whose panics need not end the process. Files that start tasks in
//! another way have to be in the list below, with the reason why they need no supervision.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Calls that start tasks or threads without this crate. Of `JoinSet` only the constructor is listed.
const UNSUPERVISED_CALLS: [&str; 6] = [
    "tokio::spawn(",
    "thread::spawn(",
    "thread::Builder::new()",
    "JoinSet::new()",
    "task::spawn(",
    "runtime.spawn(",
];

/// Where such calls are allowed: the beginning of the path, the maximum number, and the reason.
const ALLOWED: &[(&str, usize, &str)] = &[
    ("agent/src/agent.rs", 3, "each in `supervise`"),
    (
        "agent/src/command/process.rs",
        2,
        "read the output of a process, which is awaited",
    ),
    (
        "auth/src/single_flight.rs",
        2,
        "requests to Keystone, which are awaited; a panic is an error there",
    ),
    (
        "cell/src/claim_requests.rs",
        1,
        "calls to placement, each in `contain_panic`",
    ),
    (
        "bench/src",
        usize::MAX,
        "benchmarks and test clients, which are not part of a role",
    ),
    ("roles/src/control/api_threads.rs", 1, "each in `supervise`"),
    ("roles/src/control/replica.rs", 1, "in `supervise`"),
    ("roles/src/up.rs", 2, "each in `supervise`"),
    (
        "secrets/src/source.rs",
        1,
        "reads the output of the key command, which is awaited",
    ),
    ("testing/src", usize::MAX, "used by tests only"),
    ("journal-testing/src", usize::MAX, "used by tests only"),
    (
        "journal-etcd/src/client.rs",
        1,
        "one request, which is awaited; after a panic its outcome is unknown",
    ),
    (
        "journal-postgresql/src/servers.rs",
        3,
        "one request, which is awaited, and a session's messages; after a panic an outcome is unknown",
    ),
    (
        "http/src/costly.rs",
        1,
        "one request in `contain_panic`, which is awaited",
    ),
    (
        "control/src/destinations",
        1,
        "one round of a request, and its undo, which are awaited",
    ),
];

/// The sources below a folder without `tests.rs`, which is the unit tests of the module beside it.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.file_name().is_some_and(|name| name != "tests.rs")
        {
            found.push(path);
        }
    }
}

/// A source without the unit tests at its end.
fn without_unit_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap()
}

#[test]
fn a_module_of_unit_tests_is_built_for_tests_only() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(
            text.matches("mod tests;").count(),
            text.matches("#[cfg(test)]\nmod tests;").count(),
            "{}",
            file.display()
        );
    }
}

#[test]
fn every_task_is_supervised_or_listed_with_a_reason() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() && !source.starts_with(crates.join("tasks")) {
            sources(&source, &mut files);
        }
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let count: usize = UNSUPERVISED_CALLS
            .iter()
            .map(|call| without_unit_tests(&text).matches(call).count())
            .sum();
        let name = file.strip_prefix(crates).unwrap().display().to_string();
        if count > 0 {
            counts.insert(name, count);
        }
    }
    let mut wrong = Vec::new();
    for (name, count) in &counts {
        let allowed = ALLOWED.iter().find(|(path, _, _)| name.starts_with(path));
        match allowed {
            Some((_, count_max, _)) if count <= count_max => {}
            Some((_, count_max, _)) => {
                wrong.push(format!("{name}: {count}, and {count_max} are allowed"));
            }
            None => wrong.push(format!("{name}: {count}, and none is allowed")),
        }
    }
    assert!(
        wrong.is_empty(),
        "start tasks with placewright_tasks (spawn, Tasks, spawn_thread; spawn_contained for those of \
         one caller), or say in {} why not:\n{}",
        file!(),
        wrong.join("\n")
    );
}
