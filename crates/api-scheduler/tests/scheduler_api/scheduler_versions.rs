//! What compute services of a new version bring is used in a cell as soon as all of its hosts have the version.

use crate::fleet;

use fleet::{CELL_1, CELL_2, Fleet, host, instance};
use placewright_api_testing::get;
use serde_json::{Value, json};

/// The first version of the compute service that sets the trait `OWNER_NOVA` on its own providers.
const MARKS_OWN: u32 = 73;

/// The UUID of the network card of a host, a nested provider.
fn card(number: u32) -> String {
    format!("41000000-0000-0000-0000-{number:012}")
}

/// Adds a network card to a host. It has no trait, as if another service owned it.
async fn add_card(fleet: &Fleet, number: u32) {
    let uuid = card(number);
    let body = json!({
        "name": format!("card-{number}"), "uuid": uuid, "parent_provider_uuid": host(number),
    });
    fleet
        .send_to_placement("POST", "/resource_providers", &body)
        .await;
    let inventories = json!({
        "resource_provider_generation": 0, "inventories": {"CUSTOM_CARD": {"total": 1}},
    });
    let path = format!("/resource_providers/{uuid}/inventories");
    fleet.send_to_placement("PUT", &path, &inventories).await;
}

/// Sets the trait with which the compute service marks its own providers.
async fn own(fleet: &Fleet, provider: &str) {
    let path = format!("/resource_providers/{provider}/traits");
    let known = get(&path).send(&fleet.placement).await.json();
    let generation = &known["resource_provider_generation"];
    let body = json!({"resource_provider_generation": generation, "traits": ["OWNER_NOVA"]});
    fleet.send_to_placement("PUT", &path, &body).await;
}

/// Reports the version of the compute service of a host, as its update with this sequence number.
async fn report_version(fleet: &Fleet, number: u32, sequence: u64, version: u32) {
    let names = json!({"service_host": format!("host-{number}"), "node": format!("node-{number}"),
        "cell": if number % 2 == 1 { CELL_1 } else { CELL_2 }});
    let update = json!({"facts": {"names": names, "service_version": version}});
    let answer = fleet.send_update(number, 1, sequence, update).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let details = fleet.get_host(&host(number)).await;
    assert_eq!(details["service_version"], version, "{details}");
}

fn request() -> Value {
    json!({
        "flavor": {"vcpus": 1, "memory_mb": 1024, "root_gb": 1}, "project_id": "p", "user_id": "u",
        "pci_requests": [{
            "request_id": "card", "count": 1, "numa_policy": "preferred",
            "spec": [{"resource_class": "CUSTOM_CARD"}],
        }],
    })
}

/// On how many hosts of the first and of the second cell an instance with a card fits. It is found in two ways: by
/// counting, and by selecting a host with as many alternates as there are.
async fn fitting(fleet: &Fleet) -> (u64, u64) {
    let answer = fleet
        .post("/v1/capacity", &json!({"request": request()}))
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let count = |cell: &str| answer.json()["by_cell"][cell].as_u64().unwrap_or(0);
    let counted = (count(CELL_1), count(CELL_2));
    let mut selected = (0, 0);
    for (cell, count) in [(CELL_1, &mut selected.0), (CELL_2, &mut selected.1)] {
        let mut request = request();
        request["requested_destination"] = json!({"cell": cell});
        let body = json!({
            "request": request, "instances": [instance(1)], "alternates": 10, "claim": false,
        });
        let answer = fleet.select(&body).await;
        if answer.status == 200 {
            let answer = answer.json();
            let selection = &answer["selections"][0];
            assert_eq!(selection["selected"]["cell"], cell, "{selection}");
            *count = 1 + selection["alternates"].as_array().unwrap().len() as u64;
        } else {
            assert_eq!(answer.status, 409, "{}", answer.text);
        }
    }
    assert_eq!(selected, counted);
    counted
}

#[tokio::test]
async fn devices_of_other_services_are_not_used_once_all_services_of_a_cell_mark_their_own() {
    // Hosts 1 and 3 are in the first cell, 2 and 4 in the second one.
    let fleet = Fleet::with_hosts(4).await;
    let class = json!({"name": "CUSTOM_CARD"});
    fleet
        .send_to_placement("POST", "/resource_classes", &class)
        .await;
    for number in 1..=4 {
        add_card(&fleet, number).await;
    }
    assert_eq!(fitting(&fleet).await, (2, 2));

    // One service of the first cell is new. The other one is old, so it may own its card without having marked it.
    own(&fleet, &host(1)).await;
    report_version(&fleet, 1, 2, MARKS_OWN).await;
    assert_eq!(fitting(&fleet).await, (2, 2));

    // Now all services of the first cell are new. The second cell is as it was.
    own(&fleet, &host(3)).await;
    report_version(&fleet, 3, 2, MARKS_OWN).await;
    assert_eq!(fitting(&fleet).await, (0, 2));
    own(&fleet, &card(3)).await;
    assert_eq!(fitting(&fleet).await, (1, 2));

    // An old service that is declared down holds nothing back, until it is back.
    own(&fleet, &host(2)).await;
    report_version(&fleet, 2, 2, MARKS_OWN + 1).await;
    assert_eq!(fitting(&fleet).await, (1, 2));
    let forced_down = |is_down: bool| json!({"forced_down": is_down});
    fleet.send_update(4, 1, 2, forced_down(true)).await;
    assert_eq!(fitting(&fleet).await, (1, 0));
    fleet.send_update(4, 1, 3, forced_down(false)).await;
    assert_eq!(fitting(&fleet).await, (1, 2));

    // All cells are new.
    own(&fleet, &host(4)).await;
    report_version(&fleet, 4, 4, MARKS_OWN).await;
    assert_eq!(fitting(&fleet).await, (1, 0));

    // A service that is put back to its old release, which reports no version, holds its cell back again.
    report_version(&fleet, 3, 3, 0).await;
    assert_eq!(fitting(&fleet).await, (2, 0));
}

#[tokio::test]
async fn a_host_moves_to_a_cell_with_its_version() {
    let fleet = Fleet::with_hosts(3).await;
    let class = json!({"name": "CUSTOM_CARD"});
    fleet
        .send_to_placement("POST", "/resource_classes", &class)
        .await;
    for number in 1..=3 {
        add_card(&fleet, number).await;
    }
    for number in [1, 3] {
        own(&fleet, &host(number)).await;
        report_version(&fleet, number, 2, MARKS_OWN).await;
    }
    assert_eq!(fitting(&fleet).await, (0, 1));
    // The old host of the second cell joins the first one, which is held back from then on.
    let names = json!({"service_host": "host-2", "node": "node-2", "cell": CELL_1});
    let update = json!({"facts": {"names": names}});
    fleet.send_update(2, 1, 2, update).await;
    assert_eq!(fitting(&fleet).await, (3, 0));
    // The old host is removed, and no card of the others has the trait.
    fleet.send_update(2, 1, 3, json!("gone")).await;
    assert_eq!(fitting(&fleet).await, (0, 0));
}
