//! Hosts are ranked, claimed and claimed again in one place: no module but the placer names the
//! commands that claim, except for those below.

use std::fs;
use std::path::{Path, PathBuf};

/// The commands that claim hosts, as sources name them.
const CLAIMS: [&str; 4] = [
    "ClaimFirst",
    "PlaceMove",
    "Command::Place",
    "Command::Claim",
];

/// Files that may name some of these commands, by the end of their paths, and why.
const EXCEPTIONS: [(&str, &[&str], &str); 15] = [
    (
        "placement/src/command.rs",
        &["ClaimFirst"],
        "defines the command",
    ),
    (
        "placement/src/decide.rs",
        &["ClaimFirst", "Command::Claim"],
        "decides the commands",
    ),
    (
        "conductor/src/claims.rs",
        &["ClaimFirst"],
        "decides a claim of the conductor as one of placement, in the same step",
    ),
    (
        "super_conductor/command.rs",
        &["PlaceMove"],
        "defines the command",
    ),
    (
        "super_conductor/decide.rs",
        &["PlaceMove", "Command::Place"],
        "decides the commands",
    ),
    (
        "scheduler/src/select/capacity/simulation.rs",
        &["ClaimFirst"],
        "the scheduler counts what would fit by claiming it on a copy of the state",
    ),
    (
        "control/src/requested_allocations.rs",
        &["ClaimFirst", "Command::Claim"],
        "tells the audit log what consumers hold after a claim",
    ),
    (
        "control/src/placement.rs",
        &["ClaimFirst", "Command::Claim"],
        "counts the outcomes of claims in the metrics",
    ),
    (
        "api-placement/src/resources/allocations.rs",
        &["Command::Claim"],
        "Placement's own routes, whose clients say where they claim",
    ),
    (
        "records/src/forms/placement_commands.rs",
        &["ClaimFirst"],
        "the form in which replicas hand a command to the one that leads",
    ),
    (
        "records/src/forms/conductor_commands.rs",
        &["PlaceMove"],
        "the form in which replicas hand a command to the one that leads",
    ),
    (
        "bench/src/bench/fleet.rs",
        &["Command::Claim"],
        "a bench over HTTP fills its fleet with claims of which it knows the hosts",
    ),
    (
        "testing/src/world/scheduling.rs",
        &["PlaceMove", "Command::Place"],
        "tests of the conductor's state machine say where instances go",
    ),
    (
        "bench/src/bench/in_process.rs",
        &["Command::Claim"],
        "benches fill their fleets with claims of which they know the hosts",
    ),
    (
        "testing/src/fleet/build.rs",
        &["Command::Claim"],
        "tests fill their fleets in the same way",
    ),
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Whether a line of code names a command, and not only a command whose longer name begins so.
fn names(line: &str, command: &str) -> bool {
    let ends = line
        .match_indices(command)
        .map(|(at, _)| at + command.len());
    ends.into_iter().any(|end| {
        let next = line[end..].chars().next();
        !next.is_some_and(|next| next.is_alphanumeric() || next == '_')
    })
}

/// The commands that a source names outside of comments.
fn commands_named_in(text: &str) -> Vec<&'static str> {
    let lines = text.lines().map(str::trim_start);
    let code: Vec<&str> = lines.filter(|line| !line.starts_with("//")).collect();
    let mut found = CLAIMS.to_vec();
    found.retain(|command| code.iter().any(|line| names(line, command)));
    found
}

#[test]
fn no_module_but_the_placer_claims_hosts() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    let mut used = vec![false; EXCEPTIONS.len()];
    let mut found_in_placer = 0;
    let mut wrong = Vec::new();
    for file in &files {
        let path = file
            .strip_prefix(crates)
            .unwrap()
            .to_string_lossy()
            .replace('\\', "/");
        let found = commands_named_in(&fs::read_to_string(file).unwrap());
        if path.starts_with("control/src/placer/") {
            found_in_placer += found.len();
            continue;
        }
        for command in found {
            let is_excepted = EXCEPTIONS
                .iter()
                .enumerate()
                .any(|(index, (end, commands, _))| {
                    let applies = path.ends_with(end) && commands.contains(&command);
                    used[index] |= applies;
                    applies
                });
            if !is_excepted {
                wrong.push(format!("{path} names {command}: drive the placer instead"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(found_in_placer > 0, "the placer is not where it was");
    for (is_used, (end, _, why)) in used.iter().zip(EXCEPTIONS) {
        assert!(
            is_used,
            "the exception for {end} ({why}) is not needed any more"
        );
    }
}
