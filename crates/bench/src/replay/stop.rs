//! How a user stops a run, and ends the program after it.

use std::io;
use std::process;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The exit code of a process that a signal ended is this plus the number of the signal.
const SIGNAL_EXIT_CODE: i32 = 128;

/// The phase of the program, which decides what a signal does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No server was requested yet. A signal ends the program at once.
    Before,
    /// Servers are requested. A signal stops that, and the results are still written; a second signal ends the program
    /// at once.
    Running,
    /// The results are written, if they can be, and the servers of the run are being deleted. A signal does not stop
    /// the deletions; a second signal ends the program at once.
    CleaningUp,
    /// Everything is done, and the program only stays to serve its page. A signal ends that.
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

    /// Records that the run begins.
    pub(crate) fn begin_run(&self) {
        *self.shared.phase.lock() = Phase::Running;
    }

    /// Records that the results of the run are written, if they can be, and that its servers are deleted from now on.
    pub(crate) fn begin_clean_up(&self) {
        *self.shared.phase.lock() = Phase::CleaningUp;
    }

    /// Records that nothing is left to do but to serve the page.
    pub(crate) fn end_run(&self) {
        *self.shared.phase.lock() = Phase::Over;
    }

    /// A receiver of whether the user has stopped the program.
    pub(crate) fn receiver(&self) -> watch::Receiver<bool> {
        self.shared.stopped.subscribe()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.shared.stopped.borrow()
    }

    /// Waits until the user stops the program; returns at once if the user has stopped the run already.
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
