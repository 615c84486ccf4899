//! A store on a primary with two standbys: the contract of journals, and what is particular to PostgreSQL.

use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use placewright_journal::{AppendError, Journal, JournalError, compact, verify};
use placewright_journal_postgresql::{PostgresqlJournal, PostgresqlOptions};
use placewright_journal_testing::{PostgresqlCluster, check_contract};

type Check = (&'static str, fn(&PostgresqlCluster));

const CHECKS: [Check; 9] = [
    ("the_contract_is_kept", the_contract_is_kept),
    (
        "a_store_is_created_once_and_found_again",
        a_store_is_created_once_and_found_again,
    ),
    ("other_tables_are_refused", other_tables_are_refused),
    (
        "appends_of_every_size_are_atomic",
        appends_of_every_size_are_atomic,
    ),
    (
        "an_abandoned_snapshot_is_removed",
        an_abandoned_snapshot_is_removed,
    ),
    ("a_seal_ends_all_appends", a_seal_ends_all_appends),
    ("damage_is_found", damage_is_found),
    ("an_older_copy_is_noticed", an_older_copy_is_noticed),
    ("new_entries_end_the_wait", new_entries_end_the_wait),
];

/// One test, because its checks share servers, which have to be stopped after the last of them.
#[test]
fn stores_on_servers_work() {
    if !PostgresqlCluster::available() {
        return;
    }
    let cluster = PostgresqlCluster::start(2).unwrap();
    for (name, check) in CHECKS {
        let started = Instant::now();
        check(&cluster);
        eprintln!("{name}: {:?}", started.elapsed());
    }
}

/// Options with a schema that nobody else uses.
fn fresh(cluster: &PostgresqlCluster) -> PostgresqlOptions {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let address = cluster.address();
    let url = format!("postgresql://{address}/placewright?schema=test{number}");
    PostgresqlOptions::parse(&url).unwrap()
}

fn open(options: &PostgresqlOptions) -> PostgresqlJournal {
    PostgresqlJournal::open(options).unwrap()
}

fn entries(journal: &mut dyn Journal) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    let mut next = journal.first_held().unwrap();
    let end = journal.end().unwrap();
    while next <= end {
        let read = journal.read(next, &mut |_, record| {
            entries.push(record.to_vec());
            ControlFlow::Continue(())
        });
        next = read.unwrap();
    }
    entries
}

fn snapshot(journal: &mut dyn Journal, sequence: u64, bytes: &[u8]) {
    let mut writer = journal.write_snapshot(sequence).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap();
}

/// Runs statements on the tables of a store.
fn sql(cluster: &PostgresqlCluster, options: &PostgresqlOptions, statements: &str) -> String {
    let path = format!("SET search_path TO {}; {statements}", options.schema);
    cluster.sql(cluster.primary(), &path).unwrap()
}

fn count(cluster: &PostgresqlCluster, options: &PostgresqlOptions, table: &str) -> u64 {
    let answer = sql(cluster, options, &format!("SELECT count(*) FROM {table}"));
    answer.trim().parse().unwrap()
}

fn the_contract_is_kept(cluster: &PostgresqlCluster) {
    check_contract(|| open(&fresh(cluster)));
}

fn a_store_is_created_once_and_found_again(cluster: &PostgresqlCluster) {
    let options = fresh(cluster);
    let openers: Vec<_> = (0..3)
        .map(|_| {
            let options = options.clone();
            thread::spawn(move || open(&options))
        })
        .collect();
    let mut journals: Vec<_> = openers.into_iter().map(|o| o.join().unwrap()).collect();
    journals[0].append(1, &[b"a", b"b"]).unwrap();
    assert!(matches!(
        journals[1].append(1, &[b"late"]),
        Err(AppendError::Conflict { next_sequence: 3 })
    ));
    journals[1].append(3, &[b"c"]).unwrap();
    let mut again = open(&options);
    assert_eq!(again.url(), options.to_string());
    assert_eq!(entries(&mut again), [b"a", b"b", b"c"]);
    assert_eq!(again.durable_end().unwrap(), 3);
    assert_eq!(again.notices(), []);
}

