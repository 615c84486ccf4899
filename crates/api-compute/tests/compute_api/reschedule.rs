//! Servers that no host of their cell can build, and that are built in another cell.

use crate::api;

use api::Api;
use placewright_api_compute::ComputeOptions;
use placewright_control::{FindingKind, Options};
use placewright_testing::site::{Site, Stores, cell, host, options};
use serde_json::{Value, json};

const HOSTS: u32 = 4;

/// Two cells. All hosts of the first one fail; if `both_cells_fail`, those of the second one, too.
async fn start(both_cells_fail: bool) -> Api {
    let options = Options {
        reschedule_across_cells: true,
        ..options()
    };
    // Two cells with `HOSTS` hosts each.
    let site = Site::start_with(
        Stores::Memory,
        (2, HOSTS),
        std::sync::Arc::default(),
        options,
    );
    let site = site.await;
    let failing_cells = if both_cells_fail { 0..2 } else { 0..1 };
    let failing = failing_cells.flat_map(|cell| (0..HOSTS).map(move |number| host(cell, number)));
    site.fleet.lock().failing = failing.collect();
    let api = Api::on_site(site, ComputeOptions::default());
    // The flavor `1`, with two CPUs.
    api.create_flavor("1", 2).await;
    api
}

fn host_name(cell: u32, number: u32) -> String {
    format!("host-{}", host(cell, number))
}

/// The events of the action that created a server, the earliest first.
async fn events_of_create(api: &Api, id: &str) -> Vec<Value> {
    let path = format!("/servers/{id}/os-instance-actions");
    let actions = api.get(&path).await.expect(200);
    let [create] = actions["instanceActions"].as_array().unwrap().as_slice() else {
        panic!("{actions}");
    };
    assert_eq!(create["action"], "create");
    let request = create["request_id"].as_str().unwrap();
    let action = api.get(&format!("{path}/{request}")).await.expect(200);
    let events = action["instanceAction"]["events"].as_array().unwrap();
    events.iter().rev().cloned().collect()
}

/// Checks that the audit finds nothing, apart from guests: the agents of these tests do not report them.
async fn assert_audit_is_clean(api: &Api) {
    let mut findings = api.site.runtime.audit(None).await.findings;
    findings.retain(|finding| {
        !matches!(
            finding.kind,
            FindingKind::MissingGuest | FindingKind::UnknownGuest
        )
    });
    assert_eq!(findings, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_fail_on_all_hosts_of_their_cell_are_built_in_another_one() {
    let both_cells_fail = false;
    let mut api = start(both_cells_fail).await;
    let mut ids = Vec::new();
    for number in 0..8 {
        // The password is a secret that both builds need.
        let fields = json!({"adminPass": "sesame"});
        let created = api.create_server(&format!("s{number}"), fields).await;
        ids.push(
            created.expect(202)["server"]["id"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    let of_second_cell: Vec<String> = (0..HOSTS).map(|number| host_name(1, number)).collect();
    let mut moved = 0;
    for id in &ids {
        let server = api.wait_for_status(id, "ACTIVE").await;
        let host = server["OS-EXT-SRV-ATTR:host"].as_str().unwrap();
        assert!(of_second_cell.iter().any(|name| name == host), "{server}");
        let events = events_of_create(&api, id).await;
        let (last, failed) = events.split_last().unwrap();
        assert_eq!(
            (&last["result"], &last["host"]),
            (&json!("Success"), &json!(host))
        );
        for (number, event) in (1..).zip(failed) {
            assert_eq!(event["event"], format!("compute_create_try_{number}"));
            assert_eq!(event["result"], "Error", "{event}");
            assert!(
                event["details"].as_str().unwrap().contains("failed"),
                "{event}"
            );
            let tried = event["host"].as_str().unwrap();
            assert!(
                (0..HOSTS).any(|number| host_name(0, number) == tried),
                "{event}"
            );
        }
        moved += usize::from(!failed.is_empty());
    }
    assert!(moved > 0, "none was placed in the failing cell first");
    let limits = api.get("/limits").await.expect(200)["limits"]["absolute"].clone();
    assert_eq!(
        (&limits["totalInstancesUsed"], &limits["totalCoresUsed"]),
        (&json!(8), &json!(16)),
        "quotas count each once"
    );
    api.site
        .until("the first builds are over", |control, _| {
            let mut mappings = control.conductor.mappings().values();
            let has_secrets = |spec: &placewright_conductor::Spec| !spec.build_secrets.is_empty();
            mappings.all(|mapping| mapping.cell == Some(cell(1)))
                && !control.conductor.specs().values().any(has_secrets)
        })
        .await;
    api.site.wait_until_at_rest().await;
    assert_audit_is_clean(&api).await;
    for id in &ids {
        api.delete(&format!("/servers/{id}")).await.expect(204);
        api.wait_until_deleted(id).await;
    }
    api.site.wait_until_at_rest().await;
    api.site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_no_cell_can_build_ends_with_an_error() {
    let both_cells_fail = true;
    let mut api = start(both_cells_fail).await;
    let created = api.create_server("s", json!({})).await.expect(202);
    let id = created["server"]["id"].as_str().unwrap();
    let server = api.wait_for_status(id, "ERROR").await;
    assert_eq!(server["fault"]["code"], 500, "{server}");
    // Three hosts in each cell: the chosen one and two alternates.
    let events = events_of_create(&api, id).await;
    let tries = events.iter().filter(|event| {
        let name = event["event"].as_str().unwrap();
        name.starts_with("compute_create_try_")
    });
    assert_eq!(tries.count(), 6);
    api.site.wait_until_at_rest().await;
    assert_audit_is_clean(&api).await;
    api.delete(&format!("/servers/{id}")).await.expect(204);
    api.wait_until_deleted(id).await;
    api.site.wait_until_at_rest().await;
    api.site.shutdown().await;
}
