//! An authority and its holders, as the roles use them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use placewright_identity::{AgentNames, HostPattern, Identity, Role};
use placewright_pki::invitation::Word;
use placewright_pki::{
    Authority, CertificateFacts, Credentials, Grant, Issued, KeyRequest, holder, pinned_client,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use tempfile::TempDir;

fn authority() -> (TempDir, Authority) {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::create(&folder.path().join("pki"), "test").unwrap();
    (folder, authority)
}

/// What an agent with one host gets a certificate for.
fn agent(host: &str) -> Grant {
    let names = AgentNames {
        cell: "c1".into(),
        hosts: BTreeSet::from([HostPattern::Named(host.into())]),
        services: BTreeSet::new(),
    };
    Grant::new(Identity::new("test", Role::Agent(names)).unwrap())
}

fn cell() -> Grant {
    Grant::new(Identity::new("test", Role::Cell("c1".into())).unwrap())
}

/// Issues a certificate into a folder, and loads the folder.
fn issue_and_load(authority: &Authority, folder: &Path, grant: &Grant) -> Arc<Credentials> {
    let request = KeyRequest::new().unwrap();
    // The last argument is the operation that the register names.
    let issued = authority.issue(grant, &request.request, "issue").unwrap();
    holder::write(folder, &request, &issued).unwrap();
    Credentials::load(folder, None).unwrap()
}

/// A handshake in memory. Returns the fields of the client's certificate; `None` if the client has no certificate. The
/// error begins with the side that refused the other.
fn handshake(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
) -> Result<Option<CertificateFacts>, String> {
    let name = ServerName::try_from("any.invalid").unwrap();
    let mut client = ClientConnection::new(client, name).map_err(|error| error.to_string())?;
    let mut server = ServerConnection::new(server).map_err(|error| error.to_string())?;
    while client.is_handshaking() || server.is_handshaking() || server.wants_write() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server
            .process_new_packets()
            .map_err(|error| format!("server: {error}"))?;
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client
            .process_new_packets()
            .map_err(|error| format!("client: {error}"))?;
    }
    let client_chain = server.peer_certificates().and_then(|chain| chain.first());
    Ok(client_chain.map(|certificate| CertificateFacts::read(certificate).unwrap()))
}

#[test]
fn both_sides_verify_each_other() {
    let (folder, authority) = authority();
    let cell = issue_and_load(&authority, &folder.path().join("cell"), &cell());
    let agent = issue_and_load(&authority, &folder.path().join("agent"), &agent("h1"));
    let client_facts = handshake(
        agent.current().client.clone(),
        cell.current().server.clone(),
    );
    let client_facts = client_facts.unwrap().unwrap();
    assert_eq!(
        client_facts.identity.uris(),
        ["placewright://test/cell/c1/host/h1"]
    );
    let life = client_facts.not_after - client_facts.not_before;
    assert_eq!(
        life,
        7 * 86_400 + 300,
        "valid for days, and set back for other clocks"
    );
}

#[test]
fn certificates_of_another_authority_are_refused() {
    let (folder, authority) = authority();
    let (other_folder, other) = self::authority();
    let cell = issue_and_load(&authority, &folder.path().join("cell"), &cell());
    let foreign_agent = issue_and_load(&other, &other_folder.path().join("agent"), &agent("h1"));
    // Neither side trusts the other's authority; the client is the first to check.
    let client_facts = handshake(
        foreign_agent.current().client.clone(),
        cell.current().server.clone(),
    );
    let why = client_facts.unwrap_err();
    assert!(why.starts_with("client: invalid peer certificate"), "{why}");
    // A client that trusts the server's authority is refused by the server.
    let path = other_folder.path().join("agent/ca.pem");
    std::fs::copy(folder.path().join("cell/ca.pem"), path).unwrap();
    assert!(foreign_agent.reload_if_changed().unwrap());
    let client_facts = handshake(
        foreign_agent.current().client.clone(),
        cell.current().server.clone(),
    );
    let why = client_facts.unwrap_err();
    assert!(why.starts_with("server: "), "{why}");
}

