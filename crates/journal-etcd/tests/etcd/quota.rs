//! A cluster whose database is at its quota.

use placewright_journal::{AppendError, Journal, JournalError};
use placewright_journal_etcd::{EtcdJournal, EtcdOptions};
use placewright_journal_testing::{EtcdCluster, EtcdClusterOptions};

/// The text after a name in JSON, up to the end of its value.
fn value<'a>(json: &'a str, name: &str) -> &'a str {
    let rest = json.split(&format!("\"{name}\":\"")).nth(1).unwrap();
    rest.split('"').next().unwrap()
}

#[test]
fn a_full_database_keeps_nothing_and_serves_again_when_it_is_cleaned() {
    if !EtcdCluster::available() {
        return;
    }
    let options = EtcdClusterOptions {
        quota_bytes: Some(4 << 20),
        ..EtcdClusterOptions::default()
    };
    let cluster = EtcdCluster::start_with(1, &options).unwrap();
    let options = EtcdOptions::parse(&format!("etcd://{}/p", cluster.address())).unwrap();
    let mut journal = EtcdJournal::open(&options).unwrap();
    journal.append(1, &[b"before"]).unwrap();
    // Old values of one key, `x` (`eA==` in base64), fill the database.
    let filler = format!(
        "{{\"key\":\"eA==\",\"value\":\"{}\"}}",
        "AAAA".repeat(50_000)
    );
    while cluster.post(0, "/v3/kv/put", &filler).is_ok() {}
    for bytes in [10, 2 << 20] {
        let record = vec![1; bytes];
        let Err(AppendError::Failed(error)) = journal.append(2, &[&record]) else {
            panic!("the append is not refused")
        };
        assert!(matches!(error, JournalError::NoSpace { .. }), "{error}");
        assert!(
            error.to_string().contains("etcdctl alarm disarm"),
            "{error}"
        );
    }
    assert_eq!(journal.end().unwrap(), 1);
    assert!(matches!(
        EtcdJournal::open(&options).err(),
        Some(JournalError::NoSpace { .. })
    ));

    let answer = cluster.post(0, "/v3/kv/range", "{\"key\":\"eA==\",\"count_only\":true}");
    let answer = answer.unwrap();
    let (revision, member) = (value(&answer, "revision"), value(&answer, "member_id"));
    let compaction = format!("{{\"revision\":\"{revision}\",\"physical\":true}}");
    cluster.post(0, "/v3/kv/compaction", &compaction).unwrap();
    cluster.post(0, "/v3/maintenance/defragment", "{}").unwrap();
    let disarm =
        format!("{{\"action\":\"DEACTIVATE\",\"alarm\":\"NOSPACE\",\"memberID\":\"{member}\"}}");
    cluster.post(0, "/v3/maintenance/alarm", &disarm).unwrap();
    journal.append(2, &[b"after"]).unwrap();
    assert_eq!(EtcdJournal::open(&options).unwrap().end().unwrap(), 2);
}
