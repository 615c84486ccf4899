//! What becomes of panics, in this process and in one that took part.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::Command;
use std::time::{Duration, Instant};

use placewright_tasks::{
    ContainedWork, EXIT_CODE, Panicked, Role, Task, Tasks, caught_now, contain_panic, install,
    panics, spawn_contained, spawn_thread, supervise,
};

#[tokio::test]
async fn what_is_contained_is_an_error_for_its_caller_alone() {
    let answer = contain_panic(ContainedWork::HttpRequest, async { 7 }).await;
    assert_eq!(answer, Ok(7));
    let answer = contain_panic(ContainedWork::HttpRequest, async {
        tokio::task::yield_now().await;
        panic!("on purpose");
    });
    let answer: Result<(), Panicked> = answer.await;
    assert_eq!(answer, Err(Panicked(ContainedWork::HttpRequest)));
    let spawned = spawn_contained(ContainedWork::Follower, async { panic!("on purpose") });
    let spawned: Result<(), Panicked> = spawned.await.unwrap();
    assert_eq!(spawned, Err(Panicked(ContainedWork::Follower)));
    let now: Result<(), Panicked> = caught_now(ContainedWork::Decision, || panic!("on purpose"));
    assert_eq!(now, Err(Panicked(ContainedWork::Decision)));
}

#[tokio::test]
async fn tasks_that_were_told_to_may_end() {
    let tasks = Tasks::default();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    tasks.spawn(Task::CellTick, async {
        let _ = stopped.await;
    });
    tasks.may_end();
    drop(stop);
    tasks.join().await;
}

#[test]
fn names_are_told_apart() {
    let mut names: Vec<&str> = Task::ALL.iter().map(|task| task.name()).collect();
    names.extend(ContainedWork::ALL.iter().map(|what| what.name()));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(Task::ALL.iter().all(|task| !task.roles().is_empty()));
    assert_eq!(Role::Up.name(), "up");
}

/// The behaviour of this process when a test below starts it again.
const WHAT: &str = "PLACEWRIGHT_TEST_TASKS";

#[test]
fn a_process_of_its_own() {
    let Ok(what) = std::env::var(WHAT) else {
        return;
    };
    install(|| eprintln!("flushed after {} panics", panics()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let tasks = Tasks::default();
    match &*what {
        "task" => placewright_tasks::spawn(Task::Signals, async { panic!("on purpose") }),
        "group" => tasks.spawn(Task::CellAsks, async { panic!("on purpose") }),
        "end" => tasks.spawn(Task::CellAsks, async {}),
        "thread" => drop(spawn_thread(Task::EngineWriter, || panic!("on purpose")).unwrap()),
        "main" => runtime.block_on(supervise(Task::Main, async { panic!("on purpose") })),
        "contained" => {
            let caught: Result<(), Panicked> =
                caught_now(ContainedWork::Decision, || panic!("on purpose"));
            assert!(caught.is_err());
            return;
        }
        _ => {}
    }
    std::thread::sleep(Duration::from_secs(20));
}

fn run(what: &str) -> (Option<i32>, Duration, String) {
    let began = Instant::now();
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_of_its_own", "--nocapture"])
        .env(WHAT, what)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    (done.status.code(), began.elapsed(), told)
}

#[test]
fn a_process_that_loses_a_task_ends_with_its_code_within_a_second() {
    for what in ["task", "group", "end", "thread", "main"] {
        let (code, took, told) = run(what);
        assert_eq!(code, Some(EXIT_CODE), "{what}: {told}");
        assert!(took < Duration::from_secs(5), "{what}: {took:?}");
        assert!(told.contains("flushed after"), "{what}: {told}");
    }
}

#[test]
fn a_process_goes_on_after_what_is_contained() {
    let (code, _, told) = run("contained");
    assert_eq!(code, Some(0), "{told}");
}
