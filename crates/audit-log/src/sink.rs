//! Where lines go: a file, syslog's socket, or standard error.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Nowhere.
    Off,
    /// To the end of a file.
    File(PathBuf),
    /// To the socket of the machine's syslog.
    Syslog(PathBuf),
    /// To standard error.
    Stderr,
}

/// The log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file or socket.
    #[error("cannot open {}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system gives no thread for it.
    #[error("cannot start its thread")]
    NoThread(#[source] io::Error),
}

/// How often the path is looked at, for whether another file is there.
const LOOK: Duration = Duration::from_secs(1);

/// How long syslog may take for one line.
const SYSLOG_TIMEOUT: Duration = Duration::from_secs(1);

/// syslog's priority of a line: facility `authpriv`, severity `notice`.
const PRIORITY: u8 = 10 * 8 + 5;

/// An open log.
#[derive(Debug)]
pub(crate) enum Sink {
    File(LogFile),
    Syslog(Syslog),
    Stderr,
}

impl Sink {
    /// Opens a destination; none if there is none.
    pub(crate) fn open(destination: &Destination) -> Result<Option<Self>, OpenError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| OpenError::File { path, source }
        };
        Ok(Some(match destination {
            Destination::Off => return Ok(None),
            Destination::File(path) => Self::File(LogFile::open(path).map_err(failed(path))?),
            Destination::Syslog(path) => Self::Syslog(Syslog::open(path).map_err(failed(path))?),
            Destination::Stderr => Self::Stderr,
        }))
    }

    /// Writes whole lines. Returns how many are lost, and why.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), (u64, io::Error)> {
        match self {
            Self::File(file) => file.write(lines),
            Self::Syslog(syslog) => syslog.write(lines),
            Self::Stderr => io::stderr()
                .lock()
                .write_all(lines)
                .map_err(|error| (count(lines), error)),
        }
    }

    /// Opens the file again, or the socket.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.reopen(),
            Self::Syslog(syslog) => syslog.reopen(),
            Self::Stderr => Ok(()),
        }
    }

    /// Sees to it that all that was written stays.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.file.sync_data(),
            Self::Syslog(_) | Self::Stderr => Ok(()),
        }
    }
}

/// The number of lines.
pub(crate) fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// A file that only its owner reads, and that grows at its end.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    looked: Instant,
    /// Whether the file may end within a line.
    is_torn: bool,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = append_to(path)?;
        Ok(Self {
            is_torn: !ends_with_a_line(path, &file)?,
            path: path.to_owned(),
            file,
            looked: Instant::now(),
        })
    }

    fn reopen(&mut self) -> io::Result<()> {
        *self = Self::open(&self.path)?;
        Ok(())
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), (u64, io::Error)> {
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            if !self.is_in_place() {
                // What cannot be opened now is tried again; until then the old file gets the lines.
                if let Err(error) = self.reopen() {
                    tracing::warn!(file = %self.path.display(), %error, "cannot open the audit log again");
                }
            }
        }
        if self.is_torn && self.file.write_all(b"\n").is_ok() {
            self.is_torn = false;
        }
        let mut rest = lines;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(written) if written > 0 => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) => return Err(self.lose(lines, rest, io::ErrorKind::WriteZero.into())),
                Err(error) => return Err(self.lose(lines, rest, error)),
            }
        }
        Ok(())
    }

    fn lose(&mut self, lines: &[u8], rest: &[u8], error: io::Error) -> (u64, io::Error) {
        let written = &lines[..lines.len() - rest.len()];
        self.is_torn |= written.last().is_some_and(|last| *last != b'\n');
        (count(rest), error)
    }

    /// Whether the path still leads to the file, which a rotation moves away.
    fn is_in_place(&self) -> bool {
        match (self.file.metadata(), self.path.metadata()) {
            (Ok(own), Ok(there)) => (own.dev(), own.ino()) == (there.dev(), there.ino()),
            _ => false,
        }
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

/// Whether a file is empty or ends with the end of a line: one that was cut in the middle of a line,
/// because its machine stopped, must not spoil the next one.
fn ends_with_a_line(path: &Path, file: &File) -> io::Result<bool> {
    use std::os::unix::fs::FileExt as _;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    File::open(path)?.read_exact_at(&mut last, metadata.len() - 1)?;
    Ok(last == *b"\n")
}

/// The socket of the machine's syslog.
#[derive(Debug)]
pub(crate) struct Syslog {
    path: PathBuf,
    socket: UnixDatagram,
    message: Vec<u8>,
}

impl Syslog {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            socket: connected(path)?,
            message: Vec::new(),
        })
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.socket = connected(&self.path)?;
        Ok(())
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), (u64, io::Error)> {
        let (mut lost, mut why) = (0, None);
        let mut rest = lines.split_inclusive(|byte| *byte == b'\n');
        while let Some(line) = rest.next() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            self.message.clear();
            let head = format!("<{PRIORITY}>placewright[{}]: ", std::process::id());
            self.message.extend_from_slice(head.as_bytes());
            self.message.extend_from_slice(line);
            if let Err(error) = self.send() {
                lost += 1;
                // A syslog that takes nothing must not hold up each of the lines.
                if error.kind() == io::ErrorKind::WouldBlock {
                    lost += rest.by_ref().count() as u64;
                }
                why = Some(error);
            }
        }
        why.map_or(Ok(()), |why| Err((lost, why)))
    }

    /// Sends the message; to a syslog that was started anew as well.
    fn send(&mut self) -> io::Result<()> {
        match self.socket.send(&self.message) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            Err(_) => {
                self.reopen()?;
                self.socket.send(&self.message).map(|_| ())
            }
        }
    }
}

fn connected(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SYSLOG_TIMEOUT))?;
    socket.connect(path)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_private_and_a_torn_line_spoils_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        std::fs::write(&path, "whole\nhal").unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut sink = Sink::open(&Destination::File(path.clone()))
            .unwrap()
            .unwrap();
        sink.write(b"one\n").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "whole\nhal").unwrap();
        sink.reopen().unwrap();
        sink.write(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole\nhal\ntwo\n");
    }

    #[test]
    fn a_file_that_was_moved_away_is_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut file = LogFile::open(&path).unwrap();
        file.write(b"one\n").unwrap();
        std::fs::rename(&path, directory.path().join("audit.log.1")).unwrap();
        assert!(!file.is_in_place());
        file.looked -= LOOK;
        file.write(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn syslog_gets_a_message_for_each_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let server = UnixDatagram::bind(&path).unwrap();
        let mut sink = Sink::open(&Destination::Syslog(path.clone()))
            .unwrap()
            .unwrap();
        sink.write(b"{\"a\":1}\n{\"b\":2}\n").unwrap();
        let mut message = [0; 256];
        for line in ["{\"a\":1}", "{\"b\":2}"] {
            let bytes = server.recv(&mut message).unwrap();
            let text = std::str::from_utf8(&message[..bytes]).unwrap();
            assert_eq!(
                text,
                format!("<85>placewright[{}]: {line}", std::process::id())
            );
        }
        drop(server);
        std::fs::remove_file(&path).unwrap();
        let lost = sink.write(b"{}\n{}\n").unwrap_err();
        assert_eq!(lost.0, 2);
        let server = UnixDatagram::bind(&path).unwrap();
        sink.write(b"{}\n").unwrap();
        assert!(server.recv(&mut message).unwrap() > 0);
    }
}
