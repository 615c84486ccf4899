//! Two writers append while members are killed and suspended.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use placewright_journal::{AppendError, Journal, Resolution};
use placewright_journal_etcd::{EtcdJournal, EtcdOptions};
use placewright_journal_testing::EtcdCluster;

/// How long writers may take to append again after a fault.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of appends that each writer has to make between two faults.
const APPENDS: u64 = 20;

type Fault = fn(&mut EtcdCluster, &Writers);

const FAULTS: [(&str, Fault); 3] = [
    ("each_member_is_killed_in_turn", |cluster, writers| {
        for member in 0..3 {
            cluster.kill(member).unwrap();
            writers.wait_for_appends();
            cluster.start_again(member).unwrap();
            cluster.wait_until_healthy(member).unwrap();
            writers.wait_for_appends();
        }
    }),
    ("each_member_is_suspended_in_turn", |cluster, writers| {
        for member in 0..3 {
            cluster.stop(member).unwrap();
            writers.wait_for_appends();
            cluster.resume(member).unwrap();
            writers.wait_for_appends();
        }
    }),
    ("all_members_are_killed", |cluster, writers| {
        for member in 0..3 {
            cluster.kill(member).unwrap();
        }
        // For a while the writers get no answers.
        writers.wait_for_failure();
        for member in 0..3 {
            cluster.start_again(member).unwrap();
        }
        writers.wait_for_appends();
    }),
];

/// One test, because its checks share a cluster, which has to be stopped after the last of them.
#[test]
fn no_acknowledged_entry_is_lost_or_doubled() {
    if !EtcdCluster::available() {
        return;
    }
    let mut cluster = EtcdCluster::start(3).unwrap();
    for (name, fault) in FAULTS {
        let started = Instant::now();
        let url = format!("etcd://{}/faults/{name}", cluster.address());
        let mut options = EtcdOptions::parse(&url).unwrap();
        options.request_timeout = Duration::from_millis(1500);
        let writers = Writers::start(&options);
        writers.wait_for_appends();
        fault(&mut cluster, &writers);
        let outcomes = writers.finish();
        eprintln!("{name}: {:?}, {outcomes:?}", started.elapsed());
    }
}

/// How the appends of one writer ended.
#[derive(Debug, Default)]
struct Outcomes {
    /// Appends that were acknowledged, or that turned out to be kept after their outcome was unknown.
    kept: u64,
    unknown: u64,
    unknown_kept: u64,
    unknown_not_kept: u64,
    failed: u64,
    conflicts: u64,
    /// The longest time of one append, including the time to find out its outcome.
    longest: Duration,
}

/// The data that the writers share with the test.
#[derive(Default)]
struct Progress {
    appends: [AtomicU64; 2],
    failures: AtomicU64,
    is_over: AtomicBool,
}

/// Two writers with a client each, as two processes have.
struct Writers {
    progress: Arc<Progress>,
    threads: Vec<thread::JoinHandle<Outcomes>>,
    options: EtcdOptions,
}

impl Writers {
    fn start(options: &EtcdOptions) -> Self {
        let progress = Arc::new(Progress::default());
        let writer = |writer: u8| {
            let progress = Arc::clone(&progress);
            let mut journal = EtcdJournal::open(options).unwrap();
            thread::spawn(move || write(&mut journal, writer, &progress))
        };
        Self {
            threads: vec![writer(0), writer(1)],
            progress,
            options: options.clone(),
        }
    }

    /// Waits until each writer has made further appends.
    fn wait_for_appends(&self) {
        let count = |writer: usize| self.progress.appends[writer].load(Ordering::Relaxed);
        let wanted = [count(0) + APPENDS, count(1) + APPENDS];
        self.wait(|| count(0) >= wanted[0] && count(1) >= wanted[1]);
    }

    /// Waits until an append failed, or its outcome was not known.
    fn wait_for_failure(&self) {
        let failures = self.progress.failures.load(Ordering::Relaxed);
        self.wait(|| self.progress.failures.load(Ordering::Relaxed) > failures);
    }

    fn wait(&self, is_reached: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_reached() {
            assert!(started.elapsed() < PATIENCE, "the writers do not get on");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the writers, and checks that the store has exactly what the writers know to be kept.
    fn finish(self) -> Vec<Outcomes> {
        self.progress.is_over.store(true, Ordering::Relaxed);
        let outcomes: Vec<Outcomes> = (self.threads.into_iter())
            .map(|thread| thread.join().unwrap())
            .collect();
        let mut journal = EtcdJournal::open(&self.options).unwrap();
        let mut counts: BTreeMap<u8, u64> = BTreeMap::new();
        let mut last = Vec::new();
        let next = journal.read(1, &mut |sequence, record| {
            let (writer, number) = (record[0], &record[1..9]);
            if sequence % 2 == 0 {
                assert_eq!(last, record, "both records of an append are adjacent");
                return ControlFlow::Continue(());
            }
            last = record.to_vec();
            let number = u64::from_le_bytes(number.try_into().unwrap());
            let count = counts.entry(writer).or_default();
            assert_eq!(
                number, *count,
                "writer {writer}: every append once, in order"
            );
            *count += 1;
            ControlFlow::Continue(())
        });
        let total: u64 = outcomes.iter().map(|outcomes| outcomes.kept).sum();
        assert_eq!(next.unwrap(), 2 * total + 1);
        for (writer, outcomes) in (0..).zip(&outcomes) {
            assert_eq!(counts[&writer], outcomes.kept);
        }
        journal.check_store().unwrap();
        outcomes
    }
}

/// Appends pairs of equal records until the test is over. The pairs are numbered 0, 1, 2 …; one that was not kept is
/// appended again with the same number.
fn write(journal: &mut dyn Journal, writer: u8, progress: &Progress) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let mut next = journal.end().unwrap() + 1;
    while !progress.is_over.load(Ordering::Relaxed) {
        let mut record = vec![writer];
        record.extend_from_slice(&outcomes.kept.to_le_bytes());
        // Every sixteenth append is so large that its batch is in several keys.
        record.resize(if outcomes.kept % 16 == 0 { 40_000 } else { 150 }, 1);
        let started = Instant::now();
        let appended = journal.append(next, &[&record, &record]);
        outcomes.longest = outcomes.longest.max(started.elapsed());
        let is_kept = match appended {
            Ok(()) => true,
            Err(AppendError::Conflict { next_sequence }) => {
                outcomes.conflicts += 1;
                next = next_sequence;
                continue;
            }
            Err(AppendError::Failed(_)) => {
                outcomes.failed += 1;
                progress.failures.fetch_add(1, Ordering::Relaxed);
                false
            }
            Err(AppendError::Unknown(_)) => {
                outcomes.unknown += 1;
                progress.failures.fetch_add(1, Ordering::Relaxed);
                let is_kept = resolve(journal);
                outcomes.unknown_kept += u64::from(is_kept);
                outcomes.unknown_not_kept += u64::from(!is_kept);
                is_kept
            }
        };
        outcomes.longest = outcomes.longest.max(started.elapsed());
        if is_kept {
            next += 2;
            outcomes.kept += 1;
            progress.appends[usize::from(writer)].fetch_add(1, Ordering::Relaxed);
        }
    }
    outcomes
}

fn resolve(journal: &mut dyn Journal) -> bool {
    let started = Instant::now();
    loop {
        match journal.resolve() {
            Ok(resolution) => return resolution == Resolution::Kept,
            Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
        }
    }
}
