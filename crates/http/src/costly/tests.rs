//! Tests of the turns of costly requests.

use super::*;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, yield_now};

fn new_executor(running_max: usize, waiting_per_caller_max: usize) -> CostlyExecutor {
    let options = CostlyOptions {
        running_max,
        waiting_per_caller_max,
        waiting_max: 100,
    };
    CostlyExecutor::new(options, Some(Handle::current()))
}

#[tokio::test]
async fn a_caller_with_many_requests_waits_for_itself() {
    let executor = new_executor(1, 50);
    // Each request needs a permit to end, so that none ends before all of them wait.
    let limiter = Arc::new(Semaphore::new(0));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for (caller, count) in [(1, 20), (2, 1)] {
        for _ in 0..count {
            let (executor, limiter, order) =
                (executor.clone(), Arc::clone(&limiter), Arc::clone(&order));
            tasks.spawn(async move {
                let request = async move {
                    limiter.acquire().await.unwrap().forget();
                    order.lock().push(caller);
                };
                executor
                    .run(Caller(caller), WorkLength::Long, request)
                    .await
                    .unwrap();
            });
            yield_now().await;
        }
    }
    while executor.waiting() < 20 {
        yield_now().await;
    }
    limiter.add_permits(21);
    while tasks.join_next().await.is_some() {}
    let order = order.lock();
    assert_eq!(order.len(), 21);
    // One request of the first caller runs from the start, and a second one has its turn before the other caller's.
    assert_eq!(order.iter().position(|caller| *caller == 2), Some(2));
}

/// Polls a future once.
async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
}

#[tokio::test]
async fn a_request_whose_client_has_gone_counts_in_no_limit() {
    let executor = new_executor(1, 2);
    let run = || executor.run(Caller(1), WorkLength::Long, std::future::pending::<()>());
    let mut running = Box::pin(run());
    assert!(is_pending(&mut running).await);
    let mut clients = [Box::pin(run()), Box::pin(run())];
    for client in &mut clients {
        assert!(is_pending(client).await);
    }
    assert_eq!(run().await, Err(CostlyError::TooManyOfCaller(2)));
    drop(clients);
    let mut next = Box::pin(run());
    assert!(is_pending(&mut next).await);
    assert_eq!(executor.waiting(), 1);
}

#[tokio::test]
async fn too_many_of_one_caller_are_refused_and_others_are_not() {
    let executor = new_executor(1, 2);
    let mut under_way = JoinSet::new();
    for _ in 0..3 {
        let executor = executor.clone();
        under_way.spawn(async move {
            executor
                .run(Caller(1), WorkLength::Long, std::future::pending::<()>())
                .await
        });
        yield_now().await;
    }
    let refused = executor.run(Caller(1), WorkLength::Long, async {}).await;
    assert_eq!(refused, Err(CostlyError::TooManyOfCaller(2)));
    let other = {
        let executor = executor.clone();
        tokio::spawn(async move { executor.run(Caller(2), WorkLength::Long, async { 7 }).await })
    };
    // A cancelled request makes room for other requests, whether it runs or waits.
    under_way.shutdown().await;
    assert_eq!(other.await.unwrap(), Ok(7));
    assert_eq!(
        executor.run(Caller(1), WorkLength::Long, async { 8 }).await,
        Ok(8)
    );
}

#[tokio::test]
async fn a_caller_never_has_all_turns() {
    let executor = new_executor(3, 50);
    let mut under_way = JoinSet::new();
    for _ in 0..9 {
        let executor = executor.clone();
        under_way.spawn(async move {
            executor
                .run(Caller(1), WorkLength::Long, std::future::pending::<()>())
                .await
        });
        yield_now().await;
    }
    // Two of the nine requests run: one of the three places is left for others.
    assert_eq!(executor.waiting(), 7);
    assert_eq!(
        executor.run(Caller(2), WorkLength::Long, async { 7 }).await,
        Ok(7)
    );
    under_way.shutdown().await;
    assert_eq!(
        executor.run(Caller(1), WorkLength::Long, async { 8 }).await,
        Ok(8)
    );
}

