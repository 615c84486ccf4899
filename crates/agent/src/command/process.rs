//! Runs one child process: writes its input, reads its output, and kills it after a time-out.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::driver::DriverError;

/// The maximum number of bytes of standard output that are read.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;
/// How many bytes of the end of standard error are kept.
const STDERR_TAIL_BYTES: usize = 2000;
/// How long the outputs of a process are still read after it has ended. Reading needs a limit, because children of the
/// process that still run may keep the outputs open.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

/// A process to run.
pub(super) struct ProcessSpec {
    pub(super) program: PathBuf,
    /// The variables that it inherits from this process's environment.
    pub(super) inherited: Vec<(OsString, OsString)>,
    /// The variables that it receives in addition.
    pub(super) environment: Vec<(&'static str, String)>,
    pub(super) input: Vec<u8>,
    pub(super) timeout: Duration,
}

/// The result of a process that has ended.
pub(super) struct ProcessResult {
    /// Its exit code; none if a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    /// The last [`STDERR_TAIL_BYTES`] bytes of standard error.
    pub(super) stderr_tail: String,
}

/// Kills the process with its whole group when dropped, unless it has ended.
struct ProcessGroupGuard {
    /// The process to kill, which leads its group; none once it has ended.
    leader: Option<rustix::process::Pid>,
}

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            // This fails only when no process of the group is left.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

/// Runs a process to its end. If the future is dropped or the time-out is exceeded, the process is
/// killed with its whole group.
pub(super) async fn run(spec: ProcessSpec) -> Result<ProcessResult, DriverError> {
    let name = spec.program.display().to_string();
    let run_error = |error: std::io::Error| DriverError::retriable(format!("{name}: {error}"));
    let mut child = Command::new(&spec.program)
        .env_clear()
        .envs(spec.inherited)
        .envs(spec.environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(run_error)?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let mut group = ProcessGroupGuard {
        leader: id.and_then(rustix::process::Pid::from_raw),
    };
    let stdout = child.stdout.take().map(|pipe| tokio::spawn(read_all(pipe)));
    let stderr = child
        .stderr
        .take()
        .map(|pipe| tokio::spawn(read_tail(pipe)));
    let code = match timeout(spec.timeout, write_input_and_wait(&mut child, &spec.input)).await {
        Ok(status) => {
            // Processes that the child started and that still run are not killed: one may be a guest.
            group.leader = None;
            status.map_err(run_error)?.code()
        }
        Err(_) => {
            drop(group);
            let stderr_tail = join_reader(stderr).await;
            let stderr_tail = String::from_utf8_lossy(&stderr_tail);
            return Err(DriverError::retriable(format!(
                "{name} took more than {} s and was killed: {}",
                spec.timeout.as_secs_f32(),
                stderr_tail.trim()
            )));
        }
    };
    let stderr_tail = join_reader(stderr).await;
    Ok(ProcessResult {
        code,
        stdout: join_reader(stdout).await,
        stderr_tail: String::from_utf8_lossy(&stderr_tail).into_owned(),
    })
}

async fn write_input_and_wait(
    child: &mut Child,
    input: &[u8],
) -> std::io::Result<std::process::ExitStatus> {
    if let Some(mut pipe) = child.stdin.take() {
        // A process that does not read its input is not an error.
        let _ = pipe.write_all(input).await;
    }
    child.wait().await
}

/// Waits for a task that reads a pipe, and returns the bytes. If the task does not end within [`READ_TIMEOUT`], there
/// are none.
async fn join_reader(reader: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    let Some(mut reader) = reader else {
        return Vec::new();
    };
    match timeout(READ_TIMEOUT, &mut reader).await {
        Ok(bytes) => bytes.unwrap_or_default(),
        Err(_) => {
            reader.abort();
            Vec::new()
        }
    }
}

async fn read_all(pipe: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    // After an error, the bytes read so far are used.
    let _ = pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).await;
    bytes
}

async fn read_tail(mut pipe: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count) = pipe.read(&mut buffer).await
        && count > 0
    {
        bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let surplus = bytes.len().saturating_sub(STDERR_TAIL_BYTES);
        bytes.drain(..surplus);
    }
    bytes
}
