//! Which instances replicas count on hosts that have not reported them, when other replicas release and swap claims.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use placewright_control::destinations::{DestinationsHandle, DestinationsRequest, KeepOptions};
use placewright_control::{ClaimMetrics, Placement, now, submit_placement};
use placewright_placement::{Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, ProviderId};
use placewright_testing::random::Rng;
use placewright_testing::site::instance;
use placewright_testing::site::replicated::{ControlReplica, ReplicatedSite};
use placewright_types::request::RequestSpec;
use uuid::Uuid;

const REPLICAS: u64 = 3;
/// Whether a request also claims the hosts that it selects.
const CLAIM: bool = true;
const NO_CLAIM: bool = false;

fn destinations(replica: &ControlReplica) -> DestinationsHandle {
    let placement = Placement::new(replica.engine.clone(), ClaimMetrics::default());
    let scheduler = replica.runtime.scheduler().clone();
    DestinationsHandle::new(placement, scheduler, KeepOptions::default())
}

fn request(number: usize, with_claim: bool) -> DestinationsRequest {
    let spec = r#"{"flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 1}}"#;
    DestinationsRequest {
        request_spec: Arc::new(serde_json::from_str(spec).unwrap()),
        instances: vec![instance(number).0],
        alternate_count: 2,
        with_claim,
        least: 1,
        explain: false,
        explain_hosts: Vec::new(),
    }
}

/// Removes an instance's allocations as clients of the Placement API do: by a claim without allocations.
async fn remove_allocations(replica: &ControlReplica, number: usize) {
    let claim = ConsumerClaim {
        consumer: instance(number).consumer(),
        generation: ConsumerGeneration::Any,
        project: "project".into(),
        user: "user".into(),
        consumer_type: None,
        allocations: Vec::new(),
    };
    let command = Command::Claim {
        consumers: vec![claim],
        at: now(),
    };
    // The claim is refused if the consumer holds nothing, which is no error here.
    let _ = submit_placement(&replica.engine, command).await.unwrap();
}

/// The pending instances of a replica with their hosts, after it has read all entries.
async fn pending(replica: &ControlReplica) -> Vec<(Uuid, ProviderId)> {
    replica.engine.confirm().await.unwrap();
    replica.runtime.scheduler().with_state(|scheduler, _| {
        let hosts = scheduler.hosts();
        let mut pending = Vec::new();
        for slot in hosts.slots().iter() {
            let instances = &hosts.get(slot).unwrap().instances;
            let of_host = instances.iter().filter(|(_, found)| found.is_pending);
            pending.extend(of_host.map(|(uuid, _)| (*uuid, ProviderId(slot))));
        }
        pending
    })
}

