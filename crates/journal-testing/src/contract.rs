//! The contract of the trait `Journal`: checks that every implementation has to pass, on a new store each.

#![allow(
    clippy::unwrap_used,
    reason = "a check that cannot go on fails the test that runs it"
)]

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::thread;

use placewright_journal::batch::{self, Link};
use placewright_journal::{AppendError, Journal, JournalError, Resolution, compact, verify};

/// A check, and its name.
pub type NamedCheck = (&'static str, fn(&mut dyn Journal));

/// The checks of the contract, each with the name of its function.
pub const CHECKS: [NamedCheck; 12] = [
    (
        "entries_are_numbered_without_gaps_and_read_in_order",
        entries_are_numbered_without_gaps_and_read_in_order,
    ),
    (
        "reading_stops_where_the_visitor_breaks",
        reading_stops_where_the_visitor_breaks,
    ),
    (
        "only_the_writer_at_the_end_appends",
        only_the_writer_at_the_end_appends,
    ),
    (
        "handles_of_one_store_append_concurrently",
        handles_of_one_store_append_concurrently,
    ),
    (
        "reading_entries_that_were_never_written_is_an_error",
        reading_entries_that_were_never_written_is_an_error,
    ),
    (
        "a_snapshot_is_visible_when_it_is_finished",
        a_snapshot_is_visible_when_it_is_finished,
    ),
    (
        "only_entries_that_a_snapshot_covers_are_trimmed",
        only_entries_that_a_snapshot_covers_are_trimmed,
    ),
    (
        "stats_are_correct_and_compacting_retains_the_requested_entries",
        stats_are_correct_and_compacting_retains_the_requested_entries,
    ),
    (
        "a_seal_ends_the_appends_of_all_handles",
        a_seal_ends_the_appends_of_all_handles,
    ),
    (
        "an_empty_store_begins_where_a_copy_wants_it",
        an_empty_store_begins_where_a_copy_wants_it,
    ),
    (
        "batches_of_another_handle_are_accepted_in_their_places",
        batches_of_another_handle_are_accepted_in_their_places,
    ),
    (
        "a_handle_that_is_ahead_of_its_store_finds_out",
        a_handle_that_is_ahead_of_its_store_finds_out,
    ),
];

/// Runs all checks, each on a new and empty store that `open` opens, and prints the name of each before it runs.
///
/// # Panics
/// When the journal breaks the contract.
pub fn check_contract<J: Journal>(mut open: impl FnMut() -> J) {
    for (name, check) in CHECKS {
        eprintln!("contract: {name}");
        check(&mut open());
    }
}

fn a_seal_ends_the_appends_of_all_handles(journal: &mut dyn Journal) {
    append_numbered(journal, 1, 3);
    let mut other = journal.try_clone().unwrap();
    assert_eq!(journal.seal("elsewhere").unwrap(), 3);
    assert_eq!(other.seal("elsewhere").unwrap(), 3);
    for journal in [journal, other.as_mut()] {
        for next in [3, 4] {
            match journal.append(next, &[b"late"]) {
                Err(AppendError::Failed(JournalError::Sealed {
                    end: 3, moved_to, ..
                })) => assert_eq!(moved_to, "elsewhere"),
                other => panic!("the append is not refused: {other:?}"),
            }
        }
        assert!(matches!(
            journal.seal("another"),
            Err(JournalError::Sealed { .. })
        ));
        assert_eq!(read_from(journal, 1).len(), 3);
        assert_eq!(journal.durable_end().unwrap(), 3);
    }
}

fn an_empty_store_begins_where_a_copy_wants_it(journal: &mut dyn Journal) {
    journal.begin_after(7).unwrap();
    journal.begin_after(7).unwrap();
    assert_eq!(
        (journal.end().unwrap(), journal.first_held().unwrap()),
        (7, 8)
    );
    assert!(matches!(
        journal.begin_after(6),
        Err(JournalError::NotEmpty { end: 7, .. })
    ));
    assert!(matches!(
        journal.append(1, &[b"early"]),
        Err(AppendError::Conflict { next_sequence: 8 })
    ));
    append_numbered(journal, 8, 9);
    write_snapshot(journal, 7, b"state");
    assert!(matches!(
        journal.begin_after(9),
        Err(JournalError::NotEmpty { end: 9, .. })
    ));
    assert_eq!(read_from(journal, 8).len(), 2);
    assert!(verify(journal, &mut |_| ()).unwrap().problems.is_empty());
}

fn read_from(journal: &mut dyn Journal, from: u64) -> Vec<(u64, Vec<u8>)> {
    let mut entries = Vec::new();
    let next = journal.read(from, &mut |sequence, record| {
        entries.push((sequence, record.to_vec()));
        ControlFlow::Continue(())
    });
    assert_eq!(next.unwrap(), from + entries.len() as u64);
    entries
}

fn append_numbered(journal: &mut dyn Journal, first: u64, last: u64) {
    let records: Vec<String> = (first..=last).map(|n| format!("record {n}")).collect();
    let records: Vec<&[u8]> = records.iter().map(String::as_bytes).collect();
    journal.append(first, &records).unwrap();
}

fn write_snapshot(journal: &mut dyn Journal, sequence: u64, bytes: &[u8]) {
    let mut writer = journal.write_snapshot(sequence).unwrap();
    writer.write_all(bytes).unwrap();
    assert_eq!(writer.finish().unwrap().sequence, sequence);
}

fn snapshot_bytes(journal: &mut dyn Journal, sequence: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut reader = journal.read_snapshot(sequence).unwrap();
    reader.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Appends two entries; returns their batch. `None` if the journal does not hand batches over.
fn append_batch(journal: &mut dyn Journal, first: u64) -> Option<(Link, Vec<u8>)> {
    append_numbered(journal, first, first + 1);
    let records = [first, first + 1].map(|n| format!("record {n}"));
    let payload = batch::encode(&[records[0].as_bytes(), records[1].as_bytes()]).unwrap();
    journal.appended().map(|link| (link, payload))
}

fn batches_of_another_handle_are_accepted_in_their_places(journal: &mut dyn Journal) {
    let mut other = journal.try_clone().unwrap();
    let batches: Option<Vec<_>> = [1, 3, 5]
        .map(|first| append_batch(journal, first))
        .into_iter()
        .collect();
    let Some(batches) = batches else {
        return;
    };
    let (link, payload) = &batches[0];
    assert!(
        !other.accept(batches[1].0, &batches[1].1),
        "the first is missing"
    );
    let mut damaged = payload.clone();
    damaged[5] ^= 1;
    assert!(!other.accept(*link, &damaged));
    for wrong in [
        Link { first: 2, ..*link },
        Link { last: 3, ..*link },
        Link {
            previous: link.previous ^ 1,
            ..*link
        },
    ] {
        assert!(!other.accept(wrong, payload), "{wrong:?}");
    }
    for (link, payload) in &batches {
        assert!(other.accept(*link, payload), "{link:?}");
        assert!(!other.accept(*link, payload), "{link:?} again");
    }
    append_numbered(journal, 7, 8);
    assert_eq!(read_from(other.as_mut(), 7).len(), 2);
    let (link, payload) = append_batch(other.as_mut(), 9).unwrap();
    // The batch of entry 5 does not follow entry 8, at which this handle is.
    assert!(!journal.accept(batches[2].0, &batches[2].1));
    assert!(matches!(
        journal.append(9, &[b"late"]),
        Err(AppendError::Conflict { .. })
    ));
    assert_eq!(journal.appended(), None);
    assert!(journal.accept(link, &payload));
    append_numbered(journal, 11, 12);
    assert_eq!(read_from(journal, 1).len(), 12);
    assert!(verify(journal, &mut |_| ()).unwrap().problems.is_empty());
}

/// A store that was restored from a backup has fewer entries than a handle has accepted, or other entries.
fn a_handle_that_is_ahead_of_its_store_finds_out(journal: &mut dyn Journal) {
    let mut other = journal.try_clone().unwrap();
    let Some((link, payload)) = append_batch(journal, 1) else {
        return;
    };
    assert!(other.accept(link, &payload));
    let lost = batch::encode(&[b"lost"]).unwrap();
    let link = Link {
        first: 3,
        last: 3,
        previous: link.checksum,
        checksum: batch::checksum(link.checksum, 3, 3, &lost),
    };
    assert!(other.accept(link, &lost));
    // At first the store lacks the entry 3 that the other handle has accepted; then it has another entry 3.
    for has_replacement in [false, true] {
        if has_replacement {
            append_numbered(journal, 3, 3);
        }
        let appended = other.append(4, &[b"after the lost one"]);
        let has_found_out = match appended {
            Err(AppendError::Failed(JournalError::Lost { last: 3, .. })) => true,
            // By this the caller knows that the store lacks entries that the caller has.
            Err(AppendError::Conflict { next_sequence: 3 }) => true,
            _ => false,
        };
        assert!(has_found_out, "replaced: {has_replacement}: {appended:?}");
    }
    assert_eq!(other.accept_present_end().unwrap(), 3);
    append_numbered(other.as_mut(), 4, 4);
}

fn entries_are_numbered_without_gaps_and_read_in_order(journal: &mut dyn Journal) {
    assert_eq!(
        (journal.end().unwrap(), journal.first_held().unwrap()),
        (0, 1)
    );
    assert_eq!(read_from(journal, 1), []);
    journal.append(1, &[b"a", b"", b"c"]).unwrap();
    journal.append(4, &[&[0xff; 100_000]]).unwrap();
    append_numbered(journal, 5, 30);
    assert_eq!(journal.end().unwrap(), 30);
    let times: Vec<i64> = (1..=30)
        .map(|sequence| journal.appended_at(sequence).unwrap().unwrap())
        .collect();
    // The first three entries are one batch. Times are in microseconds.
    assert!(times.is_sorted() && times[0] == times[2], "{times:?}");
    let age = placewright_journal::batch::now() - times[0];
    assert!((0..3_600_000_000).contains(&age), "{age}");
    for sequence in [0, 31, u64::MAX] {
        assert_eq!(journal.appended_at(sequence).unwrap(), None, "{sequence}");
    }
    let all = read_from(journal, 1);
    assert_eq!(
        all[..3],
        [(1, b"a".to_vec()), (2, vec![]), (3, b"c".to_vec())]
    );
    assert_eq!(all[3], (4, vec![0xff; 100_000]));
    assert_eq!(all[29], (30, b"record 30".to_vec()));
    for from in 1..=31 {
        assert_eq!(read_from(journal, from), all[from as usize - 1..]);
    }
}

fn reading_stops_where_the_visitor_breaks(journal: &mut dyn Journal) {
    append_numbered(journal, 1, 10);
    append_numbered(journal, 11, 20);
    for stop in [1, 10, 11, 20] {
        let next = journal.read(1, &mut |sequence, _| {
            if sequence == stop {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert_eq!(next.unwrap(), stop + 1);
    }
}

fn only_the_writer_at_the_end_appends(journal: &mut dyn Journal) {
    append_numbered(journal, 1, 3);
    for wrong in [0, 1, 3, 5, 1_000] {
        for records in [&[b"x".as_slice()][..], &[]] {
            let result = journal.append(wrong, records);
            assert!(matches!(
                result,
                Err(AppendError::Conflict { next_sequence: 4 })
            ));
        }
    }
    journal.append(4, &[]).unwrap();
    assert_eq!(journal.end().unwrap(), 3);
    append_numbered(journal, 4, 4);
}

fn handles_of_one_store_append_concurrently(journal: &mut dyn Journal) {
    let writers: Vec<_> = (0..4_u8)
        .map(|writer| {
            let mut journal = journal.try_clone().unwrap();
            thread::spawn(move || {
                let mut next = 1;
                for round in 0..25_u8 {
                    loop {
                        match journal.append(next, &[&[writer, round], &[writer, round]]) {
                            Ok(()) => break next += 2,
                            Err(AppendError::Conflict { next_sequence }) => {
                                next = next_sequence;
                            }
                            Err(AppendError::Unknown(_)) => {
                                if journal.resolve().unwrap() == Resolution::Kept {
                                    break next += 2;
                                }
                            }
                            Err(AppendError::Failed(error)) => panic!("{error}"),
                        }
                    }
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|w| w.join().unwrap());
    let entries = read_from(journal, 1);
    assert_eq!(entries.len(), 4 * 25 * 2);
    let mut rounds = [0_u8; 4];
    for pair in entries.chunks(2) {
        assert_eq!(pair[0].1, pair[1].1, "the records of a batch are adjacent");
        let [writer, round] = pair[0].1[..] else {
            panic!()
        };
        assert_eq!(
            round,
            rounds[usize::from(writer)],
            "each writer's order is kept"
        );
        rounds[usize::from(writer)] += 1;
    }
    assert_eq!(rounds, [25; 4]);
}

fn reading_entries_that_were_never_written_is_an_error(journal: &mut dyn Journal) {
    append_numbered(journal, 1, 3);
    assert!(matches!(
        journal.read(6, &mut |_, _| ControlFlow::Continue(())),
        Err(JournalError::Missing {
            first: 4,
            last: 5,
            ..
        })
    ));
    assert!(matches!(
        journal.write_snapshot(4).err(),
        Some(JournalError::Missing {
            first: 4,
            last: 4,
            ..
        })
    ));
    assert!(matches!(
        journal.read_snapshot(3).err(),
        Some(JournalError::NoSnapshot { sequence: 3 })
    ));
}

fn a_snapshot_is_visible_when_it_is_finished(journal: &mut dyn Journal) {
    append_numbered(journal, 1, 9);
    let large: Vec<u8> = (0..9_000_000_u32).map(|n| (n / 7) as u8).collect();
    {
        let mut dropped = journal.write_snapshot(3).unwrap();
        dropped.write_all(&large).unwrap();
        assert_eq!(journal.snapshots().unwrap(), []);
    }
    assert_eq!(journal.snapshots().unwrap(), []);
    write_snapshot(journal, 3, &large);
    write_snapshot(journal, 5, b"");
    write_snapshot(journal, 9, b"nine");
    write_snapshot(journal, 9, b"again");
    let sequences = |journal: &mut dyn Journal| -> Vec<u64> {
        let snapshots = journal.snapshots().unwrap();
        snapshots.iter().map(|s| s.sequence).collect()
    };
    assert_eq!(sequences(journal), [9, 5, 3]);
    assert!(snapshot_bytes(journal, 3) == large);
    assert_eq!(snapshot_bytes(journal, 5), b"");
    assert_eq!(snapshot_bytes(journal, 9), b"again");
    journal.drop_snapshots(2).unwrap();
    assert_eq!(sequences(journal), [9, 5]);
    journal.drop_snapshots(0).unwrap();
    assert_eq!(sequences(journal), [9]);
}

fn only_entries_that_a_snapshot_covers_are_trimmed(journal: &mut dyn Journal) {
    for first in (1..=400).step_by(2) {
        append_numbered(journal, first, first + 1);
    }
    assert!(matches!(
        journal.trim(2),
        Err(JournalError::TrimBeyondSnapshot {
            before: 2,
            snapshot: 0
        })
    ));
    write_snapshot(journal, 300, b"state");
    assert!(matches!(
        journal.trim(302),
        Err(JournalError::TrimBeyondSnapshot {
            before: 302,
            snapshot: 300
        })
    ));
    journal.trim(301).unwrap();
    assert_eq!(journal.first_held().unwrap(), 301);
    journal.trim(200).unwrap();
    assert_eq!(journal.first_held().unwrap(), 301);
    assert_eq!(read_from(journal, 301).len(), 100);
    assert_eq!(journal.appended_at(300).unwrap(), None);
    assert!(journal.appended_at(301).unwrap().is_some());
    assert!(matches!(
        journal.read(300, &mut |_, _| ControlFlow::Continue(())),
        Err(JournalError::Trimmed {
            asked: 300,
            first_held: 301
        })
    ));
    assert!(verify(journal, &mut |_| ()).unwrap().problems.is_empty());

    // All entries may be trimmed; the sequence continues.
    write_snapshot(journal, 400, b"state");
    journal.trim(401).unwrap();
    assert_eq!(
        (journal.first_held().unwrap(), journal.end().unwrap()),
        (401, 400)
    );
    append_numbered(journal, 401, 402);
    assert_eq!(read_from(journal, 401).len(), 2);
    assert!(verify(journal, &mut |_| ()).unwrap().problems.is_empty());
}

fn stats_are_correct_and_compacting_retains_the_requested_entries(journal: &mut dyn Journal) {
    for first in (1..=100).step_by(10) {
        append_numbered(journal, first, first + 9);
    }
    write_snapshot(journal, 95, b"state");
    let stats = journal.stats().unwrap();
    assert_eq!((stats.entries, stats.batches), (100, 10));
    assert_eq!((stats.first_held, stats.end), (1, 100));
    // "record 1" has 8 bytes, "record 10" has 9, and "record 100" has 10.
    assert_eq!(stats.record_bytes, 9 * 8 + 90 * 9 + 10);
    assert_eq!(stats.snapshots.len(), 1);
    let compaction = compact(journal, 30).unwrap();
    assert_eq!(
        (compaction.first_held, compaction.entries_trimmed),
        (71, 70)
    );
    let kept_entries = 0;
    let compaction = compact(journal, kept_entries).unwrap();
    // The snapshot at 95 is in the middle of a batch, which an implementation may keep whole.
    assert!(compaction.first_held > 90 && compaction.first_held <= 96);
    let mut last_visited = 0;
    let verification = verify(journal, &mut |sequence| last_visited = sequence).unwrap();
    assert!(verification.problems.is_empty());
    assert_eq!(last_visited, 100);
    assert_eq!(verification.entries, 101 - compaction.first_held);
    assert_eq!(verification.snapshots, journal.snapshots().unwrap());
}
