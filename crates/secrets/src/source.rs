//! The sources of keys, a file or a command, and writing key files.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use crate::error::KeyError;
use crate::keyring::Keyring;

/// The maximum number of bytes that are read of a key file, or of a command's output.
const TEXT_BYTES_MAX: u64 = 64 << 10;
/// The maximum number of characters of a command's standard error in an error.
const ERROR_CHARS_MAX: usize = 500;
/// The interval at which the end of a running command is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The environment variables that a command receives; other variables may have secrets.
const PASSED_VARIABLES: [&str; 8] = [
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR",
];

/// Where the keys of an installation come from.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// A file with one key a line.
    File(PathBuf),
    /// A command that prints keys in the format of a key file.
    Command(KeyCommand),
}

/// A command that prints keys.
#[derive(Clone, Debug)]
pub struct KeyCommand {
    /// The program and its arguments. They are not interpreted by a shell.
    pub line: Vec<String>,
    /// The time after which the command is killed.
    pub timeout: Duration,
    /// Names of further environment variables that the command receives.
    pub environment: Vec<String>,
}

impl KeySource {
    /// Reads the keys.
    ///
    /// # Errors
    ///
    /// See [`KeyError`].
    pub fn read(&self) -> Result<Keyring, KeyError> {
        match self {
            Self::File(path) => {
                let text = read_file(path).map_err(|source| KeyError::File {
                    file: path.clone(),
                    source,
                })?;
                Keyring::parse(&format!("the key file {}", path.display()), &text)
            }
            Self::Command(command) => {
                let text = command.run()?;
                Keyring::parse(&format!("the key command {}", command.program()), &text)
            }
        }
    }

    /// A value that changes when the file changes; none for a command, or if the file is not there.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        match self {
            Self::File(path) => {
                let metadata = fs::metadata(path).ok()?;
                Some((
                    metadata.ino(),
                    metadata.len(),
                    metadata.mtime(),
                    metadata.mtime_nsec(),
                ))
            }
            Self::Command(_) => None,
        }
    }
}

/// The inode, length and modification time of a file.
pub(crate) type Fingerprint = (u64, u64, i64, i64);

fn read_file(path: &Path) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    let file = File::open(path)?;
    // With capacity for the whole file, so that no reallocation leaves a copy of the keys in memory.
    let length = file.metadata()?.len().min(TEXT_BYTES_MAX);
    text.reserve(usize::try_from(length).unwrap_or(0) + 1);
    file.take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Creates a key file that only its owner can read. The owner is the user who creates it; if that is
/// root, the owner of its directory, because services rarely run as root.
///
/// # Errors
///
/// [`KeyError::Exists`] if there is a file, [`KeyError::File`] if it cannot be written.
pub fn make_key_file(path: &Path, keyring: &Keyring) -> Result<(), KeyError> {
    let created = fs::metadata(parent(path)).and_then(|directory| {
        write_new(path, keyring, |file| {
            if file.metadata()?.uid() == 0 {
                // If the file system does not allow it, the file remains owned by root.
                let _ = fchown(file, Some(directory.uid()), Some(directory.gid()));
            }
            Ok(())
        })
    });
    created.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => KeyError::Exists(path.to_owned()),
        _ => KeyError::File {
            file: path.to_owned(),
            source,
        },
    })
}

/// Replaces a key file atomically. Its owner, group and mode stay as they are.
///
/// # Errors
///
/// [`KeyError::File`] if it cannot be written, or not with the same owner and group.
pub fn replace_key_file(path: &Path, keyring: &Keyring) -> Result<(), KeyError> {
    replace(path, keyring).map_err(|source| KeyError::File {
        file: path.to_owned(),
        source,
    })
}

fn replace(path: &Path, keyring: &Keyring) -> io::Result<()> {
    // If the path is a symbolic link, the file that it points to is replaced.
    let path = &fs::canonicalize(path)?;
    let old = fs::metadata(path)?;
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    let written = write_new(&new, keyring, |file| {
        let created = file.metadata()?;
        if (created.uid(), created.gid()) != (old.uid(), old.gid()) {
            fchown(file, Some(old.uid()), Some(old.gid()))?;
        }
        let mode = old.permissions().mode() & 0o777;
        file.set_permissions(Permissions::from_mode(mode))
    });
    let replaced = written.and_then(|()| {
        fs::rename(&new, path)?;
        sync_directory(path)
    });
    if replaced.is_err() {
        // A partial file contains keys, and would make the next attempt fail.
        let _ = fs::remove_file(&new);
    }
    replaced
}

