//! Passes sockets from one process to its successor, over a Unix socket in the directory of the store
//! that both use.
//!
//! The new process connects and gets the listening sockets. When it is ready to load the store it sends
//! STOP. Then the old process completes its requests, passes each connection that becomes idle, closes
//! the store and ends, which the new process sees as the end of the stream. Each message is one byte,
//! with one descriptor if it passes a socket.

use std::convert::Infallible;
use std::fs::Permissions;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use parking_lot::Mutex;
use placewright_http::Successor;
use placewright_tasks::{Task, injection_point};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};
use rustix::process::{Signal, geteuid, getpid, kill_process};

use super::HandOver;

/// The name of the Unix socket in the store's directory.
const SOCKET_NAME: &str = "take-over";

/// From the new process: requests the listening sockets.
const HELLO: u8 = b'H';
/// From the new process: tells the old one to end.
const STOP: u8 = b'S';
/// From the old process: passes a listening socket.
const LISTENER: u8 = b'L';
/// From the old process: all listening sockets were passed.
const COMPLETE: u8 = b'C';
/// From the old process: passes a connection.
const CONNECTION: u8 = b'K';

/// Time-out for messages that the other side can send without delay.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that a successor has to prepare itself. It may have to run a command for its keys, which may take 10
/// minutes (`secrets.key_command_timeout_ms`).
const SUCCESSOR_TIMEOUT: Duration = Duration::from_secs(900);
/// How long the end of the old process may take after its requests have ended: passing its connections, and closing the
/// store.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(120);

/// A path to the Unix socket that is short enough for a socket address, however long the path of the
/// store is. The path is valid while the returned file is open.
fn short_socket_path(store: &Path) -> io::Result<(std::fs::File, PathBuf)> {
    let directory = std::fs::File::open(store)?;
    let path = format!("/proc/self/fd/{}/{SOCKET_NAME}", directory.as_raw_fd());
    Ok((directory, path.into()))
}

/// The process that uses the store now.
#[derive(Debug)]
pub(super) struct Predecessor(UnixStream);

impl Predecessor {
    /// Connects to the process that uses the store now, if there is one that can be replaced.
    pub(super) fn connect(store: &Path) -> anyhow::Result<Option<Self>> {
        let connected =
            short_socket_path(store).and_then(|(_directory, path)| UnixStream::connect(path));
        match connected {
            Ok(stream) => {
                check_owner(&stream)?;
                stream.set_read_timeout(Some(MESSAGE_TIMEOUT))?;
                stream.set_write_timeout(Some(MESSAGE_TIMEOUT))?;
                Ok(Some(Self(stream)))
            }
            Err(error)
                if [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused]
                    .contains(&error.kind()) =>
            {
                tracing::info!("nobody has the store: there is nothing to take over");
                Ok(None)
            }
            Err(error) => Err(error).context("control.take_over: cannot reach who has the store"),
        }
    }

    /// Receives the predecessor's listening sockets.
    pub(super) fn receive_listeners(&mut self) -> anyhow::Result<Vec<TcpListener>> {
        let mut listeners = Vec::new();
        send(&self.0, HELLO, None)?;
        loop {
            match receive(&self.0).context("who has the store does not answer")? {
                Some((LISTENER, Some(socket))) => listeners.push(TcpListener::from(socket)),
                Some((COMPLETE, None)) => return Ok(listeners),
                _ => bail!("who has the store says what this release does not understand"),
            }
        }
    }

    /// Makes the predecessor end, and returns the connections that it passed. `drain_timeout` is the time that its
    /// requests under way have to end.
    pub(super) fn end_and_take_connections(
        self,
        drain_timeout: Duration,
    ) -> anyhow::Result<Vec<TcpStream>> {
        let start = Instant::now();
        let mut connections = Vec::new();
        tracing::info!("taking over: the process that has the store ends its requests");
        send(&self.0, STOP, None)?;
        self.0.set_read_timeout(Some(end_timeout(drain_timeout)))?;
        loop {
            match receive(&self.0).context("the process that has the store does not end")? {
                Some((CONNECTION, Some(socket))) => connections.push(TcpStream::from(socket)),
                Some(_) => {}
                None => break,
            }
        }
        tracing::info!(
            connections = connections.len(),
            ms = start.elapsed().as_millis(),
            "took over"
        );
        Ok(connections)
    }
}

/// Time-out for each message of the old process while it ends, and for its end.
fn end_timeout(drain_timeout: Duration) -> Duration {
    drain_timeout + CLOSE_TIMEOUT
}

/// Checks that the other process belongs to the same user, or to the system's administrator.
fn check_owner(stream: &UnixStream) -> anyhow::Result<()> {
    let peer_uid = sockopt::socket_peercred(stream)?.uid;
    if peer_uid != geteuid() && !peer_uid.is_root() {
        bail!("the other side of a take-over is another user's process");
    }
    Ok(())
}

