//! Whatever runs beside its caller is started by this crate, so that no long-lived task is forgotten.
//!
//! The sources are read: a task that is started in another way has to be in the list below, with the
//! reason why nobody misses it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Ways around this crate. `JoinSet` is looked for where it is made: what is put into it comes after.
const WAYS: [&str; 6] = [
    "tokio::spawn(",
    "thread::spawn(",
    "thread::Builder::new()",
    "JoinSet::new()",
    "task::spawn(",
    "runtime.spawn(",
];

/// Where they may be taken: the file, how often, and why.
const ALLOWED: &[(&str, usize, &str)] = &[
    ("agent/src/agent.rs", 3, "`watched` each"),
    (
        "agent/src/command/process.rs",
        2,
        "read the output of a process, which is waited for",
    ),
    (
        "auth/src/single_flight.rs",
        2,
        "requests to Keystone, which are waited for; a panic is an error there",
    ),
    (
        "cell/src/claim_requests.rs",
        1,
        "calls to placement, each `caught`",
    ),
    (
        "bench/src",
        usize::MAX,
        "measures, and drives an installation; no role",
    ),
    ("roles/src/control/api_threads.rs", 1, "`watched` each"),
    ("roles/src/up.rs", 2, "`watched` each"),
    (
        "secrets/src/source.rs",
        1,
        "reads the output of the key command, which is waited for",
    ),
    (
        "testing/src",
        usize::MAX,
        "what tests share; tests may do as they like",
    ),
    (
        "http/src/admission/tests.rs",
        usize::MAX,
        "tests may do as they like",
    ),
    (
        "http/src/costly.rs",
        1,
        "one request, `caught`, which is waited for",
    ),
    (
        "control/src/destinations",
        1,
        "one request's round, and its undoing, which are waited for",
    ),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_task_is_started_here_or_allowed_for_a_reason() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for one in fs::read_dir(crates).unwrap() {
        let source = one.unwrap().path().join("src");
        if source.is_dir() && !source.starts_with(crates.join("tasks")) {
            sources(&source, &mut files);
        }
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // Tests may do as they like.
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let count: usize = WAYS.iter().map(|way| text.matches(way).count()).sum();
        let name = file.strip_prefix(crates).unwrap().display().to_string();
        if count > 0 {
            counts.insert(name, count);
        }
    }
    let mut wrong = Vec::new();
    for (name, count) in &counts {
        let allowed = ALLOWED.iter().find(|(file, _, _)| name.starts_with(file));
        match allowed {
            Some((_, most, _)) if count <= most => {}
            Some((_, most, _)) => wrong.push(format!("{name}: {count}, and {most} are allowed")),
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