#[test]
fn a_revoked_certificate_is_refused_once_the_list_is_read() {
    let (folder, authority) = authority();
    let agent = issue_and_load(&authority, &folder.path().join("agent"), &agent("h1"));
    let folder = folder.path().join("cell");
    let request = KeyRequest::new().unwrap();
    let issued = authority.issue(&cell(), &request.request, "issue").unwrap();
    holder::write(&folder, &request, &issued).unwrap();
    let list = authority.revocation_list_path();
    let cell = Credentials::load(&folder, Some(&list)).unwrap();
    let serial = agent.current().facts.serial_text();
    assert_eq!(
        authority
            .revoke(|entry| entry.serial == serial)
            .unwrap()
            .len(),
        1
    );
    assert!(cell.reload_if_changed().unwrap());
    let present = agent.current();
    assert!(cell.current().is_revoked(&present.facts.serial));
    let why = handshake(present.client.clone(), cell.current().server.clone()).unwrap_err();
    assert!(why.contains("Revoked"), "{why}");
    let checked = cell.current().check_client(&present.certificate);
    assert!(checked.is_err());
    // The revoked certificate is not renewed either.
    let request = KeyRequest::new().unwrap().request;
    let why = authority.renew(&present.certificate, &request).unwrap_err();
    assert!(why.to_string().contains("not renewed"), "{why}");
    // Other certificates are still renewed.
    let other = cell.current();
    assert!(authority.renew(&other.certificate, &request).is_ok());
}

#[test]
fn an_older_revocation_list_does_not_replace_a_newer_one() {
    let (folder, authority) = authority();
    let agent = issue_and_load(&authority, &folder.path().join("agent"), &agent("h1"));
    let cell = folder.path().join("cell");
    issue_and_load(&authority, &cell, &self::cell());
    let list_of = |authority: &Authority| std::fs::read(authority.revocation_list_path()).unwrap();
    let old = list_of(&authority);
    let serial = agent.current().facts.serial_text();
    authority.revoke(|entry| entry.serial == serial).unwrap();
    let new = list_of(&authority);
    let present = || std::fs::read(cell.join("crl.pem")).unwrap();
    assert!(holder::write_newer_revocation_list(&cell, &new).unwrap());
    let written = present();
    assert!(!holder::write_newer_revocation_list(&cell, &old).unwrap());
    assert_eq!(present(), written);
    // A list that cannot be read protects from nothing.
    std::fs::write(cell.join("crl.pem"), "no list").unwrap();
    assert!(holder::write_newer_revocation_list(&cell, &old).unwrap());
    // An authority that was made anew counts from the beginning.
    assert!(holder::write_newer_revocation_list(&cell, &new).unwrap());
    let (_other_folder, other) = self::authority();
    assert!(holder::write_newer_revocation_list(&cell, &list_of(&other)).unwrap());
    assert_ne!(present(), written);
}

fn first_certificate(issued: &Issued) -> CertificateFacts {
    CertificateFacts::read(&issued.chain[0]).unwrap()
}

#[test]
fn a_renewed_certificate_has_the_fields_of_the_present_one() {
    let (folder, authority) = authority();
    let grant = Grant {
        dns: vec!["h1.example.org".into()],
        addresses: vec!["192.0.2.1".parse().unwrap()],
        life: Duration::from_secs(20),
        ..agent("h1")
    };
    let agent = issue_and_load(&authority, &folder.path().join("agent"), &grant);
    let before = agent.current();
    let request = KeyRequest::new().unwrap();
    let issued = authority
        .renew(&before.certificate, &request.request)
        .unwrap();
    let after = first_certificate(&issued);
    assert_eq!(after.identity, before.facts.identity);
    assert_eq!(after.dns, before.facts.dns);
    assert_eq!(after.addresses, before.facts.addresses);
    let life = |facts: &CertificateFacts| facts.not_after - facts.not_before;
    assert_eq!(life(&after), life(&before.facts));
    assert_ne!(after.serial, before.facts.serial);
    holder::write(agent.directory(), &request, &issued).unwrap();
    assert!(agent.reload_if_changed().unwrap());
    assert_eq!(agent.current().facts.serial, after.serial);
    // The folder has been loaded for the second time.
    assert_eq!(agent.current().number, 2);
}

