//! What somebody with a stolen certificate or word may try on an authority.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use placewright_identity::{AgentNames, HostPattern, Identity, NAMES_MAX, Role};
use placewright_pki::{
    Authority, Credentials, Entry, Grant, KeyRequest, RENEWED_MAX, Renewals, enrolled, holder, now,
};
use tempfile::TempDir;

const NAME: &str = "placewright://test/cell/c1/host/h1";

fn authority() -> (TempDir, Authority) {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::create(&folder.path().join("pki"), "test").unwrap();
    (folder, authority)
}

fn agent(hosts: impl IntoIterator<Item = String>) -> Grant {
    let names = AgentNames {
        cell: "c1".into(),
        hosts: hosts.into_iter().map(HostPattern::Named).collect(),
        services: BTreeSet::new(),
    };
    Grant::new(Identity::new("test", Role::Agent(names)).unwrap())
}

fn is_thiefs(entry: &Entry) -> bool {
    entry.names == [NAME]
}

#[test]
fn nobody_renews_faster_than_an_operator_revokes() {
    let (_folder, authority) = authority();
    let request = KeyRequest::new().unwrap().request;
    let grant = agent(["h1".to_owned()]);
    let mut newest = authority.issue(&grant, &request, "issue").unwrap();
    let renewed = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok(next) = authority.renew(&newest.chain[0], &request) {
                newest = next;
                renewed.fetch_add(1, Ordering::Relaxed);
            }
        });
        while renewed.load(Ordering::Relaxed) < 20 {
            thread::yield_now();
        }
        authority.revoke(is_thiefs).unwrap();
    });
    let left = authority.entries().unwrap();
    let left = left.iter().filter(|(_, revocation)| revocation.is_none());
    assert_eq!(left.count(), 0, "a certificate escaped");
}

#[test]
fn revoking_a_name_withdraws_its_words() {
    let (_folder, authority) = authority();
    let request = KeyRequest::new().unwrap().request;
    let hour = Duration::from_secs(3600);
    let word = authority.invite(&agent(["h1".to_owned()]), hour).unwrap();
    let other = authority.invite(&agent(["h2".to_owned()]), hour).unwrap();
    let revoked = authority.revoke(is_thiefs).unwrap();
    assert_eq!(revoked.len(), 1);
    assert_eq!(
        (revoked[0].by.as_str(), revoked[0].serial.as_str()),
        ("invite", "")
    );
    assert!(authority.enrol(&word.id, &word.secret, &request).is_err());
    assert!(authority.enrol(&other.id, &other.secret, &request).is_ok());
}

#[test]
fn whoever_passes_a_certificate_on_has_no_say_in_whom_to_trust() {
    let (folder, authority) = authority();
    let (_foreign_folder, foreign) = self::authority();
    let grant = agent(["h1".to_owned()]);
    let request = KeyRequest::new().unwrap();
    let issue = |by: &Authority, grant| by.issue(grant, &request.request, "issue").unwrap();
    let good = issue(&authority, &grant);
    // An enrolment.
    let hour = Duration::from_secs(3600);
    let word = authority.invite(&grant, hour).unwrap();
    assert_eq!(enrolled(&word, &good).unwrap().identity, grant.identity);
    let mut more = good.clone();
    more.authorities.push(foreign.certificate().clone());
    assert!(enrolled(&word, &more).is_err());
    let mut forged = issue(&foreign, &grant);
    assert!(enrolled(&word, &forged).is_err());
    forged.authorities.clone_from(&good.authorities);
    assert!(enrolled(&word, &forged).is_err());
    // A renewal.
    let path = folder.path().join("agent");
    holder::write(&path, &request, &good).unwrap();
    let present = Credentials::load(&path, None).unwrap().current();
    assert_eq!(present.renewed(more).unwrap().authorities, good.authorities);
    assert!(present.renewed(forged).is_err());
    let other = issue(&authority, &agent(["h2".to_owned()]));
    let why = present.renewed(other).unwrap_err().to_string();
    assert!(why.contains("is that of"), "{why}");
}

#[test]
fn a_long_ledger_stops_nobody() {
    let (_folder, authority) = authority();
    let request = KeyRequest::new().unwrap().request;
    let many = agent((0..NAMES_MAX).map(|number| format!("a-host-with-a-long-name-{number}")));
    authority.issue(&many, &request, "issue").unwrap();
    let path = authority.directory().join("issued.jsonl");
    let line = fs::read(&path).unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    for _ in 0..=(17 << 20) / line.len() {
        file.write_all(&line).unwrap();
    }
    let grant = agent(["h1".to_owned()]);
    authority.issue(&grant, &request, "issue").unwrap();
    assert_eq!(authority.revoke(is_thiefs).unwrap().len(), 1);
}

#[test]
fn a_line_that_was_cut_off_is_taken_away() {
    let (_folder, authority) = authority();
    let request = KeyRequest::new().unwrap().request;
    let grant = agent(["h1".to_owned()]);
    let path = authority.directory().join("issued.jsonl");
    for cut in ["x".to_owned(), "x".repeat(4096), "x".repeat(10_000)] {
        let before = authority.entries().unwrap().len();
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .unwrap();
        file.write_all(cut.as_bytes()).unwrap();
        authority.issue(&grant, &request, "issue").unwrap();
        assert_eq!(authority.entries().unwrap().len(), before + 1);
    }
}

/// Commands are often run by root, and the service is not root: a revocation list that it cannot read
/// would revoke nothing. Only root can try it.
#[test]
fn what_root_writes_the_service_can_read() {
    const SERVICE: u32 = 12_345;
    let (_folder, authority) = authority();
    let directory = authority.directory();
    if chown(directory, Some(SERVICE), Some(SERVICE)).is_err() {
        return;
    }
    for entry in fs::read_dir(directory).unwrap() {
        chown(entry.unwrap().path(), Some(SERVICE), Some(SERVICE)).unwrap();
    }
    let request = KeyRequest::new().unwrap().request;
    let grant = agent(["h1".to_owned()]);
    authority.issue(&grant, &request, "issue").unwrap();
    authority.invite(&grant, Duration::from_secs(9)).unwrap();
    authority.revoke(|entry| !entry.serial.is_empty()).unwrap();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(
            entry.metadata().unwrap().uid(),
            SERVICE,
            "{}",
            entry.path().display()
        );
    }
}

#[test]
fn renewals_of_one_holder_come_to_an_end() {
    let mut renewals = Renewals::default();
    let (thief, other) = (
        agent(["h1".to_owned()]).identity,
        agent(["h2".to_owned()]).identity,
    );
    let now = now();
    for _ in 0..RENEWED_MAX {
        assert!(renewals.may_add(&thief, now));
        renewals.add(&thief, now + 10);
    }
    assert!(!renewals.may_add(&thief, now + 10));
    assert!(renewals.may_add(&other, now));
    assert!(
        renewals.may_add(&thief, now + 11),
        "those that ended do not count"
    );
}
