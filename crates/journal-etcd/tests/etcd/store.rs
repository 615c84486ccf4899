//! A store on three members: the contract of journals, and what is particular to etcd.

use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use placewright_journal::{AppendError, Journal, JournalError, compact, verify};
use placewright_journal_etcd::{EtcdJournal, EtcdOptions};
use placewright_journal_testing::{EtcdCluster, check_contract};

type Check = (&'static str, fn(&EtcdCluster));

const CHECKS: [Check; 9] = [
    ("the_contract_is_kept", the_contract_is_kept),
    (
        "a_store_is_created_once_and_found_again",
        a_store_is_created_once_and_found_again,
    ),
    ("other_keys_are_refused", other_keys_are_refused),
    (
        "appends_of_every_size_are_atomic",
        appends_of_every_size_are_atomic,
    ),
    (
        "an_abandoned_upload_is_invisible_and_trimmed",
        an_abandoned_upload_is_invisible_and_trimmed,
    ),
    ("a_seal_ends_all_appends", a_seal_ends_all_appends),
    ("damage_is_found", damage_is_found),
    ("an_older_copy_is_noticed", an_older_copy_is_noticed),
    ("calls_work_inside_a_runtime", calls_work_inside_a_runtime),
];

/// One test, because its checks share a cluster, which has to be stopped after the last of them.
#[test]
fn stores_on_a_cluster_work() {
    if !EtcdCluster::available() {
        return;
    }
    let cluster = EtcdCluster::start(3).unwrap();
    for (name, check) in CHECKS {
        let started = Instant::now();
        check(&cluster);
        eprintln!("{name}: {:?}", started.elapsed());
    }
}

/// Options with a prefix that nobody else uses.
fn fresh(cluster: &EtcdCluster) -> EtcdOptions {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    EtcdOptions::parse(&format!("etcd://{}/test/{number}", cluster.address())).unwrap()
}

fn open(options: &EtcdOptions) -> EtcdJournal {
    EtcdJournal::open(options).unwrap()
}

fn entries(journal: &mut dyn Journal) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    let from = journal.first_held().unwrap();
    let read = journal.read(from, &mut |_, record| {
        entries.push(record.to_vec());
        ControlFlow::Continue(())
    });
    read.unwrap();
    entries
}

fn snapshot(journal: &mut dyn Journal, sequence: u64, bytes: &[u8]) {
    let mut writer = journal.write_snapshot(sequence).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap();
}

/// Bytes in base64, which etcd's JSON API has for keys and values.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            let is_padding = digit > chunk.len();
            text.push(if is_padding {
                '='
            } else {
                DIGITS[value as usize].into()
            });
        }
    }
    text
}

fn put(cluster: &EtcdCluster, key: &str, value: &[u8]) {
    let (key, value) = (base64(key.as_bytes()), base64(value));
    let body = format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}");
    cluster.post(0, "/v3/kv/put", &body).unwrap();
}

/// Whether a key exists that begins with `prefix`.
fn has_key(cluster: &EtcdCluster, prefix: &str) -> bool {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().unwrap() += 1;
    let (key, end) = (base64(prefix.as_bytes()), base64(&end));
    let body = format!("{{\"key\":\"{key}\",\"range_end\":\"{end}\",\"count_only\":true}}");
    let answer = cluster.post(0, "/v3/kv/range", &body).unwrap();
    answer.contains("\"count\"")
}

fn delete(cluster: &EtcdCluster, key: &str) {
    let body = format!("{{\"key\":\"{}\"}}", base64(key.as_bytes()));
    cluster.post(0, "/v3/kv/deleterange", &body).unwrap();
}

fn the_contract_is_kept(cluster: &EtcdCluster) {
    check_contract(|| open(&fresh(cluster)));
}

fn a_store_is_created_once_and_found_again(cluster: &EtcdCluster) {
    let options = fresh(cluster);
    let openers: Vec<_> = (0..3)
        .map(|_| {
            let options = options.clone();
            thread::spawn(move || open(&options))
        })
        .collect();
    let mut journals: Vec<EtcdJournal> = openers.into_iter().map(|o| o.join().unwrap()).collect();
    journals[0].append(1, &[b"a", b"b"]).unwrap();
    assert!(matches!(
        journals[1].append(1, &[b"late"]),
        Err(AppendError::Conflict { next_sequence: 3 })
    ));
    journals[1].append(3, &[b"c"]).unwrap();
    let mut again = open(&options);
    assert_eq!(again.url(), options.to_string());
    assert_eq!(entries(&mut again), [b"a", b"b", b"c"]);
    assert_eq!(again.head().unwrap().epoch, 0);
    assert_eq!(journals[0].take_over().unwrap().epoch, 1);
    // A handle that saw the old epoch gets a conflict, although it has not missed an entry.
    assert!(matches!(
        again.append(4, &[b"d"]),
        Err(AppendError::Conflict { next_sequence: 4 })
    ));
    again.append(4, &[b"d"]).unwrap();
    let head = again.take_over().unwrap();
    assert_eq!((head.epoch, head.end), (2, 4));
}

