//! The effects of panics, in this process and in one that called `install`.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::Command;
use std::time::{Duration, Instant};

use placewright_tasks::{
    ContainedWork, EXIT_CODE, Panicked, ProcessKind, Task, Tasks, contain_panic,
    contain_panic_sync, install, panics, spawn_contained, spawn_thread, supervise,
};

#[tokio::test]
async fn a_contained_panic_is_an_error_for_its_caller_only() {
    let result = contain_panic(ContainedWork::HttpRequest, async { 7 }).await;
    assert_eq!(result, Ok(7));
    let result = contain_panic(ContainedWork::HttpRequest, async {
        tokio::task::yield_now().await;
        panic!("on purpose");
    });
    let result: Result<(), Panicked> = result.await;
    assert_eq!(result, Err(Panicked(ContainedWork::HttpRequest)));
    let spawned = spawn_contained(ContainedWork::Follower, async { panic!("on purpose") });
    let spawned: Result<(), Panicked> = spawned.await.unwrap();
    assert_eq!(spawned, Err(Panicked(ContainedWork::Follower)));
    let sync: Result<(), Panicked> =
        contain_panic_sync(ContainedWork::Decision, || panic!("on purpose"));
    assert_eq!(sync, Err(Panicked(ContainedWork::Decision)));
}

#[tokio::test]
async fn tasks_may_end_after_they_were_allowed_to() {
    let tasks = Tasks::default();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    tasks.spawn(Task::CellTick, async {
        let _ = stopped.await;
    });
    tasks.allow_end();
    drop(stop);
    tasks.join().await;
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = Task::ALL.iter().map(|task| task.name()).collect();
    names.extend(ContainedWork::ALL.iter().map(|kind| kind.name()));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(Task::ALL.iter().all(|task| !task.processes().is_empty()));
    assert_eq!(ProcessKind::Up.name(), "up");
}

/// The variable that tells a child process of the tests below which scenario to run.
const SCENARIO: &str = "PLACEWRIGHT_TEST_TASKS";

#[test]
fn run_scenario_in_child_process() {
    let Ok(scenario) = std::env::var(SCENARIO) else {
        return;
    };
    install(|| eprintln!("flushed after {} panics", panics()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let _guard = runtime.enter();
    let tasks = Tasks::default();
    match &*scenario {
        "task" => placewright_tasks::spawn(Task::Signals, async { panic!("on purpose") }),
        "group" => tasks.spawn(Task::CellClaimRequests, async { panic!("on purpose") }),
        "end" => tasks.spawn(Task::CellClaimRequests, async {}),
        "thread" => drop(spawn_thread(Task::EngineWriter, || panic!("on purpose")).unwrap()),
        "main" => runtime.block_on(supervise(Task::Main, async { panic!("on purpose") })),
        "contained" => {
            let result: Result<(), Panicked> =
                contain_panic_sync(ContainedWork::Decision, || panic!("on purpose"));
            assert!(result.is_err());
            return;
        }
        _ => {}
    }
    std::thread::sleep(Duration::from_secs(20));
}

fn run(scenario: &str) -> (Option<i32>, Duration, String) {
    let began = Instant::now();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "run_scenario_in_child_process", "--nocapture"])
        .env(SCENARIO, scenario)
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), began.elapsed(), log)
}

#[test]
fn a_process_ends_with_the_exit_code_when_a_task_panics_or_ends() {
    for scenario in ["task", "group", "end", "thread", "main"] {
        let (code, took, log) = run(scenario);
        assert_eq!(code, Some(EXIT_CODE), "{scenario}: {log}");
        assert!(took < Duration::from_secs(5), "{scenario}: {took:?}");
        assert!(log.contains("flushed after"), "{scenario}: {log}");
    }
}

#[test]
fn a_process_continues_after_a_contained_panic() {
    let (code, _, log) = run("contained");
    assert_eq!(code, Some(0), "{log}");
}
