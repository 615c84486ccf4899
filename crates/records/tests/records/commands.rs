//! Control's commands, as replicas of several releases hand them to each other.

use crate::values;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{assert_writes, golden};
use placewright_conductor::control::Command;
use placewright_conductor::super_conductor::{self, NewBuild};
use placewright_conductor::{SharedText, Spec, SpecBody};
use placewright_records::command::{VERSIONS, decode, encode};
use placewright_records::{Form, Layout, Reader, Writer, offer};
use values::commands::{builds, conductor_commands, first_conductor_commands, placement_commands};
use values::images::{all_commands, image_commands};
use values::{AT, OTHER, spec};

fn of_conductor(command: super_conductor::Command) -> Command {
    Command::Conductor { command, at: AT }
}

fn create(builds: Vec<NewBuild>) -> Command {
    of_conductor(super_conductor::Command::CreateBuilds {
        reservation: OTHER,
        builds,
    })
}

fn commands() -> Vec<Command> {
    commands_of(VERSIONS.newest)
}

/// One of each command that a version has.
fn commands_of(version: u32) -> Vec<Command> {
    let to_placement = placement_commands().into_iter().map(Command::Placement);
    let to_conductor = match version {
        1 => first_conductor_commands(),
        2 => conductor_commands(),
        _ => all_commands(),
    };
    let to_conductor = to_conductor.into_iter().map(of_conductor);
    to_placement.chain(to_conductor).collect()
}

/// The number of a command's variant.
fn number_of(command: &impl Form) -> u64 {
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    command.write(&mut out);
    let bytes = out.into_bytes();
    let mut from = Reader::new(&bytes, Layout::Growing);
    from.length().unwrap();
    from.number().unwrap()
}

#[test]
fn commands_of_each_version_read_as_they_always_did() {
    for version in VERSIONS.oldest..=VERSIONS.newest {
        let mut out = Writer::new(Vec::new(), Layout::Growing);
        for command in commands_of(version) {
            out.bytes(&encode(version, &command).unwrap());
        }
        let name = format!("commands_{version}");
        assert_writes(&name, &out.into_bytes());
        let bytes = golden(&name);
        let mut from = Reader::new(&bytes, Layout::Growing);
        for command in commands_of(version) {
            assert_eq!(decode(version, from.bytes().unwrap()), Ok(command));
        }
        assert!(from.is_at_end());
    }
}

#[test]
fn fields_that_were_added_to_commands_read_as_they_always_did() {
    let commands = || values::reschedule::commands().into_iter().map(of_conductor);
    let version = 3;
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    for command in commands() {
        out.bytes(&encode(version, &command).unwrap());
    }
    assert_writes("commands_3_reschedule", &out.into_bytes());
    let bytes = golden("commands_3_reschedule");
    let mut from = Reader::new(&bytes, Layout::Growing);
    for command in commands() {
        assert_eq!(decode(version, from.bytes().unwrap()), Ok(command));
    }
    assert!(from.is_at_end());
}

#[test]
fn an_offered_candidate_reads_as_it_always_did() {
    let bytes = offer::encode(&values::commands::offer());
    assert_writes("offer", &bytes);
    assert_eq!(
        offer::decode(&golden("offer")),
        Ok(values::commands::offer())
    );
    for end in 0..bytes.len() {
        assert!(offer::decode(&bytes[..end]).is_err());
    }
}

#[test]
fn a_version_lacks_what_a_later_one_added() {
    for command in image_commands().into_iter().map(of_conductor) {
        assert_eq!(encode(2, &command), None);
        assert!(encode(3, &command).is_some());
    }
}

#[test]
fn every_command_is_among_those_of_these_tests() {
    let numbers: BTreeSet<u64> = placement_commands().iter().map(number_of).collect();
    assert_eq!(numbers, (0..=21).collect());
    let numbers: BTreeSet<u64> = all_commands().iter().map(number_of).collect();
    assert_eq!(numbers, (0..=35).collect());
}

#[test]
fn other_versions_are_refused() {
    let command = &commands()[0];
    assert_eq!(encode(VERSIONS.newest + 1, command), None);
    let bytes = encode(VERSIONS.newest, command).unwrap();
    let error = decode(VERSIONS.newest + 1, &bytes).unwrap_err().to_string();
    assert!(error.contains("version number"), "{error}");
}

#[test]
fn what_builds_of_one_request_share_is_written_once_and_shared_again() {
    let text: Arc<str> = "x".repeat(1 << 16).into();
    let sealed: Arc<str> = "c2VhbGVk".repeat(1 << 12).into();
    let first = spec();
    let with_large_texts = |build: NewBuild| NewBuild {
        spec: Spec {
            body: SharedText::from_parts(Arc::clone(&text), build.spec.name.clone()).into(),
            secrets: SharedText::from_parts(Arc::clone(&sealed), build.spec.name.clone()),
            rules: first.rules.clone(),
            ..build.spec
        },
        ..build
    };
    let command = create(builds(100).into_iter().map(with_large_texts).collect());
    let bytes = encode(VERSIONS.newest, &command).unwrap();
    assert!(
        bytes.len() < 2 * (text.len() + sealed.len()),
        "{}",
        bytes.len()
    );
    let read = decode(VERSIONS.newest, &bytes).unwrap();
    assert_eq!(read, command);
    let Command::Conductor {
        command: super_conductor::Command::CreateBuilds { builds, .. },
        ..
    } = read
    else {
        panic!("{read:?}");
    };
    let bodies: Vec<&SpecBody> = builds.iter().map(|build| &build.spec.body).collect();
    assert!(bodies.windows(2).all(|pair| pair[0].shares_prefix(pair[1])));
}

#[test]
fn no_bytes_make_reading_panic() {
    for command in commands() {
        let bytes = encode(VERSIONS.newest, &command).unwrap();
        for end in 0..bytes.len() {
            // A command that is cut where fields may be missing is read without an error.
            let _ = decode(VERSIONS.newest, &bytes[..end]);
            let mut changed = bytes.clone();
            changed[end] = changed[end].wrapping_add(97);
            let _ = decode(VERSIONS.newest, &changed);
        }
    }
}

#[test]
fn commands_in_commands_do_not_use_up_the_stack() {
    let mut command = super_conductor::Command::RemoveCell { cell: values::CELL };
    for _ in 0..20 {
        command = super_conductor::Command::Limited {
            checks: Vec::new(),
            command: Box::new(command),
        };
    }
    let command = of_conductor(command);
    let bytes = encode(VERSIONS.newest, &command).unwrap();
    assert_eq!(decode(VERSIONS.newest, &bytes), Ok(command));

    // Ten thousand `Limited`, each of which contains the one before it.
    const LIMITED: u64 = 29;
    let mut inner = Vec::new();
    for _ in 0..10_000 {
        let mut out = Writer::new(Vec::new(), Layout::Growing);
        out.variant(LIMITED, |out| {
            out.length(0);
            out.raw(&inner);
        });
        inner = out.into_bytes();
    }
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    // Variant 1 is `Command::Conductor`.
    out.variant(1, |out| out.raw(&inner));
    let error = decode(VERSIONS.newest, &out.into_bytes()).unwrap_err();
    assert!(error.to_string().contains("nested too deeply"), "{error}");
}
