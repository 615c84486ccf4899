//! Invariants of the state machine, tested with random sequences of commands.
//!
//! `PROPTEST_CASES` sets the number of sequences for each test (default 256; the full run has 10,000).

use std::collections::BTreeSet;

use crate::common::{command, initial_state};
use placewright_conductor::control;
use placewright_placement::{Change, Command, Consumer, State, decide};
use placewright_records::control as form;
use proptest::prelude::*;

fn commands() -> impl Strategy<Value = Vec<Command>> {
    prop::collection::vec(command(), 1..60)
}

/// Decides and applies a command; returns the changes, or `None` if it was refused.
fn run(state: &mut State, command: &Command) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    decide(state, command, &mut changes).ok()?;
    for change in &changes {
        state.apply(change);
    }
    Some(changes)
}

/// An inventory with more usage than capacity.
struct Overused {
    provider: uuid::Uuid,
    class: String,
    used: i64,
}

/// The inventories with more usage than capacity. An inventory may be reduced below its usage;
/// afterwards its usage may only decrease.
fn overused(state: &State) -> Vec<Overused> {
    let mut found = Vec::new();
    for (_, provider) in state.all_providers() {
        for row in &provider.inventories {
            if row.used > row.capacity {
                found.push(Overused {
                    provider: provider.uuid,
                    class: state.class_name(row.class).to_owned(),
                    used: row.used,
                });
            }
        }
    }
    found
}

/// Asserts that names are stored exactly as long as they are in use.
fn check_names(state: &State) {
    let consumers = || state.all_consumers().map(|(_, consumer)| consumer);
    let used_by_providers = state.all_providers();
    let used_by_providers = used_by_providers.flat_map(|(_, provider)| &provider.aggregates);
    let used_by_levels = state.levels().iter().flat_map(|level| &level.aggregates);
    let aggregates: BTreeSet<&str> = used_by_providers
        .map(|id| state.aggregate_uuid(*id))
        .chain(used_by_levels.map(String::as_str))
        .collect();
    let projects: BTreeSet<&str> = consumers()
        .map(|consumer| state.project_name(consumer.project))
        .collect();
    let users: BTreeSet<&str> = consumers()
        .map(|consumer| state.user_name(consumer.user))
        .collect();
    let types: BTreeSet<&str> = consumers()
        .filter_map(|consumer| consumer.consumer_type)
        .map(|id| state.consumer_type_name(id))
        .collect();
    let used = [&aggregates, &projects, &users, &types];
    assert!(used.iter().all(|names| !names.contains("")));
    assert_eq!(state.name_counts(), used.map(BTreeSet::len));
    for project in projects {
        let listed = state.project_consumers(project).count();
        let of_project = |consumer: &&Consumer| state.project_name(consumer.project) == project;
        assert_eq!(listed, consumers().filter(of_project).count());
    }
}

/// Asserts that indexes and other redundant data agree with the rows.
fn check_indexes(state: &State) {
    check_names(state);
    for (id, provider) in state.all_providers() {
        for row in &provider.inventories {
            let held: i64 = state
                .all_consumers()
                .flat_map(|(_, consumer)| &consumer.allocations)
                .filter(|held| held.provider == id && held.class == row.class)
                .map(|held| i64::from(held.amount))
                .sum();
            assert_eq!(row.used, held, "usage is the sum of allocations");
            let block = state
                .column(row.class)
                .block(id.index() / 64)
                .expect("a block");
            let free = row.capacity - row.used;
            let headroom = free.min(i64::from(row.inventory.max_unit)).max(-1);
            assert_eq!(i64::from(block.headroom[id.index() % 64]), headroom);
        }
        for holder in &provider.consumers {
            let consumer = state.consumer_by_id(*holder).expect("a holder exists");
            assert!(consumer.allocations.iter().any(|held| held.provider == id));
        }
        let root = provider.parent.map_or(id, |parent| {
            state.provider(parent).expect("a parent exists").root
        });
        assert_eq!(provider.root, root);
        assert_eq!(state.roots().contains(id.0), provider.parent.is_none());
        assert_eq!(
            state.parents().contains(id.0),
            !provider.children.is_empty()
        );
        for child in &provider.children {
            assert_eq!(
                state.provider(*child).expect("a child exists").parent,
                Some(id)
            );
        }
        for trait_id in &provider.traits {
            assert!(state.trait_members(*trait_id).contains(id.0));
        }
    }
    for group in state.all_groups() {
        for member in &group.members {
            let assignment = state
                .consumer_by_id(member.consumer)
                .and_then(|consumer| consumer.host_assignment)
                .expect("a member is on a host");
            assert_eq!(assignment.host, member.host);
            let group_id = assignment.group.expect("in its group");
            assert_eq!(
                state.group_by_id(group_id).map(|group| group.uuid),
                Some(group.uuid)
            );
        }
    }
    for (_, consumer) in state.all_consumers() {
        assert!(
            !consumer.allocations.is_empty(),
            "a consumer holds something"
        );
    }
}

