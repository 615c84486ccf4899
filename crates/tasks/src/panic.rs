//! The effects of a panic: a log line, and the end of the process if a long-lived task panicked.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use crate::context::{self, Context};
use crate::{ContainedWork, Task};

/// The exit code of a process that lost one of its tasks (`EX_SOFTWARE` of sysexits.h).
pub const EXIT_CODE: i32 = 70;

/// The longest time between the panic of a task and the exit of the process, in which the log has to be flushed. Mostly
/// the process exits earlier, as soon as the panic has unwound the task.
const EXIT_AFTER: Duration = Duration::from_millis(500);
/// The time between the panic of a task and the abort of the process, in case exiting hangs.
const ABORT_AFTER: Duration = Duration::from_millis(800);

/// The error of contained work that panicked. The log has the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panicked(pub ContainedWork);

impl std::fmt::Display for Panicked {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "an internal error occurred: {}", self.0.name())
    }
}

impl std::error::Error for Panicked {}

type Flush = Box<dyn Fn() + Send + Sync>;

/// Flushes the log. Set by [`install`]. While it is not set, the process does not end with [`EXIT_CODE`].
static FLUSH: OnceLock<Flush> = OnceLock::new();
/// The number of panics since the start of the process.
static PANICS: AtomicU64 = AtomicU64::new(0);
/// Whether a task has failed, so that the process is about to end.
static HAS_FAILED_TASK: AtomicBool = AtomicBool::new(false);

/// Installs the panic handling: a panic becomes one log line, and in a long-lived task it ends the
/// process.
///
/// `flush` has to write everything that was logged so far, within a few hundred milliseconds. A
/// second call has no effect.
pub fn install(flush: impl Fn() + Send + Sync + 'static) {
    if FLUSH.set(Box::new(flush)).is_ok() {
        std::panic::set_hook(Box::new(report_panic));
        #[cfg(feature = "fault-injection")]
        crate::injection::listen();
    }
}

/// The number of panics since the start of the process.
#[must_use]
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Whether the process is about to end because a task failed.
#[must_use]
pub fn has_failed_task() -> bool {
    HAS_FAILED_TASK.load(Ordering::Relaxed)
}

/// Writes the log line of a panic.
fn report_panic(info: &PanicHookInfo<'_>) {
    PANICS.fetch_add(1, Ordering::Relaxed);
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let at = info.location().map(tracing::field::display);
    let panic = info.payload_as_str().unwrap_or("no text");
    match context::current() {
        Context::Task(task) => {
            HAS_FAILED_TASK.store(true, Ordering::Relaxed);
            exit_soon();
            let task = task.name();
            tracing::error!(
                task,
                thread,
                at,
                panic,
                "a task panicked: the process ends with exit code {EXIT_CODE}"
            );
            flush();
        }
        Context::Contained(work) => {
            let task = work.name();
            tracing::error!(
                task,
                thread,
                at,
                panic,
                "a panic was contained: what was being done failed, everything else goes on"
            );
        }
        Context::Unknown => tracing::error!(thread, at, panic, "a panic"),
    }
    // Captured only if RUST_BACKTRACE is set. Resolving its symbols may take longer than the time before
    // the process exits.
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        let text = backtrace.to_string();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        tracing::error!(
            thread,
            backtrace = lines.join(" | "),
            "the way to the panic"
        );
        flush_if_task_failed();
    }
}

fn flush_if_task_failed() {
    if has_failed_task() {
        flush();
    }
}

fn flush() {
    if let Some(flush) = FLUSH.get() {
        flush();
    }
}

/// Called after the panic of a task was logged. Ends the process, or resumes the panic if
/// [`install`] was not called.
pub(crate) fn task_panicked(payload: Box<dyn Any + Send>) -> ! {
    if FLUSH.get().is_some() {
        exit();
    }
    std::panic::resume_unwind(payload)
}

/// As [`task_panicked`], for a thread. Without [`install`] it aborts the process, because the state
/// that the thread was changing may be inconsistent and must not be read.
pub(crate) fn thread_panicked() -> ! {
    if FLUSH.get().is_some() {
        exit();
    }
    std::process::abort()
}

/// Ends the process because a task ended although it was not stopped. Without [`install`] it only logs this.
pub fn task_ended(task: Task, why: &dyn std::fmt::Display) {
    let task = task.name();
    if FLUSH.get().is_none() {
        tracing::error!(task, %why, "a task ended by itself");
        return;
    }
    HAS_FAILED_TASK.store(true, Ordering::Relaxed);
    tracing::error!(task, %why, "a task ended by itself: the process ends with exit code {EXIT_CODE}");
    flush();
    exit();
}

/// Ends the process with [`EXIT_CODE`].
fn exit() -> ! {
    static IS_EXITING: AtomicBool = AtomicBool::new(false);
    if IS_EXITING.swap(true, Ordering::SeqCst) {
        // Another thread is already ending the process.
        std::thread::sleep(ABORT_AFTER);
        std::process::abort();
    }
    exit_soon();
    std::process::exit(EXIT_CODE)
}

/// Makes sure that the process ends, even if it does not exit by itself or exiting hangs.
fn exit_soon() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let start_thread = |name: &str, after: Duration, end: fn()| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            let run = move || {
                std::thread::sleep(after);
                end();
            };
            // If no thread can be started, the process can only exit regularly.
            let _ = thread.spawn(run);
        };
        start_thread("pw-exit", EXIT_AFTER, || std::process::exit(EXIT_CODE));
        start_thread("pw-abort", ABORT_AFTER, || std::process::abort());
    });
}
