//! Why a server is where it is, as the scheduler API shows it.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::sync::Arc;

use placewright_api_scheduler::{KeepOptions, SchedulerService};
use placewright_api_testing::{ApiParts, call, get};
use placewright_conductor::{CellId, claims};
use placewright_control::Options;
use placewright_http::HttpOptions;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use placewright_testing::site::{Site, Stores, cell, host, instance, options};
use serde_json::{Value, json};

fn service_of(site: &Site) -> Arc<SchedulerService> {
    let parts = ApiParts::on_engine(site.conductor.engine(), HttpOptions::default(), "");
    let scheduler = Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).unwrap();
    parts.scheduler(scheduler, KeepOptions::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_shown_as_it_was_made() {
    // One cell with three hosts.
    let site = Site::start(Stores::Memory, 1, 3, Arc::default()).await;
    let service = service_of(&site);
    let path = format!("/v1/decisions/{}", instance(0));
    let unknown = get(&path).send_to_scheduler(&service).await;
    assert_eq!(
        (unknown.status, &*unknown.code()),
        (404, "scheduler.not_found")
    );

    // Instance 0, with 2 CPUs.
    site.create(0..1, 2).await;
    site.until("it has a host", |control, _| {
        claims::host_of(&control.placement, instance(0)).is_some()
    })
    .await;
    let placed_on = site
        .conductor
        .read(|control, _| claims::host_of(&control.placement, instance(0)).unwrap());
    let placed_on = placed_on.await;

    let shown = get(&path).send_to_scheduler(&service).await;
    assert_eq!(shown.status, 200, "{}", shown.text);
    let shown = shown.json();
    assert_eq!(shown["host"]["provider"], json!(placed_on.0));
    assert_eq!(shown["waiting"], false);
    let [decision] = &shown["decisions"].as_array().unwrap()[..] else {
        panic!("{shown}");
    };
    assert_eq!(
        (&decision["kind"], &decision["is_present"]),
        (&json!("build"), &json!(true))
    );
    assert_eq!(decision["provider"], json!(placed_on.0));
    assert_eq!(
        (&decision["fallen_count"], &decision["alternates"]),
        (&json!(0), &json!(2))
    );
    let search = &decision["search"];
    assert_eq!(
        (&search["known_hosts"], &search["feasible"]),
        (&json!(3), &json!(3))
    );
    let ranking = search["ranking"].as_array().unwrap();
    assert_eq!(ranking.len(), 3);
    let selected: Vec<&Value> = ranking
        .iter()
        .filter(|host| host["selected"] == true)
        .collect();
    assert_eq!(selected.len(), 1);
    assert_eq!(selected[0]["provider"], json!(placed_on.0));
    assert!(search["sequence"].as_u64().unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_host_has_the_reason() {
    // One cell with three hosts.
    let site = Site::start(Stores::Memory, 1, 3, Arc::default()).await;
    let service = service_of(&site);
    // Instance 1, with more CPUs than a host has.
    site.create(1..2, 999).await;
    site.until("it has none", |control, _| {
        control.conductor.buried().contains_key(&instance(1))
    })
    .await;
    let path = format!("/v1/decisions/{}", instance(1));
    let buried = get(&path).send_to_scheduler(&service).await.json();
    assert_eq!(
        (&buried["host"], &buried["decisions"]),
        (&Value::Null, &json!([]))
    );
    let fault = &buried["fault"];
    assert!(
        fault["message"]
            .as_str()
            .unwrap()
            .starts_with("No valid host"),
        "{fault}"
    );
    assert_eq!(fault["details"]["hosts"], 3, "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_wrongly_is_refused() {
    // One cell with one host.
    let site = Site::start(Stores::Memory, 1, 1, Arc::default()).await;
    let service = service_of(&site);
    let path = format!("/v1/decisions/{}", instance(0));
    let posted = call("POST", &path).json("{}").send_to_scheduler(&service);
    let posted = posted.await;
    assert_eq!((posted.status, posted.header("allow")), (405, "GET"));
    let wrong = get("/v1/decisions/web-1").send_to_scheduler(&service).await;
    assert_eq!(
        (wrong.status, &wrong.json()["errors"][0]["field"]),
        (400, &json!("path"))
    );
    for path in ["/v1/decisions", "/v1/decisions/", &format!("{path}/x")] {
        let missing = get(path).send_to_scheduler(&service).await;
        assert!(
            [400, 404].contains(&missing.status),
            "{path}: {}",
            missing.text
        );
    }
    let tenant = get(&path).header("x-auth-token", "somebody:project");
    assert_eq!(tenant.send_to_scheduler(&service).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_taken_from_its_cell_says_what_failed_there() {
    let options = Options {
        reschedule_across_cells: true,
        ..options()
    };
    // Two cells with one host each. Builds fail on that of the first cell.
    let site = Site::start_with(Stores::Memory, (2, 1), Arc::default(), options).await;
    site.fleet.lock().failing = vec![host(0, 0)];
    let service = service_of(&site);
    // Each needs 12 of the 16 CPUs of a host, so one of the servers is placed in the first cell at first.
    site.create(0..2, 12).await;
    site.until(
        "both are in the second cell, or nowhere",
        |control, views| {
            let mut mappings = control.conductor.mappings().iter();
            mappings.all(|(id, mapping)| match mapping.cell {
                Some(CellId::CELL0) => true,
                Some(of) if of == cell(1) => views.instance(of, *id).is_some(),
                _ => false,
            })
        },
    )
    .await;
    let mut left = 0;
    for number in 0..2 {
        let path = format!("/v1/decisions/{}", instance(number));
        let shown = get(&path).send_to_scheduler(&service).await.json();
        let Some(left_cell) = shown["left_cell"].as_object() else {
            continue;
        };
        left += 1;
        assert_eq!(left_cell["cell"], json!(cell(0).0), "{shown}");
        let [attempt] = left_cell["attempts"].as_array().unwrap().as_slice() else {
            panic!("{shown}");
        };
        assert_eq!(attempt["provider"], json!(host(0, 0).0));
        assert!(
            attempt["reason"].as_str().unwrap().contains("failed"),
            "{attempt}"
        );
        // There is no room for both in the second cell.
        let message = shown["fault"]["message"].as_str().unwrap();
        assert!(message.contains("Before, the build failed: "), "{message}");
    }
    assert_eq!(left, 1);
}
