//! Passes sockets from one process to its successor, over a Unix socket in the directory of their
//! store.
//!
//! The new process connects and gets the listening sockets. When it has everything else that it
//! needs it sends STOP; the old one completes its requests, passes each connection that becomes
//! idle, closes the store and ends, which the new one sees as the end of the stream. Each message
//! is one byte, with one descriptor if it is about a socket.

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
use placewright_tasks::{Task, pass};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};
use rustix::process::{Signal, geteuid, getpid, kill_process};

use super::HandOver;

/// The name of the Unix socket in the store's directory.
const FILE: &str = "take-over";

/// From the new process: it asks for the listening sockets.
const HELLO: u8 = b'H';
/// From the new process: the old one has to end.
const STOP: u8 = b'S';
/// From the old process, with a listening socket.
const LISTENER: u8 = b'L';
/// From the old process: there are no more listening sockets.
const COMPLETE: u8 = b'C';
/// From the old process, with a connection.
const KEPT: u8 = b'K';

/// Time-out of messages that the other side can send at once.
const WORD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the old process may take to end: longer than its drain time-out.
const END_TIMEOUT: Duration = Duration::from_secs(120);

/// A path to the socket that is short enough for a socket address, however long the store's is.
fn short(store: &Path) -> io::Result<(std::fs::File, PathBuf)> {
    let directory = std::fs::File::open(store)?;
    let path = format!("/proc/self/fd/{}/{FILE}", directory.as_raw_fd());
    Ok((directory, path.into()))
}

/// The process that uses the store now.
#[derive(Debug)]
pub(super) struct Predecessor(UnixStream);

impl Predecessor {
    /// Connects to the process that uses the store now, if there is one that can be replaced.
    pub(super) fn find(store: &Path) -> anyhow::Result<Option<Self>> {
        let connected = short(store).and_then(|(_directory, path)| UnixStream::connect(path));
        match connected {
            Ok(stream) => {
                check_owner(&stream)?;
                stream.set_read_timeout(Some(WORD_TIMEOUT))?;
                stream.set_write_timeout(Some(WORD_TIMEOUT))?;
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
    pub(super) fn listeners(&mut self) -> anyhow::Result<Vec<TcpListener>> {
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

    /// Makes it end; returns the connections that it passed on.
    pub(super) fn take_place(self) -> anyhow::Result<Vec<TcpStream>> {
        let began = Instant::now();
        let mut connections = Vec::new();
        tracing::info!("taking over: the process that has the store ends its requests");
        send(&self.0, STOP, None)?;
        self.0.set_read_timeout(Some(END_TIMEOUT))?;
        loop {
            match receive(&self.0).context("the process that has the store does not end")? {
                Some((KEPT, Some(socket))) => connections.push(TcpStream::from(socket)),
                Some(_) => {}
                None => break,
            }
        }
        tracing::info!(
            connections = connections.len(),
            ms = began.elapsed().as_millis(),
            "took over"
        );
        Ok(connections)
    }
}

/// Checks that the other process belongs to the same user, or to the system's administrator.
fn check_owner(stream: &UnixStream) -> anyhow::Result<()> {
    let peer = sockopt::socket_peercred(stream)?.uid;
    if peer != geteuid() && !peer.is_root() {
        bail!("the other side of a take-over is another user's process");
    }
    Ok(())
}

/// Waits for successors, on a thread of its own.
///
/// # Errors
///
/// The socket cannot be created in the store's directory.
pub(super) fn offer(store: &Path, restart: &Arc<HandOver>) -> io::Result<()> {
    let (_directory, path) = short(store)?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let restart = Arc::clone(restart);
    let wait = move || {
        loop {
            let Ok((stream, _)) = socket.accept() else {
                std::thread::sleep(Duration::from_secs(1));
                continue;
            };
            pass(Task::TakeOver);
            let Err(error) = serve_successor(&stream, &restart);
            tracing::warn!("a take-over came to nothing: {error:#}");
        }
    };
    placewright_tasks::spawn_thread(Task::TakeOver, wait)?;
    Ok(())
}

/// Hands the sockets over to a successor; returns only on an error.
fn serve_successor(stream: &UnixStream, restart: &HandOver) -> anyhow::Result<Infallible> {
    check_owner(stream)?;
    stream.set_read_timeout(Some(WORD_TIMEOUT))?;
    stream.set_write_timeout(Some(WORD_TIMEOUT))?;
    if !matches!(receive(stream)?, Some((HELLO, None))) {
        bail!("the successor does not say that it is one");
    }
    match &*restart.listeners.lock() {
        Some(listeners) => {
            for listener in listeners {
                send(stream, LISTENER, Some(listener.as_fd()))?;
            }
        }
        None => bail!("this process ends already"),
    }
    send(stream, COMPLETE, None)?;
    // A successor that cannot start disconnects here, and nothing has changed.
    if !matches!(receive(stream)?, Some((STOP, None))) {
        bail!("the successor went away");
    }
    tracing::info!("another process takes this one's place");
    let (sender, kept) = channel();
    let (passing, passed) = channel();
    restart.set_successor(Arc::new(SuccessorConnection(Mutex::new(sender))), passed);
    kill_process(getpid(), Signal::TERM)?;
    for connection in kept {
        send(stream, KEPT, Some(connection.as_fd()))?;
    }
    drop(passing);
    // This process closes the store and ends, which is what the successor waits for.
    loop {
        std::thread::park();
    }
}

/// The successor, as the receiver of idle connections.
struct SuccessorConnection(Mutex<Sender<TcpStream>>);

impl Successor for SuccessorConnection {
    fn take(&self, connection: TcpStream) {
        // If the successor is gone, its client connects again.
        let _ = self.0.lock().send(connection);
    }
}

fn send(stream: &UnixStream, word: u8, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sockets: Vec<BorrowedFd<'_>> = socket.into_iter().collect();
    if !sockets.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&sockets));
    }
    let word = [word];
    loop {
        let sent = sendmsg(
            stream,
            &[IoSlice::new(&word)],
            &mut control,
            SendFlags::NOSIGNAL,
        );
        match sent {
            Err(rustix::io::Errno::INTR) => {}
            sent => return sent.map(|_| ()).map_err(io::Error::from),
        }
    }
}

/// Receives the next message; none at the end.
fn receive(stream: &UnixStream) -> io::Result<Option<(u8, Option<OwnedFd>)>> {
    let mut word = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let received = recvmsg(
            stream,
            &mut [IoSliceMut::new(&mut word)],
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
    Ok(Some((word[0], socket)))
}