#[test]
fn an_authority_renews_only_its_own() {
    let (folder, authority) = authority();
    let (_other_folder, other) = self::authority();
    let agent = issue_and_load(&authority, &folder.path().join("agent"), &agent("h1"));
    let request = KeyRequest::new().unwrap().request;
    assert!(other.renew(&agent.current().certificate, &request).is_err());
    // A request whose own signature is wrong is refused.
    let mut broken = request;
    *broken.last_mut().unwrap() ^= 1;
    assert!(
        authority
            .renew(&agent.current().certificate, &broken)
            .is_err()
    );
    assert!(authority.renew(&agent.current().certificate, b"").is_err());
}

#[test]
fn a_word_can_be_used_once_before_it_ends() {
    let (_folder, authority) = authority();
    let hour = Duration::from_secs(3600);
    let word = authority.invite(&agent("h1"), hour).unwrap();
    let read_word = Word::read(&word.text()).unwrap();
    assert_eq!(read_word, word);
    let request = KeyRequest::new().unwrap().request;
    // A request that cannot be signed does not use the word up.
    assert!(authority.enrol(&word.id, &word.secret, b"x").is_err());
    let issued = authority.enrol(&word.id, &word.secret, &request).unwrap();
    assert_eq!(first_certificate(&issued).identity, agent("h1").identity);
    assert!(authority.enrol(&word.id, &word.secret, &request).is_err());
    let ended_word = authority.invite(&agent("h1"), Duration::ZERO).unwrap();
    assert!(
        authority
            .enrol(&ended_word.id, &ended_word.secret, &request)
            .is_err()
    );
    // The file of invitations does not have the secret of a word, which is its third part.
    let content = std::fs::read_to_string(authority.directory().join("invitations.json")).unwrap();
    assert!(!content.contains(word.text().split('.').nth(2).unwrap()));
}

#[test]
fn a_word_whose_certificate_could_not_be_issued_can_be_used_again() {
    let (_folder, authority) = authority();
    let word = authority.invite(&agent("h1"), Duration::from_secs(3600));
    let word = word.unwrap();
    let request = KeyRequest::new().unwrap().request;
    let enrol = || authority.enrol(&word.id, &word.secret, &request);
    // The register cannot be written, so no certificate is given away.
    let register = authority.directory().join("issued.jsonl");
    std::fs::create_dir(&register).unwrap();
    assert!(enrol().is_err());
    assert_eq!(authority.open_invitations().unwrap().len(), 1);
    std::fs::remove_dir(&register).unwrap();
    // Of many at the same time one gets the certificate.
    let enrolled = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| enrol().is_ok())).collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.filter(|is_enrolled| *is_enrolled).count()
    });
    assert_eq!((enrolled, authority.entries().unwrap().len()), (1, 1));
    assert!(authority.open_invitations().unwrap().is_empty());
}

#[test]
fn a_word_is_void_after_wrong_guesses() {
    let (_folder, authority) = authority();
    let word = authority
        .invite(&agent("h1"), Duration::from_secs(3600))
        .unwrap();
    let request = KeyRequest::new().unwrap().request;
    // As many wrong secrets as make an invitation void.
    for guess in 0..5 {
        assert!(authority.enrol(&word.id, &[guess; 16], &request).is_err());
    }
    assert!(authority.enrol(&word.id, &word.secret, &request).is_err());
}