proptest! {
    #[test]
    fn capacity_is_never_exceeded_by_a_claim(commands in commands()) {
        let mut state = initial_state();
        for command in &commands {
            let before = overused(&state);
            let is_accepted = run(&mut state, command).is_some();
            let is_claim = matches!(
                command,
                Command::Claim { .. } | Command::ClaimFirst { .. } | Command::Release { .. }
            );
            if is_accepted && is_claim {
                for after in overused(&state) {
                    let is_same = |other: &&Overused| {
                        other.provider == after.provider && other.class == after.class
                    };
                    let previous = before.iter().find(is_same);
                    prop_assert!(previous.is_some_and(|previous| after.used <= previous.used));
                }
            }
        }
        check_indexes(&state);
    }

    #[test]
    fn a_claim_breaks_no_rule_of_its_group(commands in commands()) {
        let mut state = initial_state();
        for command in &commands {
            let Command::ClaimFirst { intents, .. } = command else {
                run(&mut state, command);
                continue;
            };
            if run(&mut state, command).is_none() {
                continue;
            }
            for intent in intents {
                let Some(consumer) = state.consumer(intent.consumer) else { continue };
                let Some(group) = intent.group.and_then(|uuid| state.group(uuid)) else { continue };
                let Some(assignment) = consumer.host_assignment.filter(|assignment| assignment.group.is_some())
                else { continue };
                // Only allocations of this command are checked, because rules may have changed
                // since older claims.
                if intents.len() > 1 { continue; }
                let others: Vec<_> = group
                    .members
                    .iter()
                    .filter_map(|member| state.consumer_by_id(member.consumer))
                    .filter(|other| other.uuid != consumer.uuid)
                    .filter_map(|other| Some(other.host_assignment?.host))
                    .collect();
                for rule in &group.rules {
                    prop_assert!(state.satisfies_rule(assignment.host, rule, others.iter().copied()));
                }
            }
        }
    }

    #[test]
    fn undo_restores_the_digest(commands in commands(), undone in 1usize..60) {
        let mut state = initial_state();
        let mut digests = vec![state.digest()];
        let mut undos = Vec::new();
        for command in &commands {
            let mut changes = Vec::new();
            let mut undo = Vec::new();
            if decide(&state, command, &mut changes).is_ok() {
                undo.extend(changes.iter().map(|change| state.apply(change)));
            }
            undos.push(undo);
            digests.push(state.digest());
        }
        let remaining = commands.len().saturating_sub(undone);
        for undo in undos.drain(remaining..).rev() {
            for step in undo.into_iter().rev() {
                state.undo(step);
            }
        }
        prop_assert_eq!(state.digest(), digests[remaining]);
        check_indexes(&state);
        // A change that was undone can be applied again, with the same result.
        for (command, digest) in commands[remaining..].iter().zip(&digests[remaining + 1..]) {
            run(&mut state, command);
            prop_assert_eq!(state.digest(), *digest);
        }
    }

    #[test]
    fn replay_and_snapshot_plus_tail_give_the_same_digest(
        commands in commands(),
        snapshot_after in 0usize..60,
    ) {
        let mut live = initial_state();
        let mut journal = Vec::new();
        let mut snapshot = Vec::new();
        let mut tail_from = 0;
        live.save(&mut snapshot).unwrap();
        for (index, command) in commands.iter().enumerate() {
            if let Some(changes) = run(&mut live, command) {
                let changes: Vec<control::Change> =
                    changes.into_iter().map(control::Change::Placement).collect();
                let mut bytes = Vec::new();
                form::encode(&changes, &mut bytes);
                journal.push(bytes);
            }
            if index == snapshot_after {
                snapshot.clear();
                live.save(&mut snapshot).unwrap();
                tail_from = journal.len();
            }
        }
        let replay = |mut state: State, from: usize| {
            for bytes in &journal[from..] {
                for change in form::decode(bytes).unwrap() {
                    if let control::Change::Placement(change) = change {
                        state.apply(&change);
                    }
                }
            }
            check_indexes(&state);
            state.digest()
        };
        prop_assert_eq!(replay(initial_state(), 0), live.digest());
        let restored = State::load(&mut snapshot.as_slice()).unwrap();
        prop_assert_eq!(replay(restored, tail_from), live.digest());
    }

    #[test]
    fn refused_commands_change_nothing(commands in commands()) {
        let mut state = initial_state();
        for command in &commands {
            let before = state.digest();
            let mut changes = Vec::new();
            match decide(&state, command, &mut changes) {
                Ok(_) => for change in &changes { state.apply(change); },
                Err(_) => prop_assert_eq!(state.digest(), before),
            }
        }
    }
}