/// Writes keys to a new file. `set_attributes`, for the owner and the mode, is called before the keys are written.
fn write_new(
    path: &Path,
    keyring: &Keyring,
    set_attributes: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let written = set_attributes(&file).and_then(|()| {
        file.write_all(keyring.text().as_bytes())?;
        file.sync_all()?;
        sync_directory(path)
    });
    if written.is_err() {
        // A partial file would make the next attempt fail.
        let _ = fs::remove_file(path);
    }
    written
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

/// The directory of a file.
fn parent(path: &Path) -> &Path {
    let parent = path.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

impl KeyCommand {
    fn program(&self) -> &str {
        self.line.first().map_or("", String::as_str)
    }

    fn environment(&self) -> impl Iterator<Item = (OsString, OsString)> + '_ {
        std::env::vars_os().filter(|(name, _)| {
            name.to_str().is_some_and(|name| {
                PASSED_VARIABLES.contains(&name)
                    || name.starts_with("LC_")
                    || self.environment.iter().any(|passed| passed == name)
            })
        })
    }

    /// Runs the command, and returns its output.
    fn run(&self) -> Result<Zeroizing<String>, KeyError> {
        let program = self.program().to_owned();
        let run_error = |source| KeyError::NotRun {
            program: self.program().to_owned(),
            source,
        };
        let mut child = Command::new(&program)
            .args(self.line.iter().skip(1))
            .env_clear()
            .envs(self.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own, so that `kill` reaches its child processes too.
            .process_group(0)
            .spawn()
            .map_err(run_error)?;
        let output = start_reader(child.stdout.take(), TEXT_BYTES_MAX);
        let errors = start_reader(child.stderr.take(), TEXT_BYTES_MAX);
        let status = self.wait_or_time_out(&mut child).map_err(run_error)?;
        let Some(status) = status else {
            kill(&mut child);
            return Err(KeyError::TimedOut {
                program,
                seconds: self.timeout.as_secs(),
            });
        };
        // Child processes that are still running may keep the pipes open, so the readers are waited for until a
        // deadline only.
        let deadline = Instant::now() + self.timeout;
        if !status.success() {
            let errors = join_reader(errors, deadline).unwrap_or_default();
            return Err(KeyError::Failed {
                program,
                how: describe(status),
                why: match String::from_utf8_lossy(&errors).trim() {
                    "" => "it gave no reason".to_owned(),
                    why => why.chars().take(ERROR_CHARS_MAX).collect(),
                },
            });
        }
        let Some(output) = join_reader(output, deadline) else {
            kill(&mut child);
            return Err(KeyError::TimedOut {
                program,
                seconds: self.timeout.as_secs(),
            });
        };
        // Output that is not text has no key.
        let text = std::str::from_utf8(&output).map_err(|_| KeyError::NotAKey {
            origin: format!("the key command {program}"),
            line: 1,
        })?;
        Ok(Zeroizing::new(text.trim().to_owned()))
    }

    /// Waits until the command ends; none if it exceeds the time-out.
    fn wait_or_time_out(&self, child: &mut Child) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + self.timeout;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// A thread that reads a pipe of the command; `None` if there is no such pipe.
type Reader = Option<thread::JoinHandle<Zeroizing<Vec<u8>>>>;

/// Starts a thread that reads at most this many bytes of a pipe.
fn start_reader(pipe: Option<impl io::Read + Send + 'static>, bytes_max: u64) -> Reader {
    let pipe = pipe?;
    Some(thread::spawn(move || {
        let capacity = usize::try_from(bytes_max).unwrap_or(0) + 1;
        let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
        // After an error, the bytes that were read so far are used.
        let _ = pipe.take(bytes_max).read_to_end(&mut bytes);
        bytes
    }))
}

/// The bytes that a reader has read; none if the reader does not end in time.
fn join_reader(reader: Reader, deadline: Instant) -> Option<Zeroizing<Vec<u8>>> {
    let reader = reader?;
    while !reader.is_finished() {
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(POLL_INTERVAL);
    }
    reader.join().ok()
}

/// Kills a process with its group.
fn kill(child: &mut Child) {
    let leader = i32::try_from(child.id()).ok();
    if let Some(leader) = leader.and_then(rustix::process::Pid::from_raw) {
        // This fails only if no process of the group is left.
        let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
    }
    // The process was killed, or has ended before, so this returns at once.
    let _ = child.wait();
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit code".to_owned(),
    }
}