#[tokio::test]
async fn one_short_request_runs_beside_the_long_ones_of_its_caller() {
    let executor = new_executor(3, 50);
    let run_forever = |length| {
        let executor = executor.clone();
        let forever = std::future::pending::<()>();
        async move { executor.run(Caller(1), length, forever).await }
    };
    let mut under_way = JoinSet::new();
    for _ in 0..20 {
        under_way.spawn(run_forever(WorkLength::Long));
        yield_now().await;
    }
    // Two of the twenty requests run: one of the three places is left for others.
    assert_eq!(executor.waiting(), 18);
    let short = executor.run(Caller(1), WorkLength::Short, async { 7 });
    assert_eq!(short.await, Ok(7));
    let of_another = executor.run(Caller(2), WorkLength::Long, async { 8 });
    assert_eq!(of_another.await, Ok(8), "the place of others is free");
    for _ in 0..2 {
        under_way.spawn(run_forever(WorkLength::Short));
        yield_now().await;
    }
    assert_eq!(executor.waiting(), 19, "a second short request waits");
}

#[tokio::test]
async fn short_and_long_requests_of_a_caller_take_turns() {
    let executor = new_executor(1, 50);
    // Each request needs a permit to end, so that none ends before all of them wait.
    let limiter = Arc::new(Semaphore::new(0));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for length in [WorkLength::Long, WorkLength::Short] {
        for _ in 0..20 {
            let (executor, limiter, order) =
                (executor.clone(), Arc::clone(&limiter), Arc::clone(&order));
            tasks.spawn(async move {
                let request = async move {
                    limiter.acquire().await.unwrap().forget();
                    order.lock().push(length);
                };
                executor.run(Caller(1), length, request).await.unwrap();
            });
            yield_now().await;
        }
    }
    limiter.add_permits(40);
    while tasks.join_next().await.is_some() {}
    let order = order.lock();
    let long = order[..12]
        .iter()
        .filter(|length| **length == WorkLength::Long);
    let long = long.count();
    // About half of the first twelve requests are long.
    assert!((3..=7).contains(&long), "{order:?}");
}

#[test]
fn a_caller_with_many_short_requests_keeps_its_turn_for_long_ones() {
    let mut queue = FairQueue::new(CostlyOptions::default());
    for (caller, short, long) in [(1, 50, 5), (2, 0, 50), (3, 0, 50)] {
        for (length, count) in [(WorkLength::Short, short), (WorkLength::Long, long)] {
            for _ in 0..count {
                queue.wait(Caller(caller), length, (caller, length));
            }
        }
    }
    let mut under_way = VecDeque::new();
    let (mut long, mut first_long_of_one) = (0, None);
    while long < 60 {
        while let Some((place, (caller, length))) = queue.next() {
            if length == WorkLength::Long {
                long += 1;
                if caller == 1 {
                    first_long_of_one = first_long_of_one.or(Some(long));
                }
                under_way.push_back(place);
            } else {
                // Short requests end first, so that the extra place is free again and again.
                under_way.push_front(place);
            }
        }
        let place = under_way.pop_front().unwrap();
        queue.end(place);
    }
    // If short requests cost the caller its turn, its first long request would run much later.
    assert!(
        first_long_of_one.is_some_and(|first| first <= 12),
        "{first_long_of_one:?}"
    );
}

#[tokio::test]
async fn long_requests_that_wait_take_no_room_from_short_ones() {
    let executor = new_executor(1, 2);
    let mut under_way = JoinSet::new();
    for _ in 0..3 {
        let executor = executor.clone();
        under_way.spawn(async move {
            executor
                .run(Caller(1), WorkLength::Long, std::future::pending::<()>())
                .await
        });
        yield_now().await;
    }
    let refused = executor.run(Caller(1), WorkLength::Long, async {}).await;
    assert_eq!(refused, Err(CostlyError::TooManyOfCaller(2)));
    for number in 0..2 {
        let executor = executor.clone();
        let short = async move {
            let forever = std::future::pending::<()>();
            executor.run(Caller(1), WorkLength::Short, forever).await
        };
        under_way.spawn(short);
        yield_now().await;
        assert!(under_way.try_join_next().is_none(), "{number} is refused");
    }
    assert_eq!(executor.waiting(), 4);
}

#[tokio::test]
async fn no_more_run_than_may_and_a_panic_gives_its_turn_back() {
    let executor = new_executor(2, 50);
    let running = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for number in 0..20 {
        let (executor, running) = (executor.clone(), Arc::clone(&running));
        tasks.spawn(async move {
            let request = async move {
                assert!(running.fetch_add(1, Ordering::SeqCst) < 2);
                yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                assert!(number % 5 != 0, "as if by a bug");
            };
            let done = executor
                .run(Caller(number % 3), WorkLength::Long, request)
                .await;
            assert_eq!(done.is_err(), number % 5 == 0);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(executor.waiting(), 0);
}
