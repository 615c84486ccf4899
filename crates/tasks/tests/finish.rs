//! Work that is completed also if its caller goes away.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use placewright_tasks::{ContainedWork, Panicked, finish_if_dropped};
use tokio::sync::{Notify, oneshot};

#[tokio::test]
async fn work_is_done_by_its_caller_and_a_panic_in_it_is_an_error() {
    let caller = tokio::task::try_id();
    let work = finish_if_dropped(ContainedWork::HttpRequest, async {
        tokio::task::yield_now().await;
        tokio::task::try_id()
    });
    assert_eq!(work.await, Ok(caller));
    let work = finish_if_dropped(ContainedWork::HttpRequest, async {
        tokio::task::yield_now().await;
        panic!("on purpose");
    });
    let result: Result<(), Panicked> = work.await;
    assert_eq!(result, Err(Panicked(ContainedWork::HttpRequest)));
}

#[tokio::test]
async fn work_that_was_begun_is_completed_after_its_caller_went_away() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (done, is_done) = oneshot::channel();
    let work = finish_if_dropped(ContainedWork::HttpRequest, {
        let (begun, go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
        async move {
            begun.notify_one();
            go_on.notified().await;
            done.send(7).unwrap();
        }
    });
    let caller = tokio::spawn(work);
    begun.notified().await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    go_on.notify_one();
    assert_eq!(is_done.await, Ok(7));
}

#[tokio::test]
async fn work_that_was_not_begun_is_not_done() {
    let is_begun = Arc::new(AtomicBool::new(false));
    let begin = Arc::clone(&is_begun);
    drop(finish_if_dropped(ContainedWork::HttpRequest, async move {
        begin.store(true, Ordering::SeqCst);
    }));
    tokio::task::yield_now().await;
    assert!(!is_begun.load(Ordering::SeqCst));
}
