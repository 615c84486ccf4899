//! Attacks on an authority: with a stolen certificate, with a stolen word, or from between the authority and a
//! holder. And the authority's files when they are long, damaged or written by root.

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
    Authority, Credentials, Grant, KeyRequest, RENEWED_MAX, RegisterEntry, Renewals,
    check_enrolment, holder, now,
};
use tempfile::TempDir;

/// The name in the certificates of the host `h1`, which the tests take for stolen.
const NAME: &str = "placewright://test/cell/c1/host/h1";

fn authority() -> (TempDir, Authority) {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::create(&folder.path().join("pki"), "test").unwrap();
    (folder, authority)
}

/// What an agent with these hosts gets a certificate for.
fn agent(hosts: impl IntoIterator<Item = String>) -> Grant {
    let names = AgentNames {
        cell: "c1".into(),
        hosts: hosts.into_iter().map(HostPattern::Named).collect(),
        services: BTreeSet::new(),
    };
    Grant::new(Identity::new("test", Role::Agent(names)).unwrap())
}

fn is_stolen(entry: &RegisterEntry) -> bool {
    entry.names == [NAME]
}

#[test]
fn a_revocation_includes_certificates_that_are_renewed_meanwhile() {
    let (_folder, authority) = authority();
    let request = KeyRequest::new().unwrap().request;
    let grant = agent(["h1".to_owned()]);
    let mut newest = authority.issue(&grant, &request, "issue").unwrap();
    let renewed = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok(issued) = authority.renew(&newest.chain[0], &request) {
                newest = issued;
                renewed.fetch_add(1, Ordering::Relaxed);
            }
        });
        while renewed.load(Ordering::Relaxed) < 20 {
            thread::yield_now();
        }
        authority.revoke(is_stolen).unwrap();
    });
    let remaining = authority.entries().unwrap();
    let remaining = remaining
        .iter()
        .filter(|(_, revocation)| revocation.is_none());
    assert_eq!(remaining.count(), 0, "a certificate escaped");
}

#[test]
fn revoking_a_name_withdraws_its_words() {
    let (_folder, authority) = authority();
    let request = KeyRequest::new().unwrap().request;
    let hour = Duration::from_secs(3600);
    let word = authority.invite(&agent(["h1".to_owned()]), hour).unwrap();
    let other = authority.invite(&agent(["h2".to_owned()]), hour).unwrap();
    let revoked = authority.revoke(is_stolen).unwrap();
    assert_eq!(revoked.len(), 1);
    assert_eq!(
        (revoked[0].operation.as_str(), revoked[0].serial.as_str()),
        ("invite", "")
    );
    assert!(authority.enrol(&word.id, &word.secret, &request).is_err());
    assert!(authority.enrol(&other.id, &other.secret, &request).is_ok());
}

#[test]
fn a_role_that_forwards_certificates_cannot_change_the_trusted_authorities() {
    let (folder, authority) = authority();
    let (_foreign_folder, foreign) = self::authority();
    let grant = agent(["h1".to_owned()]);
    let request = KeyRequest::new().unwrap();
    let issue = |issuer: &Authority, grant| issuer.issue(grant, &request.request, "issue").unwrap();
    let good = issue(&authority, &grant);
    // An enrolment: neither a further trusted authority nor a certificate of another authority is accepted.
    let hour = Duration::from_secs(3600);
    let word = authority.invite(&grant, hour).unwrap();
    assert_eq!(
        check_enrolment(&word, &good).unwrap().identity,
        grant.identity
    );
    let mut with_foreign_authority = good.clone();
    with_foreign_authority
        .authorities
        .push(foreign.certificate().clone());
    assert!(check_enrolment(&word, &with_foreign_authority).is_err());
    let mut forged = issue(&foreign, &grant);
    assert!(check_enrolment(&word, &forged).is_err());
    forged.authorities.clone_from(&good.authorities);
    assert!(check_enrolment(&word, &forged).is_err());
    // A renewal: a further trusted authority is left out, and other certificates are refused.
    let path = folder.path().join("agent");
    holder::write(&path, &request, &good).unwrap();
    let present = Credentials::load(&path, None).unwrap().current();
    assert_eq!(
        present
            .checked_renewal(with_foreign_authority)
            .unwrap()
            .authorities,
        good.authorities
    );
    assert!(present.checked_renewal(forged).is_err());
    let other = issue(&authority, &agent(["h2".to_owned()]));
    let why = present.checked_renewal(other).unwrap_err().to_string();
    assert!(why.contains("is that of"), "{why}");
}

#[test]
fn a_long_register_can_be_read_and_extended() {
    let (_folder, authority) = authority();
    let request = KeyRequest::new().unwrap().request;
    let with_many_names =
        agent((0..NAMES_MAX).map(|number| format!("a-host-with-a-long-name-{number}")));
    authority
        .issue(&with_many_names, &request, "issue")
        .unwrap();
    let path = authority.directory().join("issued.jsonl");
    let line = fs::read(&path).unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    // More than the 16 MiB that other files may have.
    for _ in 0..=(17 << 20) / line.len() {
        file.write_all(&line).unwrap();
    }
    let grant = agent(["h1".to_owned()]);
    authority.issue(&grant, &request, "issue").unwrap();
    assert_eq!(authority.revoke(is_stolen).unwrap().len(), 1);
}

#[test]
fn an_incomplete_last_line_is_removed() {
    let (_folder, authority) = authority();
    let request = KeyRequest::new().unwrap().request;
    let grant = agent(["h1".to_owned()]);
    let path = authority.directory().join("issued.jsonl");
    for partial_line in ["x".to_owned(), "x".repeat(4096), "x".repeat(10_000)] {
        let before = authority.entries().unwrap().len();
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .unwrap();
        file.write_all(partial_line.as_bytes()).unwrap();
        authority.issue(&grant, &request, "issue").unwrap();
        assert_eq!(authority.entries().unwrap().len(), before + 1);
    }
}

/// Commands are often run by root, but the service is another user. A revocation list that the service cannot
/// read would revoke nothing. Only root can run this test.
#[test]
fn files_written_by_root_belong_to_the_service() {
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
    // Certificates, and no invitations: those have no serial number.
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
fn the_renewals_of_one_holder_are_limited() {
    let mut renewals = Renewals::default();
    let (stolen, other) = (
        agent(["h1".to_owned()]).identity,
        agent(["h2".to_owned()]).identity,
    );
    let now = now();
    for _ in 0..RENEWED_MAX {
        assert!(renewals.may_add(&stolen, now));
        // It expires in ten seconds.
        renewals.add(&stolen, now + 10);
    }
    assert!(!renewals.may_add(&stolen, now + 10));
    assert!(renewals.may_add(&other, now));
    assert!(
        renewals.may_add(&stolen, now + 11),
        "those that ended do not count"
    );
}
