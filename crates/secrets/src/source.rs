//! Where keys come from: a file, or a command.

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

/// The most bytes of a key file, or of a command's output.
const TEXT_BYTES_MAX: u64 = 64 << 10;
/// The most characters of a command's standard error that an error shows.
const ERROR_CHARS_MAX: usize = 500;
/// How often a running command is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The variables of the environment that a command gets; others may be secret.
const PASSED: [&str; 8] = [
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR",
];

/// Where the keys of an installation come from.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// A file with one key a line.
    File(PathBuf),
    /// A command that prints the same.
    Command(KeyCommand),
}

/// A command that prints keys.
#[derive(Clone, Debug)]
pub struct KeyCommand {
    /// The program and its arguments. No shell reads them.
    pub line: Vec<String>,
    /// When it is killed.
    pub timeout: Duration,
    /// Names of variables that it gets besides the usual ones.
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

    /// What changes when the file does; none for a command.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        match self {
            Self::File(path) => {
                let found = fs::metadata(path).ok()?;
                Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
            }
            Self::Command(_) => None,
        }
    }
}

/// The inode, length and time of a file.
pub(crate) type Fingerprint = (u64, u64, i64, i64);

fn read_file(path: &Path) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    let file = File::open(path)?;
    // Room for everything, so that no part is left behind by a reallocation.
    let length = file.metadata()?.len().min(TEXT_BYTES_MAX);
    text.reserve(usize::try_from(length).unwrap_or(0) + 1);
    file.take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Makes a key file, which only its owner may read: the user who makes it, or with root the owner of
/// its folder, because a service is seldom root.
///
/// # Errors
///
/// There is one, or it cannot be made.
pub fn make_key_file(path: &Path, keyring: &Keyring) -> Result<(), KeyError> {
    let file = || path.to_owned();
    let made = fs::metadata(folder(path)).and_then(|folder| {
        write_new(path, keyring, |file| {
            if file.metadata()?.uid() == 0 {
                // Where even root may not, the file is root's.
                let _ = fchown(file, Some(folder.uid()), Some(folder.gid()));
            }
            Ok(())
        })
    });
    made.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => KeyError::Exists(file()),
        _ => KeyError::File {
            file: file(),
            source,
        },
    })
}

/// Replaces a key file: readers see the old keys or the new ones. Who may read it stays as it is.
///
/// # Errors
///
/// It cannot be written, or not with the owner and the group that it has.
pub fn replace_key_file(path: &Path, keyring: &Keyring) -> Result<(), KeyError> {
    replace(path, keyring).map_err(|source| KeyError::File {
        file: path.to_owned(),
        source,
    })
}

fn replace(path: &Path, keyring: &Keyring) -> io::Result<()> {
    // The file itself, where the path is a link to it.
    let path = &fs::canonicalize(path)?;
    let old = fs::metadata(path)?;
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    let written = write_new(&new, keyring, |file| {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
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
        // What is left of it has keys, and would be in the way of the next attempt.
        let _ = fs::remove_file(&new);
    }
    replaced
}

/// Writes keys to a file that is not there yet. `give` says whose it is, before it has keys.
fn write_new(
    path: &Path,
    keyring: &Keyring,
    give: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let written = give(&file).and_then(|()| {
        file.write_all(keyring.text().as_bytes())?;
        file.sync_all()?;
        sync_directory(path)
    });
    if written.is_err() {
        // A part of it would be in the way of the next attempt.
        let _ = fs::remove_file(path);
    }
    written
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

fn folder(path: &Path) -> &Path {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    above.unwrap_or(Path::new("."))
}

impl KeyCommand {
    fn program(&self) -> &str {
        self.line.first().map_or("", String::as_str)
    }

    fn environment(&self) -> impl Iterator<Item = (OsString, OsString)> + '_ {
        std::env::vars_os().filter(|(name, _)| {
            name.to_str().is_some_and(|name| {
                PASSED.contains(&name)
                    || name.starts_with("LC_")
                    || self.environment.iter().any(|more| more == name)
            })
        })
    }

    /// Runs it, and returns what it printed.
    fn run(&self) -> Result<Zeroizing<String>, KeyError> {
        let program = self.program().to_owned();
        let not_run = |source| KeyError::NotRun {
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
            .process_group(0)
            .spawn()
            .map_err(not_run)?;
        let output = reader(child.stdout.take(), TEXT_BYTES_MAX);
        let errors = reader(child.stderr.take(), TEXT_BYTES_MAX);
        let status = self.wait(&mut child).map_err(not_run)?;
        let Some(status) = status else {
            kill(&mut child);
            return Err(KeyError::TimedOut {
                program,
                seconds: self.timeout.as_secs(),
            });
        };
        // Children that it left running may hold the pipes open.
        let deadline = Instant::now() + self.timeout;
        if !status.success() {
            let errors = finished(errors, deadline).unwrap_or_default();
            return Err(KeyError::Failed {
                program,
                how: how(status),
                why: match String::from_utf8_lossy(&errors).trim() {
                    "" => "it gave no reason".to_owned(),
                    why => why.chars().take(ERROR_CHARS_MAX).collect(),
                },
            });
        }
        let Some(output) = finished(output, deadline) else {
            kill(&mut child);
            return Err(KeyError::TimedOut {
                program,
                seconds: self.timeout.as_secs(),
            });
        };
        let text = std::str::from_utf8(&output).map_err(|_| KeyError::NotAKey {
            origin: format!("the key command {program}"),
            line: 1,
        })?;
        Ok(Zeroizing::new(text.trim().to_owned()))
    }

    /// Waits until it ends; none if the time is over.
    fn wait(&self, child: &mut Child) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + self.timeout;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            thread::sleep(LOOK);
        }
    }
}

type Reader = Option<thread::JoinHandle<Zeroizing<Vec<u8>>>>;

fn reader(pipe: Option<impl io::Read + Send + 'static>, most: u64) -> Reader {
    let pipe = pipe?;
    Some(thread::spawn(move || {
        let room = usize::try_from(most).unwrap_or(0) + 1;
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        // After an error, what was read so far is used.
        let _ = pipe.take(most).read_to_end(&mut bytes);
        bytes
    }))
}

/// What a reader has read; none if it does not end in time.
fn finished(reader: Reader, deadline: Instant) -> Option<Zeroizing<Vec<u8>>> {
    let reader = reader?;
    while !reader.is_finished() {
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(LOOK);
    }
    reader.join().ok()
}

fn kill(child: &mut Child) {
    let leader = i32::try_from(child.id()).ok();
    if let Some(leader) = leader.and_then(rustix::process::Pid::from_raw) {
        // It fails only when no process of the group is left.
        let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
    }
    // It was killed, so this does not wait.
    let _ = child.wait();
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit code".to_owned(),
    }
}