fn other_tables_are_refused(cluster: &PostgresqlCluster) {
    let options = fresh(cluster);
    let schema = &options.schema;
    let create = |statements: &str| {
        cluster
            .sql(0, &format!("SET ROLE placewright; {statements}"))
            .unwrap();
    };
    create(&format!(
        "CREATE SCHEMA {schema}; CREATE TABLE {schema}.something ()"
    ));
    assert!(matches!(
        PostgresqlJournal::open(&options).err(),
        Some(JournalError::NotAJournal { .. })
    ));
    let options = fresh(cluster);
    let schema = &options.schema;
    create(&format!(
        "CREATE SCHEMA {schema}; CREATE TABLE {schema}.head (last text)"
    ));
    assert!(matches!(
        PostgresqlJournal::open(&options).err(),
        Some(JournalError::NotAJournal { .. })
    ));
    let options = fresh(cluster);
    drop(open(&options));
    sql(cluster, &options, "UPDATE head SET format = 7");
    assert!(matches!(
        PostgresqlJournal::open(&options).err(),
        Some(JournalError::NewerFormat {
            found: 7,
            supported: 1,
            ..
        })
    ));
    // No server listens on this port.
    let nobody = PostgresqlOptions::parse("postgresql://127.0.0.1:1/p").unwrap();
    assert!(matches!(
        PostgresqlJournal::open(&nobody).err(),
        Some(JournalError::Unreachable { .. })
    ));
    // A standby takes no writes, so a store cannot be opened on one.
    let standby = format!("postgresql://{}/placewright", cluster.address_of(1));
    let error = PostgresqlJournal::open(&PostgresqlOptions::parse(&standby).unwrap());
    let error = error.err().unwrap().to_string();
    assert!(error.contains("is a standby"), "{error}");
}

fn appends_of_every_size_are_atomic(cluster: &PostgresqlCluster) {
    let options = fresh(cluster);
    let mut journal = open(&options);
    let record = |bytes: usize, seed: usize| -> Vec<u8> {
        (0..bytes).map(|n| (n * 7 + n / 251 + seed) as u8).collect()
    };
    let mut expected: Vec<Vec<u8>> = Vec::new();
    for (records, bytes) in [(3, 1000), (40, 10_000), (5, 1 << 20), (1, 3 << 20), (2, 5)] {
        let batch: Vec<Vec<u8>> = (0..records).map(|seed| record(bytes, seed)).collect();
        let slices: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
        let next = expected.len() as u64 + 1;
        journal.append(next, &slices).unwrap();
        expected.extend(batch);
        let mut other = open(&options);
        assert_eq!(other.end().unwrap(), expected.len() as u64);
        assert!(entries(&mut other) == expected);
    }
    let verification = verify(&mut journal, &mut |_| ()).unwrap();
    assert!(verification.problems.is_empty());
    let stats = journal.stats().unwrap();
    assert_eq!(stats.record_bytes, 3 * 1000 + 400_000 + (8 << 20) + 10);
    assert!(stats.file_bytes > stats.record_bytes);
    // A conflict leaves nothing of a large batch. The appends above made 51 entries.
    let mut other = open(&options);
    journal.append(52, &[b"first"]).unwrap();
    let large = vec![1; 2 << 20];
    assert!(matches!(
        other.append(52, &[&large]),
        Err(AppendError::Conflict { next_sequence: 53 })
    ));
    assert_eq!(count(cluster, &options, "batch"), 6);
    let end = journal.end().unwrap();
    snapshot(&mut journal, end, b"state");
    let kept_entries = 0;
    compact(&mut journal, kept_entries).unwrap();
    assert_eq!(count(cluster, &options, "batch"), 0);
    assert_eq!(journal.stats().unwrap().record_bytes, 0);
}

fn an_abandoned_snapshot_is_removed(cluster: &PostgresqlCluster) {
    let options = fresh(cluster);
    let mut journal = open(&options);
    journal.append(1, &[b"a", b"b"]).unwrap();
    snapshot(&mut journal, 1, &[1; 300_000]);
    // A writer that is killed before its last step leaves such chunks.
    let chunk = "INSERT INTO chunk VALUES (2, '\\x77', 0, 0, 'chunk')";
    sql(cluster, &options, chunk);
    journal.drop_snapshots(2).unwrap();
    assert_eq!(count(cluster, &options, "chunk WHERE attempt = '\\x77'"), 1);
    snapshot(&mut journal, 2, b"newer");
    journal.drop_snapshots(1).unwrap();
    assert_eq!(count(cluster, &options, "chunk"), 1);
    let mut state = String::new();
    let mut reader = journal.read_snapshot(2).unwrap();
    reader.read_to_string(&mut state).unwrap();
    assert_eq!(state, "newer");
    // A writer that is slower than the writer of the next snapshot cannot finish any more.
    let mut slow = journal.write_snapshot(2).unwrap();
    slow.write_all(&[1; 300_000]).unwrap();
    journal.drop_snapshots(1).unwrap();
    assert!(matches!(
        slow.finish(),
        Err(JournalError::DamagedSnapshot { .. })
    ));
    assert_eq!(count(cluster, &options, "chunk"), 1);
}