fn other_keys_are_refused(cluster: &EtcdCluster) {
    let options = fresh(cluster);
    put(cluster, &format!("{}/something", options.prefix), b"x");
    assert!(matches!(
        EtcdJournal::open(&options).err(),
        Some(JournalError::NotAJournal { .. })
    ));
    let options = fresh(cluster);
    put(cluster, &format!("{}/head", options.prefix), b"x");
    assert!(matches!(
        EtcdJournal::open(&options).err(),
        Some(JournalError::NotAJournal { .. })
    ));
    let options = fresh(cluster);
    // The frame of a head in format 7; see `rows.rs`.
    put(
        cluster,
        &format!("{}/head", options.prefix),
        b"PWH\x07....and more",
    );
    assert!(matches!(
        EtcdJournal::open(&options).err(),
        Some(JournalError::NewerFormat {
            found: 7,
            supported: 1,
            ..
        })
    ));
    let nobody = EtcdOptions::parse("etcd://127.0.0.1:1/p").unwrap();
    assert!(matches!(
        EtcdJournal::open(&nobody).err(),
        Some(JournalError::Unreachable { .. })
    ));
}

fn appends_of_every_size_are_atomic(cluster: &EtcdCluster) {
    let options = fresh(cluster);
    let mut journal = open(&options);
    let record = |bytes: usize, seed: usize| -> Vec<u8> {
        (0..bytes).map(|n| (n * 7 + n / 251 + seed) as u8).collect()
    };
    let mut expected: Vec<Vec<u8>> = Vec::new();
    // These batches are stored in all three ways: in one value, in parts within the transaction, and in parts written
    // before the transaction.
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
    assert!(
        verify(&mut journal, &mut |_| ())
            .unwrap()
            .problems
            .is_empty()
    );
    let stats = journal.stats().unwrap();
    assert_eq!(stats.record_bytes, 3 * 1000 + 400_000 + (8 << 20) + 10);
    // A conflict leaves nothing of a large batch.
    let mut other = open(&options);
    journal.append(52, &[b"first"]).unwrap();
    let large = vec![1; 2 << 20];
    assert!(matches!(
        other.append(52, &[&large]),
        Err(AppendError::Conflict { next_sequence: 53 })
    ));
    assert!(!has_key(
        cluster,
        &format!("{}/p/{:016x}/", options.prefix, 52)
    ));
    let end = journal.end().unwrap();
    snapshot(&mut journal, end, b"state");
    compact(&mut journal, 0).unwrap();
    for kind in ["b", "p", "q"] {
        assert!(!has_key(cluster, &format!("{}/{kind}/", options.prefix)));
    }
    assert_eq!(journal.stats().unwrap().record_bytes, 0);
}

fn an_abandoned_upload_is_invisible_and_trimmed(cluster: &EtcdCluster) {
    let options = fresh(cluster);
    let mut journal = open(&options);
    journal.append(1, &[b"a"]).unwrap();
    // A writer that is killed before its transaction leaves such a part.
    let part = format!("{}/p/{:016x}/{:032x}/{:08x}", options.prefix, 2, 77, 0);
    put(cluster, &part, b"part of a batch");
    assert_eq!(journal.end().unwrap(), 1);
    assert_eq!(entries(&mut journal), [b"a"]);
    snapshot(&mut journal, 1, b"state");
    // The head is still the one that the writer saw, so the writer may still be at work, and the part stays.
    journal.trim(2).unwrap();
    assert!(has_key(cluster, &part));
    let large = vec![7; 2 << 20];
    journal.append(2, &[&large]).unwrap();
    journal.append(3, &[b"c"]).unwrap();
    journal.trim(2).unwrap();
    assert!(!has_key(cluster, &part));
    assert_eq!(entries(&mut journal), [large, b"c".to_vec()]);

    // Chunks of a snapshot that was never finished are removed after a newer snapshot was finished.
    let chunk = format!("{}/c/{:016x}/{:032x}/{:08x}", options.prefix, 2, 77, 0);
    put(cluster, &chunk, b"chunk");
    journal.drop_snapshots(2).unwrap();
    assert!(has_key(cluster, &chunk));
    snapshot(&mut journal, 3, b"newer");
    journal.drop_snapshots(1).unwrap();
    assert!(!has_key(cluster, &chunk));
    let mut state = String::new();
    let mut reader = journal.read_snapshot(3).unwrap();
    reader.read_to_string(&mut state).unwrap();
    assert_eq!(state, "newer");
}

