//! PostgreSQL's programs, run as a user other than root: the server refuses to run as root.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where Debian has the programs, one directory for each release.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The oldest release that the journal supports.
const RELEASE_MIN: u32 = 15;
/// The user that runs the programs if the tests run as root.
const USER: &str = "postgres";
/// The environment variable that makes tests fail, and not be skipped, if programs are missing.
const DEMAND_VARIABLE: &str = "PLACEWRIGHT_TEST_ENGINES";

/// The programs of one release.
pub(super) struct Programs {
    /// The directory of the programs.
    folder: PathBuf,
    /// The ids of the user and the group that run the programs; `None` if the user of the tests does.
    user: Option<(u32, u32)>,
}

impl Programs {
    /// Whether the programs are installed; see [`super::PostgresqlCluster::available`].
    pub(super) fn are_available() -> bool {
        match Self::find() {
            Ok(_) => true,
            Err(error) => {
                assert!(
                    std::env::var(DEMAND_VARIABLE).as_deref() != Ok("1"),
                    "{error}, and {DEMAND_VARIABLE}=1 demands it"
                );
                eprintln!("skipped: {error} (Debian: postgresql-15)");
                false
            }
        }
    }

    /// Finds the programs of the newest release that is installed and supported.
    pub(super) fn find() -> io::Result<Self> {
        let mut folders: Vec<(u32, PathBuf)> = Vec::new();
        for entry in fs::read_dir(DEBIAN).into_iter().flatten().flatten() {
            let release = entry.file_name().to_string_lossy().parse();
            if let Ok(release @ RELEASE_MIN..) = release {
                folders.push((release, entry.path().join("bin")));
            }
        }
        folders.retain(|(_, folder)| folder.join("postgres").exists());
        let newest = folders.into_iter().max();
        let (_, folder) = newest.ok_or_else(|| io::Error::other("PostgreSQL is not installed"))?;
        let user = if rustix::process::geteuid().is_root() {
            Some((id("-u")?, id("-g")?))
        } else {
            None
        };
        Ok(Self { folder, user })
    }

    /// A command of a program.
    pub(super) fn command(&self, program: &str) -> Command {
        let program = self.folder.join(program);
        let mut command = match self.user {
            None => Command::new(program),
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command
                    .args(["--reuid", &user.to_string()])
                    .args(["--regid", &group.to_string()])
                    .args(["--clear-groups", "--"])
                    .arg(program);
                command
            }
        };
        for (name, _) in std::env::vars_os() {
            // These variables would override the options.
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        command
            .current_dir("/")
            .stdin(Stdio::null())
            .env("LC_ALL", "C");
        command
    }

    pub(super) fn run(&self, program: &str, arguments: &[&str]) -> io::Result<()> {
        self.run_with(program, arguments, &[])
    }

    pub(super) fn run_with(
        &self,
        program: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> io::Result<()> {
        self.output(program, arguments, environment).map(|_| ())
    }

    /// Runs a program to its end, and returns what it printed.
    pub(super) fn output(
        &self,
        program: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> io::Result<String> {
        let mut command = self.command(program);
        command.args(arguments).envs(environment.iter().copied());
        let output = command.output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("{program}: {}", message.trim())))
    }

    /// Gives a file or a directory to the user of the programs.
    pub(super) fn give(&self, path: &Path) -> io::Result<()> {
        match self.user {
            Some((user, group)) => chown(path, Some(user), Some(group)),
            None => Ok(()),
        }
    }

    /// Writes a file that only the user of the programs can read.
    pub(super) fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        fs::write(path, content)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        self.give(path)
    }
}

/// The number of the user or the group of [`USER`].
fn id(option: &str) -> io::Result<u32> {
    let output = Command::new("id").args([option, USER]).output()?;
    let number = String::from_utf8_lossy(&output.stdout).trim().parse();
    number.map_err(|_| io::Error::other("there is no user postgres to run PostgreSQL"))
}
