//! Fault injection in test builds: a panic in a chosen task.
//!
//! `PLACEWRIGHT_TEST_PANIC_IN` names a task. After SIGUSR2 that task panics once, in its next iteration.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};

/// Whether the signal came and the chosen task has not panicked since.
static IS_PENDING: AtomicBool = AtomicBool::new(false);
/// The wakers of the chosen task, so that it is polled after the signal.
static WAKERS: Mutex<Vec<Waker>> = Mutex::new(Vec::new());

/// The name of the task that is to panic.
fn chosen_task() -> Option<&'static str> {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("PLACEWRIGHT_TEST_PANIC_IN").ok());
    chosen.as_deref()
}

/// Starts a thread that listens for the signal.
pub(crate) fn listen() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else { return };
    let wait = async {
        let Ok(mut signals) = signal(SignalKind::user_defined2()) else {
            return;
        };
        while signals.recv().await.is_some() {
            IS_PENDING.store(true, Ordering::SeqCst);
            for waker in std::mem::take(&mut *WAKERS.lock()) {
                waker.wake();
            }
        }
    };
    let thread = std::thread::Builder::new().name("pw-injection".to_owned());
    let _ = thread.spawn(move || runtime.block_on(wait));
}

/// Panics if this task is to panic.
pub(crate) fn panic_if_pending(name: &str) {
    if chosen_task() == Some(name) && IS_PENDING.swap(false, Ordering::SeqCst) {
        panic!("a panic was put into {name}");
    }
}

/// As [`panic_if_pending`], for a future that is polled. The signal wakes the future, so that it is polled and panics.
pub(crate) fn panic_in_poll_if_pending(name: &str, context: &Context<'_>) {
    if chosen_task() == Some(name) {
        let mut wakers = WAKERS.lock();
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        drop(wakers);
        panic_if_pending(name);
    }
}
