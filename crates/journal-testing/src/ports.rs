//! Ports for servers that a test starts, and may start again on the same port.
//!
//! A port that the system assigns (bind to 0, close, start the server) may be taken in between, by
//! another test or by any outgoing connection, because both use the same range. So ports are taken
//! from below that range, and each is reserved by a lock on a file for the lifetime of this
//! process. `tests/lib/ports.py` does the same.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// The first port of the range that is searched, which ends before the ports that the system assigns.
const FIRST_PORT: u16 = 20_000;
/// The first port that the system assigns, if the system does not report it: the default of Linux.
const DEFAULT_SYSTEM_FIRST_PORT: u16 = 32_768;

/// The ports that this process has reserved.
struct ReservedPorts {
    /// The locked files of the ports.
    locks: Vec<File>,
    /// The number at which the search continues.
    next_number: Option<u32>,
}

static RESERVED_PORTS: Mutex<ReservedPorts> = Mutex::new(ReservedPorts {
    locks: Vec::new(),
    next_number: None,
});

fn first_system_port() -> u16 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = text.ok().and_then(|text| {
        let first = text.split_whitespace().next()?;
        first.parse().ok()
    });
    first.unwrap_or(DEFAULT_SYSTEM_FIRST_PORT)
}

/// An address on loopback that no other test gets while this process runs.
///
/// # Errors
///
/// No port is free, or the folder for the locks cannot be made.
pub fn free_address() -> io::Result<SocketAddr> {
    let folder = std::env::temp_dir().join("placewright-ports");
    std::fs::create_dir_all(&folder)?;
    // A system that assigns ports from about 20,000 on leaves too few below them. Then the search goes beyond them.
    let count = u32::from(first_system_port().saturating_sub(FIRST_PORT).max(1_000));
    let mut reserved = RESERVED_PORTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    // Processes that start together have consecutive ids. The factor makes them begin at ports far apart.
    let mut next_number = reserved
        .next_number
        .unwrap_or_else(|| std::process::id().wrapping_mul(61));
    for _ in 0..count {
        let offset = u16::try_from(next_number % count).unwrap_or(0);
        let port = FIRST_PORT.saturating_add(offset);
        next_number = next_number.wrapping_add(1);
        reserved.next_number = Some(next_number);
        let Ok(lock) = File::create(folder.join(port.to_string())) else {
            continue;
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if lock.try_lock().is_ok() && TcpListener::bind(address).is_ok() {
            reserved.locks.push(lock);
            return Ok(address);
        }
    }
    Err(io::Error::other("no port is free"))
}

/// This many ports, each reserved as by [`free_address`].
pub(crate) fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    (0..count).map(|_| Ok(free_address()?.port())).collect()
}
