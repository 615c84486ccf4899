//! Invariants of the engine under random commands, failures, restarts and other writers.

use crate::toy;

use std::ops::ControlFlow;

use placewright_engine::{Machine, Options, SubmitError};
use placewright_journal::{Fault, Journal, Operation};
use proptest::prelude::*;
use toy::counters::{COUNTERS, Change, LIMIT};
use toy::{Command, Counters, SubmitBlocking, Toy, block_on};

#[derive(Debug, Clone)]
enum Step {
    /// Commands that are submitted concurrently.
    Submit(Vec<Command>),
    /// After some further appends, the next ones fail.
    Fail {
        after: u64,
        times: u64,
        fault: Fault,
    },
    /// Another writer on the same journal submits a command.
    OtherWriter(Command),
    Snapshot,
    Restart,
}

fn command() -> impl Strategy<Value = Command> {
    let counter = || 0..COUNTERS;
    prop_oneof![
        4 => (counter(), 0..600_u64).prop_map(|(counter, amount)| Command::Add { counter, amount }),
        4 => (counter(), counter(), 0..600_u64)
            .prop_map(|(from, to, amount)| Command::Move { from, to, amount }),
        1 => counter().prop_map(|counter| Command::Get { counter }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        Just(Fault::NoSpace),
        Just(Fault::ReadOnly),
        Just(Fault::Io),
        Just(Fault::LostAnswer),
        Just(Fault::LostRequest),
    ];
    prop_oneof![
        8 => prop::collection::vec(command(), 1..12).prop_map(Step::Submit),
        2 => (0..3_u64, 1..3_u64, fault)
            .prop_map(|(after, times, fault)| Step::Fail { after, times, fault }),
        1 => command().prop_map(Step::OtherWriter),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Restart),
    ]
}

fn options(retain_entries: u64) -> Options {
    Options {
        decide_commands_max: 4,
        batch_commands_max: 8,
        ahead_commands_min: 3,
        snapshot_duty: 1.0,
        retain_entries,
        ..Options::default()
    }
}

/// Computes the expected state from the accepted commands.
struct Model {
    counters: Counters,
    /// Whether the expected state is unknown, because another writer has appended entries. The state must
    /// still agree with the journal.
    is_unknown: bool,
}

impl Model {
    fn apply(&mut self, command: &Command) -> Result<u64, toy::counters::Refusal> {
        let mut changes = Vec::new();
        let result = self.counters.decide(command, &mut changes);
        if result.is_ok() {
            changes.iter().for_each(|c| self.counters.replay(c));
        }
        result
    }

    fn check(&mut self, commands: &[Command], answers: Vec<toy::counters::Answer>) {
        for (command, answer) in commands.iter().zip(answers) {
            match answer {
                Ok(result) if !self.is_unknown => assert_eq!(self.apply(command), result),
                Ok(_) | Err(SubmitError::Unavailable(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn run(steps: Vec<Step>, retain_entries: u64) {
    let options = || options(retain_entries);
    let mut toy = Toy::new(options());
    let mut model = Model {
        counters: Counters::empty(),
        is_unknown: false,
    };
    for step in steps {
        match step {
            Step::Submit(commands) => {
                let answers: Vec<_> = commands
                    .iter()
                    .map(|c| toy.engine.submit(c.clone()))
                    .collect();
                model.check(&commands, answers.into_iter().map(block_on).collect());
            }
            Step::Fail {
                after,
                times,
                fault,
            } => {
                toy.faults.fail(Operation::Append, after, times, fault);
            }
            Step::OtherWriter(command) => {
                model.is_unknown = true;
                let other = Toy::on(toy.journal.as_ref(), options());
                other.engine.submit_blocking(command).unwrap().ok();
            }
            Step::Snapshot => {
                block_on(toy.engine.snapshot()).unwrap();
            }
            Step::Restart => toy.restart(options()),
        }
        if !model.is_unknown {
            assert_eq!(toy.digest(), model.counters.digest());
            assert_eq!(
                block_on(toy.engine.read(Counters::digest)),
                model.counters.digest()
            );
        }
    }
    // A successful append proves that its engine has applied all earlier entries.
    toy.faults.cancel_all();
    let accepted = (0..COUNTERS).find(|&counter| toy.add(counter, 1).unwrap().is_ok());
    assert!(accepted.is_some());
    assert_eq!(toy.engine.durable_sequence(), toy.journal.end().unwrap());
    assert_eq!(
        toy.digest(),
        toy.recovered_digest(),
        "the snapshot and the entries after it give the live state"
    );
    if toy.journal.first_held().unwrap() == 1 {
        assert_eq!(
            toy.digest(),
            replayed_digest(toy.journal.as_mut()),
            "all entries give the live state"
        );
    }
    let is_within_limit = |counters: &Counters| counters.values().iter().all(|&v| v <= LIMIT);
    assert!(toy.engine.read_now(is_within_limit), "no limit is exceeded");
}

fn replayed_digest(journal: &mut dyn Journal) -> u128 {
    let mut counters = Counters::empty();
    let read = journal.read(1, &mut |_, record| {
        let changes = Counters::decode(record).unwrap();
        changes.iter().for_each(|c| counters.replay(c));
        ControlFlow::Continue(())
    });
    read.unwrap();
    counters.digest()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn accepted_changes_are_durable_failed_ones_are_undone_and_replay_gives_the_same_state(
        steps in prop::collection::vec(step(), 1..20),
        retain_entries in prop_oneof![Just(3), Just(u64::MAX)],
    ) {
        run(steps, retain_entries);
    }

    #[test]
    fn undoing_restores_the_digest_and_records_keep_their_meaning(
        commands in prop::collection::vec(command(), 1..60),
    ) {
        let mut counters = Counters::empty();
        let mut states = vec![(counters.digest(), Vec::<Change>::new())];
        let mut changes = Vec::new();
        for command in &commands {
            changes.clear();
            if counters.decide(command, &mut changes).is_err() {
                continue;
            }
            let undos: Vec<_> = changes.iter().map(|c| counters.apply(c)).collect();
            let mut record = Vec::new();
            Counters::encode(&changes, &mut record);
            prop_assert_eq!(&Counters::decode(&record).unwrap(), &changes);
            states.push((counters.digest(), undos));
        }
        while let Some((digest, undos)) = states.pop() {
            prop_assert_eq!(counters.digest(), digest);
            undos.into_iter().rev().for_each(|undo| counters.undo(undo));
        }
        prop_assert_eq!(counters, Counters::empty());
    }
}