#[test]
fn an_enrolling_client_trusts_only_the_authority_of_the_word() {
    let (folder, authority) = authority();
    let (_other_folder, other) = self::authority();
    let cell = issue_and_load(&authority, &folder.path().join("cell"), &cell());
    let hour = Duration::from_secs(3600);
    let server = || cell.current().server.clone();
    // `Ok(None)`: the handshake succeeds, and the client has no certificate yet.
    let right = authority.invite(&agent("h1"), hour).unwrap();
    assert_eq!(
        handshake(pinned_client(&right).unwrap(), server()),
        Ok(None)
    );
    let wrong = other.invite(&agent("h1"), hour).unwrap();
    let why = handshake(pinned_client(&wrong).unwrap(), server()).unwrap_err();
    assert!(why.contains("UnknownIssuer"), "{why}");
}

#[test]
fn invalid_words_are_refused() {
    for text in ["", "pw1", "pw1.a.b.c", "pw2.AAAAAAAAAAA.AAAA.AAAA", "x"] {
        assert!(Word::read(text).is_err(), "{text}");
    }
}

#[test]
fn nobody_else_can_read_the_files() {
    let (folder, authority) = authority();
    issue_and_load(&authority, &folder.path().join("agent"), &agent("h1"));
    authority
        .invite(&agent("h1"), Duration::from_secs(9))
        .unwrap();
    let mut file_count = 0;
    for folder_path in ["pki", "agent"] {
        let folder_path = folder.path().join(folder_path);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder_path), 0o700);
        for entry in std::fs::read_dir(&folder_path).unwrap() {
            assert_eq!(mode(&entry.unwrap().path()), 0o600);
            file_count += 1;
        }
    }
    assert!(file_count >= 8, "{file_count}");
}

#[test]
fn an_authority_is_made_once_and_for_one_installation() {
    let (_folder, authority) = authority();
    assert!(Authority::create(authority.directory(), "test").is_err());
    let other = Grant::new(Identity::new("other", Role::Control).unwrap());
    let request = KeyRequest::new().unwrap().request;
    assert!(authority.issue(&other, &request, "issue").is_err());
    assert!(Authority::open(Path::new("/nowhere")).is_err());
}

#[test]
fn an_invalid_folder_changes_nothing() {
    let (folder, authority) = authority();
    let agent = issue_and_load(&authority, &folder.path().join("agent"), &agent("h1"));
    let path = agent.directory().join("identity.pem");
    let good = std::fs::read(&path).unwrap();
    std::fs::write(&path, "nothing").unwrap();
    assert!(agent.reload_if_changed().is_err());
    assert!(
        !agent.reload_if_changed().unwrap(),
        "the error is returned once"
    );
    assert_eq!(agent.current().number, 1);
    std::fs::write(&path, good).unwrap();
    assert!(agent.reload_if_changed().unwrap());
}

#[test]
fn files_of_another_authority_have_other_names() {
    let (folder, authority) = authority();
    let agent = issue_and_load(&authority, &folder.path().join("agent"), &agent("h1"));
    let tls_folder = folder.path().join("theirs");
    std::fs::create_dir(&tls_folder).unwrap();
    let certificate_and_key =
        std::fs::read_to_string(agent.directory().join("identity.pem")).unwrap();
    let key_start = certificate_and_key.find("-----BEGIN PRIVATE KEY").unwrap();
    std::fs::write(
        tls_folder.join("tls.crt"),
        &certificate_and_key[..key_start],
    )
    .unwrap();
    std::fs::write(
        tls_folder.join("tls.key"),
        &certificate_and_key[key_start..],
    )
    .unwrap();
    std::fs::copy(agent.directory().join("ca.pem"), tls_folder.join("ca.crt")).unwrap();
    let loaded = Credentials::load(&tls_folder, None).unwrap().current();
    assert_eq!(loaded.facts, agent.current().facts);
    assert!(!loaded.is_renewed_by_placewright);
}