/// Whether an instance holds something on a host.
fn holds(replica: &ControlReplica, instance: Uuid, host: ProviderId) -> bool {
    replica.engine.read_now(|machine| {
        let consumer = ConsumerUuid::from_uuid(instance);
        let consumer = machine.placement().consumer(consumer);
        let mut held = consumer.iter().flat_map(|consumer| &consumer.allocations);
        held.any(|allocation| allocation.provider == host)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_another_replica_released_counts_no_longer() {
    let site = ReplicatedSite::start(REPLICAS, 1, 4).await;
    let handles: Vec<_> = site.replicas.iter().map(destinations).collect();
    for number in 0..3 {
        handles[0].select(request(number, CLAIM)).await.unwrap();
    }
    assert_eq!(pending(&site.replicas[0]).await.len(), 3);
    handles[1].release(instance(0).0).await.unwrap();
    remove_allocations(&site.replicas[2], 1).await;
    let kept = pending(&site.replicas[0]).await;
    let kept: Vec<Uuid> = kept.into_iter().map(|(instance, _)| instance).collect();
    assert_eq!(kept, [instance(2).0]);
    site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_another_replica_swapped_counts_where_it_went() {
    let site = ReplicatedSite::start(REPLICAS, 1, 4).await;
    let handles: Vec<_> = site.replicas.iter().map(destinations).collect();
    let selected = handles[0].select(request(0, CLAIM)).await.unwrap();
    let alternate = &selected.selections[0].alternates[0];
    let offered = handles[0].offered(alternate.candidate).await.unwrap();
    site.replicas[1].engine.confirm().await.unwrap();
    handles[1].swap(instance(0).0, &offered).await.unwrap();
    assert_eq!(pending(&site.replicas[0]).await, []);
    let there = (instance(0).0, ProviderId(alternate.host.slot));
    assert_eq!(pending(&site.replicas[1]).await, [there]);
    site.shutdown().await;
}

/// A request with a server group that placement does not have yet: it is created by a command of its own, before the
/// claim.
fn request_in_new_group(number: usize) -> DestinationsRequest {
    let mut request = request(number, CLAIM);
    let mut spec = RequestSpec::clone(&request.request_spec);
    let group = serde_json::json!({"uuid": instance(number).0, "policy": "anti-affinity"});
    spec.instance_group = Some(serde_json::from_value(group).unwrap());
    request.request_spec = Arc::new(spec);
    request
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_caller_goes_away_is_completed() {
    let site = ReplicatedSite::start(1, 1, 4).await;
    let replica = &site.replicas[0];
    let handle = destinations(replica);
    // The caller goes away after the first step, unless the whole request is done in this step.
    let mut number = 0;
    loop {
        let mut selecting = Box::pin(handle.select(request_in_new_group(number)));
        let polled = std::future::poll_fn(|context| Poll::Ready(selecting.as_mut().poll(context)));
        match polled.await {
            Poll::Pending => break,
            Poll::Ready(done) => drop(done.unwrap()),
        }
        number += 1;
    }
    let left = instance(number).0;
    let has_claimed = async {
        loop {
            let pending = pending(replica).await;
            if (pending.iter()).any(|(uuid, host)| *uuid == left && holds(replica, left, *host)) {
                return;
            }
        }
    };
    let waiting = tokio::time::timeout(Duration::from_secs(30), has_claimed);
    waiting.await.expect("the claim is made");
    site.shutdown().await;
}

/// Replicas claim, swap and release at once, and agents report nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_rest_no_replica_counts_an_instance_where_it_holds_nothing() {
    for seed in 0..4 {
        let site = ReplicatedSite::start(REPLICAS, 1, 4).await;
        let handles: Vec<_> = site.replicas.iter().map(destinations).collect();
        let work = (0..8).map(|worker| {
            let handles = handles.clone();
            tokio::spawn(async move {
                let mut rng = Rng(seed * 8 + worker);
                for _ in 0..60 {
                    // Few instances, so that workers interfere with each other; any of these calls may be refused then.
                    let number = rng.below(6);
                    let handle = &handles[rng.below(handles.len())];
                    match rng.below(4) {
                        0 => drop(handle.select(request(number, CLAIM)).await),
                        1 => {
                            if let Ok(found) = handle.select(request(number, NO_CLAIM)).await
                                && let Some(offer) = &found.selections[0].selected
                                && let Ok(offered) = handle.offered(offer.candidate).await
                            {
                                let other = &handles[rng.below(handles.len())];
                                drop(
                                    other
                                        .claim(instance(number).0, ("project", "user"), &offered)
                                        .await,
                                );
                                let other = &handles[rng.below(handles.len())];
                                drop(other.swap(instance(number).0, &offered).await);
                            }
                        }
                        _ => drop(handle.release(instance(number).0).await),
                    }
                }
            })
        });
        let work: Vec<_> = work.collect();
        for worker in work {
            worker.await.unwrap();
        }
        for replica in &site.replicas {
            for (instance, host) in pending(replica).await {
                assert!(
                    holds(replica, instance, host),
                    "seed {seed}: {instance} on {host:?}"
                );
            }
        }
        site.shutdown().await;
    }
}