/// Starts a thread that waits for successors.
///
/// # Errors
///
/// The socket cannot be created in the store's directory.
pub(super) fn listen_for_successors(store: &Path, hand_over: &Arc<HandOver>) -> io::Result<()> {
    let (_directory, path) = short_socket_path(store)?;
    // The file of the previous process's socket may still be there.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let hand_over = Arc::clone(hand_over);
    let wait = move || {
        loop {
            let Ok((stream, _)) = socket.accept() else {
                // There may be no free descriptor at the moment.
                std::thread::sleep(Duration::from_secs(1));
                continue;
            };
            injection_point(Task::TakeOver);
            let Err(error) = serve_successor(&stream, &hand_over);
            tracing::warn!("a take-over came to nothing: {error:#}");
        }
    };
    placewright_tasks::spawn_thread(Task::TakeOver, wait)?;
    Ok(())
}

/// Hands the sockets over to a successor; returns only on an error.
fn serve_successor(stream: &UnixStream, hand_over: &HandOver) -> anyhow::Result<Infallible> {
    check_owner(stream)?;
    stream.set_read_timeout(Some(MESSAGE_TIMEOUT))?;
    stream.set_write_timeout(Some(MESSAGE_TIMEOUT))?;
    if !matches!(receive(stream)?, Some((HELLO, None))) {
        bail!("the successor does not say that it is one");
    }
    match &*hand_over.listeners.lock() {
        Some(listeners) => {
            for listener in listeners {
                send(stream, LISTENER, Some(listener.as_fd()))?;
            }
        }
        None => bail!("this process ends already"),
    }
    send(stream, COMPLETE, None)?;
    stream.set_read_timeout(Some(SUCCESSOR_TIMEOUT))?;
    // A successor that cannot start disconnects here, and nothing has changed.
    if !matches!(receive(stream)?, Some((STOP, None))) {
        bail!("the successor went away");
    }
    if hand_over.listeners.lock().is_none() {
        // This process ends already. The end of the stream tells the successor that it has closed the store.
        loop {
            std::thread::park();
        }
    }
    tracing::info!("another process takes this one's place");
    let (sender, connections) = channel();
    // Dropping `pass_guard` disconnects `all_passed`.
    let (pass_guard, all_passed) = channel();
    hand_over.set_successor(
        Arc::new(SuccessorConnection(Mutex::new(sender))),
        all_passed,
    );
    // This process stops as after any SIGTERM. Its listeners then pass idle connections to the successor, which
    // `choose_successor` returns.
    kill_process(getpid(), Signal::TERM)?;
    for connection in connections {
        send(stream, CONNECTION, Some(connection.as_fd()))?;
    }
    drop(pass_guard);
    // The successor waits until this process has closed the store and ended.
    loop {
        std::thread::park();
    }
}

/// The successor, as the receiver of idle connections.
struct SuccessorConnection(Mutex<Sender<TcpStream>>);

impl Successor for SuccessorConnection {
    fn take(&self, connection: TcpStream) {
        // If the successor is gone, the connection closes and its client connects again.
        let _ = self.0.lock().send(connection);
    }
}

/// Sends a message, with a descriptor if it passes a socket.
fn send(stream: &UnixStream, message_type: u8, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sockets: Vec<BorrowedFd<'_>> = socket.into_iter().collect();
    if !sockets.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&sockets));
    }
    let message_type = [message_type];
    loop {
        let sent = sendmsg(
            stream,
            &[IoSlice::new(&message_type)],
            &mut control,
            SendFlags::NOSIGNAL,
        );
        match sent {
            Err(rustix::io::Errno::INTR) => {}
            sent => return sent.map(|_| ()).map_err(io::Error::from),
        }
    }
}

/// Receives the next message and the descriptor with it; `None` at the end of the stream.
fn receive(stream: &UnixStream) -> io::Result<Option<(u8, Option<OwnedFd>)>> {
    let mut message_type = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let received = recvmsg(
            stream,
            &mut [IoSliceMut::new(&mut message_type)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        match received {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let socket = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    Ok(Some((message_type[0], socket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_predecessor_is_waited_for_longer_than_its_requests_may_take() {
        let (new, old) = UnixStream::pair().unwrap();
        let same_socket = new.try_clone().unwrap();
        let ends = std::thread::spawn(move || {
            let stop = receive(&old).unwrap();
            assert!(matches!(stop, Some((STOP, None))));
        });
        let day = Duration::from_secs(86_400);
        let connections = Predecessor(new).end_and_take_connections(day).unwrap();
        assert!(connections.is_empty());
        assert!(same_socket.read_timeout().unwrap() > Some(day));
        ends.join().unwrap();
    }
}
