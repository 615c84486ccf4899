//! The destinations of lines: a file, the socket of syslog, or standard error.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where lines are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// There is no audit log.
    Off,
    /// To the end of a file.
    File(PathBuf),
    /// To the socket of the machine's syslog.
    Syslog(PathBuf),
    /// To the process's standard error, between its other log lines.
    Stderr,
}

/// The log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file or socket cannot be opened.
    #[error("cannot open {}", path.display())]
    File {
        /// The path of the file or socket.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The system cannot start the thread of the log.
    #[error("cannot start its thread")]
    NoThread(#[source] io::Error),
}

/// The interval of checks whether the path still names the open file.
const PATH_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The time-out for sending one line to syslog.
const SYSLOG_TIMEOUT: Duration = Duration::from_secs(1);

/// The syslog priority of a line: facility `authpriv`, severity `notice`.
const SYSLOG_PRIORITY: u8 = 10 * 8 + 5;

/// The opened [`Destination`], to which the log's thread writes lines.
#[derive(Debug)]
pub(crate) enum Sink {
    File(LogFile),
    Syslog(Syslog),
    Stderr,
}

impl Sink {
    /// Opens a destination; `None` for [`Destination::Off`].
    pub(crate) fn open(destination: &Destination) -> Result<Option<Self>, OpenError> {
        let open_error = |path: &Path| {
            let path = path.to_owned();
            |source| OpenError::File { path, source }
        };
        Ok(Some(match destination {
            Destination::Off => return Ok(None),
            Destination::File(path) => Self::File(LogFile::open(path).map_err(open_error(path))?),
            Destination::Syslog(path) => {
                Self::Syslog(Syslog::open(path).map_err(open_error(path))?)
            }
            Destination::Stderr => Self::Stderr,
        }))
    }

    /// Writes complete lines. The error has the number of lines that could not be written.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), (u64, io::Error)> {
        match self {
            Self::File(file) => file.write(lines),
            Self::Syslog(syslog) => syslog.write(lines),
            Self::Stderr => io::stderr()
                .lock()
                .write_all(lines)
                .map_err(|error| (count_lines(lines), error)),
        }
    }

    /// Opens the file or socket again.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.reopen(),
            Self::Syslog(syslog) => syslog.reopen(),
            Self::Stderr => Ok(()),
        }
    }

    /// Makes the written lines durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.file.sync_data(),
            Self::Syslog(_) | Self::Stderr => Ok(()),
        }
    }
}

/// The number of lines in a text, each of which ends with a line end.
pub(crate) fn count_lines(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// A file that is open for appending. If it is created here, only its owner may read it.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    path_checked_at: Instant,
    /// Whether the file may end within a line, so that the next write has to begin with a line end.
    ends_within_line: bool,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = append_to(path)?;
        Ok(Self {
            ends_within_line: !ends_with_line_end(path, &file)?,
            path: path.to_owned(),
            file,
            path_checked_at: Instant::now(),
        })
    }

    fn reopen(&mut self) -> io::Result<()> {
        *self = Self::open(&self.path)?;
        Ok(())
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), (u64, io::Error)> {
        if self.path_checked_at.elapsed() >= PATH_CHECK_INTERVAL {
            self.path_checked_at = Instant::now();
            if !self.is_at_path() {
                // If the file cannot be opened, it is tried again later; until then the old file is written.
                if let Err(error) = self.reopen() {
                    tracing::warn!(file = %self.path.display(), %error, "cannot open the audit log again");
                }
            }
        }
        if self.ends_within_line && self.file.write_all(b"\n").is_ok() {
            self.ends_within_line = false;
        }
        let mut remaining = lines;
        while !remaining.is_empty() {
            match self.file.write(remaining) {
                Ok(written) if written > 0 => remaining = &remaining[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) => {
                    return Err(self.write_error(
                        lines,
                        remaining,
                        io::ErrorKind::WriteZero.into(),
                    ));
                }
                Err(error) => return Err(self.write_error(lines, remaining, error)),
            }
        }
        Ok(())
    }

    /// The error of an incomplete write, with the number of lines that were not written.
    fn write_error(
        &mut self,
        lines: &[u8],
        remaining: &[u8],
        error: io::Error,
    ) -> (u64, io::Error) {
        let written = &lines[..lines.len() - remaining.len()];
        self.ends_within_line |= written.last().is_some_and(|last| *last != b'\n');
        (count_lines(remaining), error)
    }

    /// Whether the path still names the open file; a rotation moves it to another path.
    fn is_at_path(&self) -> bool {
        match (self.file.metadata(), self.path.metadata()) {
            (Ok(open_file), Ok(named_file)) => {
                (open_file.dev(), open_file.ino()) == (named_file.dev(), named_file.ino())
            }
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

/// Whether a file is empty or ends with a line end. After a crash it may end within a line, to which the next
/// line must not be appended.
fn ends_with_line_end(path: &Path, file: &File) -> io::Result<bool> {
    use std::os::unix::fs::FileExt as _;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(true);
    }
    let mut last_byte = [0];
    File::open(path)?.read_exact_at(&mut last_byte, metadata.len() - 1)?;
    Ok(last_byte == *b"\n")
}

/// A connection to the socket of the machine's syslog.
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
            socket: connect(path)?,
            message: Vec::new(),
        })
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.socket = connect(&self.path)?;
        Ok(())
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), (u64, io::Error)> {
        let (mut lost, mut last_error) = (0, None);
        let mut remaining = lines.split_inclusive(|byte| *byte == b'\n');
        while let Some(line) = remaining.next() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            self.message.clear();
            let head = format!("<{SYSLOG_PRIORITY}>placewright[{}]: ", std::process::id());
            self.message.extend_from_slice(head.as_bytes());
            self.message.extend_from_slice(line);
            if let Err(error) = self.send() {
                lost += 1;
                // If syslog accepts nothing, the time-out must not apply to each of the remaining lines.
                if error.kind() == io::ErrorKind::WouldBlock {
                    lost += remaining.by_ref().count() as u64;
                }
                last_error = Some(error);
            }
        }
        last_error.map_or(Ok(()), |error| Err((lost, error)))
    }

    /// Sends the message. If syslog was restarted, this connects to it again.
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

fn connect(path: &Path) -> io::Result<UnixDatagram> {
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
    fn a_file_is_private_and_a_partial_line_is_ended_before_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
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
    fn after_a_rotation_the_file_at_the_path_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut file = LogFile::open(&path).unwrap();
        file.write(b"one\n").unwrap();
        std::fs::rename(&path, directory.path().join("audit.log.1")).unwrap();
        assert!(!file.is_at_path());
        file.path_checked_at -= PATH_CHECK_INTERVAL;
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
        let (lost, _) = sink.write(b"{}\n{}\n").unwrap_err();
        assert_eq!(lost, 2);
        let server = UnixDatagram::bind(&path).unwrap();
        sink.write(b"{}\n").unwrap();
        assert!(server.recv(&mut message).unwrap() > 0);
    }
}
