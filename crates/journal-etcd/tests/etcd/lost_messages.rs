//! Appends whose request or answer is lost on the way.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use placewright_journal::{AppendError, Journal, JournalError, Resolution};
use placewright_journal_etcd::{EtcdJournal, EtcdOptions};
use placewright_journal_testing::EtcdCluster;

/// Everything is passed on.
const PASS: u8 = 0;
/// The bytes that the client sends are dropped.
const DROP_REQUESTS: u8 = 1;
/// The bytes that the server sends are dropped.
const DROP_ANSWERS: u8 = 2;

/// A proxy between a client and a member.
struct Proxy {
    port: u16,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    fn start(target: String) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(AtomicU8::new(PASS));
        let shared = Arc::clone(&mode);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(&target).unwrap();
                let pairs = [
                    (client.try_clone(), server.try_clone(), DROP_REQUESTS),
                    (Ok(server), Ok(client), DROP_ANSWERS),
                ];
                for (from, to, dropping) in pairs {
                    let (from, to) = (from.unwrap(), to.unwrap());
                    let mode = Arc::clone(&shared);
                    thread::spawn(move || pass_on(from, to, dropping, &mode));
                }
            }
        });
        Self { port, mode }
    }

    fn set(&self, mode: u8) {
        self.mode.store(mode, Ordering::SeqCst);
    }
}

/// Copies bytes until the connection ends, and drops those that come in the mode `dropping`.
fn pass_on(mut from: TcpStream, mut to: TcpStream, dropping: u8, mode: &AtomicU8) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let is_dropped = mode.load(Ordering::SeqCst) == dropping;
        if !is_dropped && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // This ends the other direction as well. Shutting down fails if that direction has ended already.
    let _ = to.shutdown(Shutdown::Both);
}

fn append_without_answer(journal: &mut EtcdJournal, next: u64, record: &[u8]) {
    assert!(matches!(
        journal.append(next, &[record]),
        Err(AppendError::Unknown(JournalError::Unreachable { .. }))
    ));
    // Nothing can be appended before the outcome is known.
    assert!(matches!(
        journal.append(next, &[record]),
        Err(AppendError::Unknown(_))
    ));
}

#[test]
fn the_outcome_of_an_append_without_answer_is_found_out() {
    if !EtcdCluster::available() {
        return;
    }
    let cluster = EtcdCluster::start(1).unwrap();
    let proxy = Proxy::start(cluster.address());
    let url = |address: &str| format!("etcd://{address}/p?timeout_ms=1000&connect_timeout_ms=500");
    let open = |address: &str| EtcdJournal::open(&EtcdOptions::parse(&url(address)).unwrap());
    let mut other = open(&cluster.address()).unwrap();
    let mut journal = open(&format!("127.0.0.1:{}", proxy.port)).unwrap();
    journal.append(1, &[b"1"]).unwrap();

    // The append is made, and its answer is lost.
    proxy.set(DROP_ANSWERS);
    append_without_answer(&mut journal, 2, b"2");
    assert!(journal.resolve().is_err());
    assert_eq!(other.end().unwrap(), 2);
    proxy.set(PASS);
    assert_eq!(journal.resolve().unwrap(), Resolution::Kept);
    journal.append(3, &[b"3"]).unwrap();

    // The request is lost, and nobody else appends, so the request is sent again.
    proxy.set(DROP_REQUESTS);
    append_without_answer(&mut journal, 4, b"4");
    assert_eq!(other.end().unwrap(), 3);
    proxy.set(PASS);
    assert_eq!(journal.resolve().unwrap(), Resolution::Kept);
    assert_eq!(other.end().unwrap(), 4);

    // The request is lost, and another writer appends.
    proxy.set(DROP_REQUESTS);
    append_without_answer(&mut journal, 5, b"lost");
    other.append(5, &[b"5", b"6"]).unwrap();
    proxy.set(PASS);
    assert_eq!(journal.resolve().unwrap(), Resolution::NotKept);
    assert!(matches!(
        journal.append(5, &[b"lost"]),
        Err(AppendError::Conflict { next_sequence: 7 })
    ));

    // The append is made, and then another writer appends after it.
    proxy.set(DROP_ANSWERS);
    append_without_answer(&mut journal, 7, b"7");
    assert_eq!(other.end().unwrap(), 7);
    other.append(8, &[b"8"]).unwrap();
    proxy.set(PASS);
    assert_eq!(journal.resolve().unwrap(), Resolution::Kept);
    assert_eq!(
        journal.resolve().unwrap(),
        Resolution::NotKept,
        "nothing is in doubt"
    );

    let mut records = Vec::new();
    let next = journal.read(1, &mut |_, record| {
        records.extend_from_slice(record);
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!((next.unwrap(), &records[..]), (9, &b"12345678"[..]));
}
