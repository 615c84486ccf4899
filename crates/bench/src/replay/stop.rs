//! How a user stops a run, and ends the program after it.

use std::io;
use std::process;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The exit code of a process that a signal ended is this plus the number of the signal.
const SIGNAL_EXIT_CODE: i32 = 128;

/// What a signal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was asked for yet: the program ends at once.
    Before,
    /// The run asks for nothing more, and its results are written. A further signal ends the program at once.
    Running,
    /// The results are written, and the servers of the run are deleted: that goes on. A further signal ends the program at
    /// once.
    CleaningUp,
    /// All is done: the program does not stay for its page any more.
    Over,
}

/// Whether the user has stopped the program, with Ctrl-C (SIGINT) or with SIGTERM. Clones refer to the same program.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stopped: watch::Sender<bool>,
    phase: Mutex<Phase>,
}

impl Stop {
    /// A program whose run has not begun.
    pub(crate) fn new() -> Self {
        let shared = Shared {
            stopped: watch::Sender::new(false),
            phase: Mutex::new(Phase::Before),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Handles the signals from now on.
    ///
    /// # Errors
    ///
    /// A signal cannot be handled.
    pub(crate) fn handle_signals(&self) -> io::Result<()> {
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            let mut signals = signal(kind)?;
            let stop = self.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    stop.handle(kind);
                }
            });
        }
        Ok(())
    }

    fn handle(&self, kind: SignalKind) {
        let phase = *self.shared.phase.lock();
        let was_stopped = self.shared.stopped.send_replace(true);
        match phase {
            Phase::Running if !was_stopped => {
                eprintln!("stopping: nothing more is asked for (once more to leave at once)");
            }
            Phase::CleaningUp if !was_stopped => {
                eprintln!(
                    "the servers of the run are still being deleted (once more to leave at once)"
                );
            }
            Phase::Over if !was_stopped => {}
            _ => process::exit(SIGNAL_EXIT_CODE + kind.as_raw_value()),
        }
    }

    /// The run begins: it is stopped in order from now on.
    pub(crate) fn begin_run(&self) {
        *self.shared.phase.lock() = Phase::Running;
    }

    /// The results of the run are written, and its servers are deleted from now on.
    pub(crate) fn begin_clean_up(&self) {
        *self.shared.phase.lock() = Phase::CleaningUp;
    }

    /// Nothing is left to do.
    pub(crate) fn end_run(&self) {
        *self.shared.phase.lock() = Phase::Over;
    }

    /// Becomes true when the user stops the program.
    pub(crate) fn receiver(&self) -> watch::Receiver<bool> {
        self.shared.stopped.subscribe()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.shared.stopped.borrow()
    }

    /// Waits until the user stops the program; returns at once if that was during the run.
    pub(crate) async fn wait(&self) {
        // There is no error, because `self` has the sender.
        let _ = self.receiver().wait_for(|is_stopped| *is_stopped).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_during_the_run_stops_it_and_ends_the_program_after_it() {
        let stop = Stop::new();
        let receiver = stop.receiver();
        stop.begin_run();
        assert!(!stop.is_stopped());
        stop.handle(SignalKind::terminate());
        assert!(stop.is_stopped() && *receiver.borrow());
        stop.end_run();
        stop.wait().await;
    }

    #[tokio::test]
    async fn a_signal_after_the_run_ends_what_stays() {
        let stop = Stop::new();
        stop.begin_run();
        stop.end_run();
        let staying = tokio::spawn({
            let stop = stop.clone();
            async move { stop.wait().await }
        });
        tokio::task::yield_now().await;
        assert!(!staying.is_finished());
        stop.handle(SignalKind::interrupt());
        staying.await.unwrap();
    }
}
