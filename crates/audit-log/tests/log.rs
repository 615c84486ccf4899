//! The public API of the audit log.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use placewright_audit_log::{
    AuditLog, AuditLogMetrics, AuditLogOptions, Caller, Destination, Event, HeldAllocations, Note,
    Outcome, Reason, RequestNotes, current_note, with_note,
};
use prometheus_client::registry::Registry;
use serde_json::Value;
use uuid::Uuid;

fn event(number: usize) -> Event {
    Event {
        at: SystemTime::now(),
        service: "placement",
        method: "DELETE".to_owned(),
        route: Some("/allocations/{consumer_uuid}"),
        path: format!("/allocations/{number}"),
        request_id: None,
        global_request_id: None,
        caller: Caller::default(),
        outcome: Outcome::Success,
        reason: Reason {
            kind: "HTTP",
            code: Some("204".to_owned()),
            text: None,
        },
        location: None,
        noted: RequestNotes::default(),
    }
}

fn start(destination: Destination, queue_bytes_max: usize, registry: &mut Registry) -> AuditLog {
    let options = AuditLogOptions {
        destination,
        queue_bytes_max,
    };
    AuditLog::start(&options, AuditLogMetrics::new(registry))
        .unwrap()
        .unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn events_offered_before_the_end_are_in_the_file_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let log = start(
        Destination::File(path.clone()),
        16 << 20,
        &mut Registry::default(),
    );
    for number in 0..5000 {
        log.offer(event(number));
    }
    log.close();
    let ids: Vec<String> = lines(&path)
        .iter()
        .map(|line| line["target"]["id"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        ids.iter()
            .eq(&(0..5000).map(|n| n.to_string()).collect::<Vec<_>>())
    );
}

#[test]
fn left_out_events_are_counted_in_a_line_and_in_the_metrics() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let syslog = UnixDatagram::bind(&path).unwrap();
    let mut registry = Registry::default();
    let log = start(Destination::Syslog(path), 20_000, &mut registry);
    let offered = 3000;
    // Nobody reads the socket meanwhile, so it soon accepts no more lines, and the queue gets full.
    for number in 0..offered {
        log.offer(event(number));
    }
    // From here on the socket is read, and accepts lines again.
    let timeout = Some(Duration::from_secs(5));
    syslog.set_read_timeout(timeout).unwrap();
    let (mut written, mut missing) = (0, 0);
    let mut message = vec![0; 1 << 16];
    while written + missing < offered as u64 {
        let Ok(bytes) = syslog.recv(&mut message) else {
            panic!("{written} lines and {missing} left out of {offered}");
        };
        let text = std::str::from_utf8(&message[..bytes]).unwrap();
        let (_, line) = text.split_once(": ").unwrap();
        let line: Value = serde_json::from_str(line).unwrap();
        match line["leftOut"].as_u64() {
            Some(count) => missing += count,
            None => written += 1,
        }
    }
    log.close();
    assert!(missing > 0);
    assert_eq!(written + missing, offered as u64);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for (name, count) in [("lines", written), ("left_out", missing)] {
        let line = format!("placewright_audit_log_{name}_total {count}\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
}

#[test]
fn a_note_belongs_to_the_tasks_of_one_request() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let note = Arc::new(Note::default());
    runtime.block_on(async {
        let other = async {
            tokio::task::yield_now().await;
            assert!(current_note().is_none());
        };
        let noting = with_note(Some(Arc::clone(&note)), async {
            tokio::task::yield_now().await;
            let held = |consumer: &str| HeldAllocations {
                consumer: consumer.to_owned(),
                sequence: 0,
                project_id: None,
                user_id: None,
                allocations: vec![(Uuid::nil(), vec![("VCPU".to_owned(), 1)])],
            };
            let note = current_note().unwrap();
            note.add_entry(7, [held("one")]);
            note.add_entry(9, [held("two")]);
        });
        tokio::join!(other, noting);
    });
    let noted = note.take();
    assert_eq!(noted.sequence, Some(9));
    let held: Vec<_> = noted
        .held
        .iter()
        .map(|held| (&*held.consumer, held.sequence))
        .collect();
    assert_eq!(held, [("one", 7), ("two", 9)]);
}
