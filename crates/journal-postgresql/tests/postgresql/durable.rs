//! Durability with standbys. Commits that the primary shows although no standby has them are neither acknowledged nor
//! handed out by the journal; acknowledged entries that a failover drops are reported; and a primary without
//! synchronous standbys has to be allowed.

use std::ops::ControlFlow;
use std::time::Duration;

use placewright_journal::{AppendError, Journal, JournalError, Resolution};
use placewright_journal_postgresql::{PostgresqlJournal, PostgresqlNotice, PostgresqlOptions};
use placewright_journal_testing::{PostgresqlCluster, PostgresqlClusterOptions};

fn options(cluster: &PostgresqlCluster) -> PostgresqlOptions {
    let address = cluster.address();
    let url = format!("postgresql://{address}/placewright?timeout_ms=600&connect_timeout_ms=400");
    PostgresqlOptions::parse(&url).unwrap()
}

fn read(journal: &mut dyn Journal, from: u64) -> Result<Vec<Vec<u8>>, JournalError> {
    let mut records = Vec::new();
    journal.read(from, &mut |_, record| {
        records.push(record.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(records)
}

/// Ends all waits for standbys, as an administrator may do. The commits that waited become visible.
const END_WAITS: &str =
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

#[test]
fn an_entry_that_no_standby_has_is_neither_acknowledged_nor_handed_out() {
    if !PostgresqlCluster::available() {
        return;
    }
    let mut cluster = PostgresqlCluster::start(2).unwrap();
    let options = options(&cluster);
    let mut writer = PostgresqlJournal::open(&options).unwrap();
    let mut reader = PostgresqlJournal::open(&options).unwrap();
    writer.append(1, &[b"a"]).unwrap();
    // The standbys are killed and not suspended: a suspended one would have the entry in the buffer of its connection,
    // and write it when it is resumed.
    cluster.kill(1).unwrap();
    cluster.kill(2).unwrap();
    assert!(matches!(
        writer.append(2, &[b"b"]),
        Err(AppendError::Unknown(JournalError::Unreachable { .. }))
    ));
    assert!(writer.resolve().is_err());
    // Before the wait for standbys is cancelled, nobody sees the entry. After that it can be seen, but is not given to
    // readers.
    assert_eq!(reader.end().unwrap(), 1);
    while cluster.sql(0, END_WAITS).unwrap().trim() != "" {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(reader.end().unwrap(), 2);
    assert_eq!(read(&mut reader, 1).unwrap(), [b"a"]);
    for error in [read(&mut reader, 2).err(), reader.durable_end().err()] {
        assert!(matches!(error, Some(JournalError::Unreachable { .. })));
    }
    assert!(writer.resolve().is_err());

    // The standbys never had the entry, so a failover drops it. That is no loss, because it was not acknowledged.
    cluster.kill(0).unwrap();
    for standby in [1, 2] {
        cluster.start_again(standby).unwrap();
        cluster.wait_until_ready(standby).unwrap();
    }
    let last_entry = "SELECT last FROM placewright.head";
    assert_eq!(cluster.sql(1, last_entry).unwrap().trim(), "1");
    cluster.promote(1).unwrap();
    cluster.wait_until_attached(1).unwrap();
    let resolution = loop {
        match writer.resolve() {
            Ok(resolution) => break resolution,
            Err(JournalError::Unreachable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    // No other writer has appended an entry 2 meanwhile, so `resolve` sent the append again.
    assert_eq!(resolution, Resolution::Kept);
    assert_eq!(reader.durable_end().unwrap(), 2);
    assert_eq!(read(&mut reader, 1).unwrap(), [b"a", b"b"]);
}

#[test]
fn an_append_whose_wait_was_cancelled_is_acknowledged_only_with_a_standby() {
    if !PostgresqlCluster::available() {
        return;
    }
    let cluster = PostgresqlCluster::start(1).unwrap();
    let mut options = options(&cluster);
    options.request_timeout = Duration::from_secs(30);
    let mut writer = PostgresqlJournal::open(&options).unwrap();
    writer.append(1, &[b"a"]).unwrap();
    cluster.stop(1).unwrap();
    std::thread::scope(|scope| {
        let appending = scope.spawn(|| writer.append(2, &[b"b"]));
        while cluster.sql(0, END_WAITS).unwrap().trim() == "" {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The server reports success, with a warning. The journal waits for the standby nevertheless.
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        while cluster.sql(0, waits).unwrap().trim() != "1" {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(
            cluster
                .sql(0, "SELECT last FROM placewright.head")
                .unwrap()
                .trim(),
            "2"
        );
        assert!(!appending.is_finished());
        cluster.resume(1).unwrap();
        appending.join().unwrap().unwrap();
    });
    assert_eq!(writer.durable_end().unwrap(), 2);
}

#[test]
fn entries_that_a_failover_drops_are_reported() {
    if !PostgresqlCluster::available() {
        return;
    }
    let mut cluster = PostgresqlCluster::start(2).unwrap();
    let options = options(&cluster);
    let mut writer = PostgresqlJournal::open(&options).unwrap();
    writer.append(1, &[b"a"]).unwrap();
    let last_entry = "SELECT last FROM placewright.head";
    while cluster
        .sql(2, last_entry)
        .ok()
        .is_none_or(|last| last.trim() != "1")
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The standby that lacks acknowledged entries becomes the primary.
    cluster.kill(2).unwrap();
    writer.append(2, &[b"b"]).unwrap();
    writer.append(3, &[b"c"]).unwrap();
    cluster.kill(0).unwrap();
    cluster.kill(1).unwrap();
    cluster.start_again(2).unwrap();
    cluster.wait_until_ready(2).unwrap();
    cluster.promote(2).unwrap();
    let error = loop {
        match writer.end() {
            Err(JournalError::Unreachable { .. }) => {}
            Err(error) => break error,
            Ok(end) => panic!("the end is {end}"),
        }
    };
    let is_reported = matches!(
        error,
        JournalError::Lost {
            first: 2,
            last: 3,
            ..
        }
    );
    assert!(is_reported, "{error}");
}

#[test]
fn a_server_without_standbys_is_refused_unless_that_is_allowed() {
    if !PostgresqlCluster::available() {
        return;
    }
    let settings = PostgresqlClusterOptions {
        synchronous_standby_names: String::new(),
        ..PostgresqlClusterOptions::default()
    };
    let cluster = PostgresqlCluster::start_with(0, &settings).unwrap();
    let mut options = options(&cluster);
    let refused = PostgresqlJournal::open(&options).err().unwrap();
    assert!(matches!(refused, JournalError::Unsuitable { .. }));
    let text = refused.to_string();
    assert!(text.contains("synchronous_standby_names") && text.contains("allow_async"));

    options.allow_async = true;
    let mut journal = PostgresqlJournal::open(&options).unwrap();
    let notice = PostgresqlNotice::Asynchronous {
        host: cluster.address(),
    };
    assert_eq!(journal.notices(), [notice]);
    journal.append(1, &[b"a"]).unwrap();
    assert_eq!(journal.durable_end().unwrap(), 1);

    // When the setting is removed later, an append fails as soon as its session knows the new setting, and nothing is
    // written.
    let set = |names: &str| {
        let statement = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        cluster.sql(0, &statement).unwrap();
        cluster.sql(0, "SELECT pg_reload_conf()").unwrap();
    };
    set("s1");
    options.allow_async = false;
    let mut strict = loop {
        match PostgresqlJournal::open(&options) {
            Ok(journal) => break journal,
            Err(error) => assert!(matches!(error, JournalError::Unsuitable { .. }), "{error}"),
        }
    };
    set("");
    let mut end = 1;
    let error = loop {
        match strict.append(end + 1, &[b"b"]) {
            Ok(()) => end += 1,
            Err(AppendError::Failed(error)) => break error,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(error, JournalError::Unsuitable { .. }), "{error}");
    assert_eq!(journal.end().unwrap(), end);
}

#[test]
fn what_was_acknowledged_is_handed_out_without_a_standby() {
    if !PostgresqlCluster::available() {
        return;
    }
    let cluster = PostgresqlCluster::start(1).unwrap();
    let options = options(&cluster);
    let mut writer = PostgresqlJournal::open(&options).unwrap();
    let mut reader = PostgresqlJournal::open(&options).unwrap();
    writer.append(1, &[b"a"]).unwrap();
    writer.finish_deferred();
    let acknowledged = "SELECT acknowledged FROM placewright.head";
    while cluster.sql(0, acknowledged).unwrap().trim() != "1" {
        std::thread::sleep(Duration::from_millis(5));
    }
    cluster.stop(1).unwrap();
    assert_eq!(read(&mut reader, 1).unwrap(), [b"a"]);
    // While the standby is suspended, nobody can tell which entry is the last durable one.
    assert!(matches!(
        reader.durable_end(),
        Err(JournalError::Unreachable { .. })
    ));
    cluster.resume(1).unwrap();
    assert_eq!(reader.durable_end().unwrap(), 1);
}