fn a_seal_ends_all_appends(cluster: &PostgresqlCluster) {
    let options = fresh(cluster);
    let (mut journal, mut other) = (open(&options), open(&options));
    journal.append(1, &[b"a", b"b"]).unwrap();
    assert_eq!(journal.seal("etcd://elsewhere/p").unwrap(), 2);
    let mut later = open(&options);
    for journal in [&mut journal, &mut other, &mut later] {
        for next in [1, 3] {
            assert!(matches!(
                journal.append(next, &[b"c"]),
                Err(AppendError::Failed(JournalError::Sealed { end: 2, .. }))
            ));
        }
        assert_eq!(entries(journal).len(), 2);
    }
}

fn damage_is_found(cluster: &PostgresqlCluster) {
    let options = fresh(cluster);
    let mut journal = open(&options);
    for first in (1..=40).step_by(4) {
        let records = [[first as u8; 10]; 4];
        let records: Vec<&[u8]> = records.iter().map(|record| &record[..]).collect();
        journal.append(first, &records).unwrap();
    }
    snapshot(&mut journal, 8, &vec![1; 600_000]);
    let verification = verify(&mut journal, &mut |_| ()).unwrap();
    assert!(verification.problems.is_empty());
    let statements = "DELETE FROM batch WHERE first IN (13, 37); \
                      UPDATE batch SET records = 'something else' WHERE first = 25; \
                      DELETE FROM chunk WHERE number = 0";
    sql(cluster, &options, statements);
    let mut journal = open(&options);
    let verification = verify(&mut journal, &mut |_| ()).unwrap();
    let problems = verification.problems.iter().map(ToString::to_string);
    let problems: Vec<String> = problems.collect();
    let has = |text: &str| problems.iter().any(|problem| problem.contains(text));
    assert!(has("the batches do not"), "{problems:#?}");
    assert!(has("lacks entries 13 to 16"), "{problems:#?}");
    assert!(has("damaged: entries 25"), "{problems:#?}");
    assert!(has("a chunk is missing"), "{problems:#?}");
    // The last batch was acknowledged.
    assert!(matches!(
        journal.read(37, &mut |_, _| ControlFlow::Continue(())),
        Err(JournalError::Lost { last: 40, .. })
    ));
}

fn an_older_copy_is_noticed(cluster: &PostgresqlCluster) {
    let options = fresh(cluster);
    let (mut writer, mut reader) = (open(&options), open(&options));
    writer.append(1, &[b"a"]).unwrap();
    sql(cluster, &options, "CREATE TABLE kept AS SELECT * FROM head");
    writer.append(2, &[b"b", b"c"]).unwrap();
    assert_eq!(entries(&mut reader).len(), 3);
    let statements = "DELETE FROM head; INSERT INTO head SELECT * FROM kept; \
                      DELETE FROM batch WHERE first > 1";
    sql(cluster, &options, statements);
    assert!(matches!(
        writer.append(4, &[b"d"]),
        Err(AppendError::Failed(JournalError::Lost {
            first: 2,
            last: 3,
            ..
        }))
    ));
    assert!(matches!(
        reader.durable_end(),
        Err(JournalError::Lost {
            first: 2,
            last: 3,
            ..
        })
    ));
    // Another writer has taken the place of the entries.
    open(&options).append(2, &[b"x", b"y", b"z"]).unwrap();
    assert!(matches!(
        reader.end(),
        Err(JournalError::Lost { last: 3, .. })
    ));
}

fn new_entries_end_the_wait(cluster: &PostgresqlCluster) {
    let options = fresh(cluster);
    let (mut writer, mut reader) = (open(&options), open(&options));
    writer.append(1, &[b"a"]).unwrap();
    let long = Duration::from_secs(600);
    reader.wait_for_entries(0, long).unwrap();
    reader
        .wait_for_entries(1, Duration::from_millis(20))
        .unwrap();
    let waiting = thread::spawn(move || reader.wait_for_entries(1, long));
    writer.append(2, &[b"b"]).unwrap();
    waiting.join().unwrap().unwrap();
}
