//! One PostgreSQL server: its main process, and the processes that the main process started.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::programs::Programs;

/// One server, whether it runs or not.
pub(super) struct Server {
    pub(super) port: u16,
    index: usize,
    /// The directory of the server's data.
    data: PathBuf,
    /// `None` while the server is killed.
    process: Option<Child>,
}

impl Server {
    pub(super) fn new(index: usize, port: u16, data: PathBuf) -> Self {
        Self {
            port,
            index,
            data,
            process: None,
        }
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// A file in the server's directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.data.join(name)
    }

    pub(super) fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Whether the server ended by itself since it was started.
    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        match &mut self.process {
            Some(process) => Ok(process.try_wait()?.is_some()),
            None => Ok(false),
        }
    }

    pub(super) fn spawn(&mut self, programs: &Programs) -> io::Result<()> {
        // The server's messages about its start and its end help when a test fails.
        let log_path = self.data.with_file_name(format!("s{}.log", self.index));
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log_path)?;
        let process = programs
            .command("postgres")
            .arg("-D")
            .arg(&self.data)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        self.process = Some(process);
        Ok(())
    }

    pub(super) fn kill(&mut self) -> io::Result<()> {
        let processes = self.processes()?;
        for process in processes {
            // A process may have ended in between.
            let _ = kill_process(process, Signal::KILL);
        }
        if let Some(mut process) = self.process.take() {
            process.wait()?;
        }
        Ok(())
    }

    pub(super) fn stop(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    pub(super) fn resume(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        // The list begins with the main process. Once that is suspended, it starts no others.
        for process in self.processes()? {
            let _ = kill_process(process, signal);
        }
        // The second round reaches the processes that the main process started between the first listing and its own
        // suspension.
        for process in self.processes()? {
            let _ = kill_process(process, signal);
        }
        Ok(())
    }

    /// The server's main process, and the processes that it started.
    fn processes(&self) -> io::Result<Vec<Pid>> {
        let process = self.process.as_ref();
        let process = process.ok_or_else(|| io::Error::other("the server does not run"))?;
        let main = Pid::from_child(process);
        let mut processes = vec![main];
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(pid) = entry
                .file_name()
                .to_string_lossy()
                .parse()
                .ok()
                .and_then(Pid::from_raw)
            else {
                continue;
            };
            // After the name, which is in parentheses: the state and the process that started it.
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let parent = stat.rsplit_once(')').and_then(|(_, rest)| {
                let parent = rest.split_whitespace().nth(1)?;
                parent.parse().ok().and_then(Pid::from_raw)
            });
            if parent == Some(main) {
                processes.push(pid);
            }
        }
        Ok(processes)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killing fails if the server does not run.
        let _ = self.kill();
    }
}