fn a_seal_ends_all_appends(cluster: &EtcdCluster) {
    let options = fresh(cluster);
    let (mut journal, mut other) = (open(&options), open(&options));
    journal.append(1, &[b"a", b"b"]).unwrap();
    other.append(3, &[b"c"]).unwrap();
    assert_eq!(journal.seal("etcd://elsewhere/p").unwrap(), 3);
    assert_eq!(other.seal("etcd://elsewhere/p").unwrap(), 3);
    let mut later = open(&options);
    let mut handle = other.try_clone().unwrap();
    for journal in [
        &mut journal as &mut dyn Journal,
        &mut other,
        &mut later,
        &mut handle,
    ] {
        for next in [3, 4] {
            let Err(AppendError::Failed(JournalError::Sealed {
                end: 3, moved_to, ..
            })) = journal.append(next, &[b"d"])
            else {
                panic!("the append is not refused")
            };
            assert_eq!(moved_to, "etcd://elsewhere/p");
        }
        assert_eq!(entries(journal).len(), 3);
    }
    for sealed in [later.seal("sqlite:/x").err(), later.take_over().err()] {
        assert!(matches!(sealed, Some(JournalError::Sealed { .. })));
    }
}

fn damage_is_found(cluster: &EtcdCluster) {
    let options = fresh(cluster);
    let mut journal = open(&options);
    for first in (1..=40).step_by(4) {
        let records = [[first as u8; 10]; 4];
        let records: Vec<&[u8]> = records.iter().map(|record| &record[..]).collect();
        journal.append(first, &records).unwrap();
    }
    snapshot(&mut journal, 8, &vec![1; 600_000]);
    assert!(
        verify(&mut journal, &mut |_| ())
            .unwrap()
            .problems
            .is_empty()
    );
    let batch = |first: u64| format!("{}/b/{first:016x}", options.prefix);
    delete(cluster, &batch(13));
    put(cluster, &batch(25), b"something else");
    delete(cluster, &batch(37));
    let first_of_chunks = format!("{}/c/{:016x}/", options.prefix, 8);
    let body = format!(
        "{{\"key\":\"{}\",\"range_end\":\"{}\",\"keys_only\":true,\"limit\":1}}",
        base64(first_of_chunks.as_bytes()),
        base64(format!("{}/c0", options.prefix).as_bytes())
    );
    let answer = cluster.post(0, "/v3/kv/range", &body).unwrap();
    let key = answer.split("\"key\":\"").nth(1).unwrap();
    let key = key.split('"').next().unwrap();
    let body = format!("{{\"key\":\"{key}\"}}");
    cluster.post(0, "/v3/kv/deleterange", &body).unwrap();

    let mut journal = open(&options);
    let verification = verify(&mut journal, &mut |_| ()).unwrap();
    let problems: Vec<String> = verification
        .problems
        .iter()
        .map(ToString::to_string)
        .collect();
    let has = |text: &str| problems.iter().any(|problem| problem.contains(text));
    assert!(has("the batches do not"), "{problems:#?}");
    assert!(has("lacks entries 13 to 16"), "{problems:#?}");
    assert!(has("damaged: entries 25"), "{problems:#?}");
    assert!(has("a chunk is missing"), "{problems:#?}");
    assert!(matches!(
        journal.read(37, &mut |_, _| ControlFlow::Continue(())),
        Err(JournalError::Missing {
            first: 37,
            last: 40,
            ..
        })
    ));
}

fn an_older_copy_is_noticed(cluster: &EtcdCluster) {
    let options = fresh(cluster);
    let (mut writer, mut reader) = (open(&options), open(&options));
    writer.append(1, &[b"a"]).unwrap();
    let head = base64(format!("{}/head", options.prefix).as_bytes());
    let get = format!("{{\"key\":\"{head}\"}}");
    let answer = cluster.post(0, "/v3/kv/range", &get).unwrap();
    let value = answer.split("\"value\":\"").nth(1).unwrap();
    let value = value.split('"').next().unwrap();
    writer.append(2, &[b"b", b"c"]).unwrap();
    assert_eq!(reader.end().unwrap(), 3);
    let put = format!("{{\"key\":\"{head}\",\"value\":\"{value}\"}}");
    cluster.post(0, "/v3/kv/put", &put).unwrap();
    assert!(matches!(
        writer.append(4, &[b"d"]),
        Err(AppendError::Failed(JournalError::Lost {
            first: 2,
            last: 3,
            ..
        }))
    ));
    assert!(matches!(
        reader.end(),
        Err(JournalError::Lost {
            first: 2,
            last: 3,
            ..
        })
    ));
    // A handle that has accepted the present end of the store can append the entries again.
    assert_eq!(writer.accept_present_end().unwrap(), 1);
    writer.append(2, &[b"b", b"c"]).unwrap();
    assert_eq!(reader.accept_present_end().unwrap(), 3);
    assert_eq!(
        reader
            .read(1, &mut |_, _| ControlFlow::Continue(()))
            .unwrap(),
        4
    );
}

fn calls_work_inside_a_runtime(cluster: &EtcdCluster) {
    let options = fresh(cluster);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async move {
        let mut journal = open(&options);
        journal.append(1, &[b"asynchronous"]).unwrap();
        let blocking = tokio::task::spawn_blocking(move || {
            journal.append(2, &[b"blocking"]).unwrap();
            journal
        });
        let mut journal = blocking.await.unwrap();
        assert_eq!(journal.end().unwrap(), 2);
    });
}
