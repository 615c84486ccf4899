//! `placewright topology apply`, and the client crate against a real server.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{Control, free_address, run};
use placewright_client::{Aggregate, Client, Code, DestinationsRequest, Receipt};
use placewright_scheduler::host_state::{HostReport, HostUpdate, NumberedUpdate};
use placewright_scheduler::request::RequestSpec;
use rustix::process::Signal;
use uuid::Uuid;

fn host(number: u128) -> Uuid {
    Uuid::from_u128(0x4000_0000_0000_0000_0000 + number)
}

fn add_hosts(server: &Control, count: u128) {
    for number in 1..=count {
        let uuid = host(number);
        let body = format!("{{\"name\": \"node-{number}\", \"uuid\": \"{uuid}\"}}");
        let response = server.request("POST /resource_providers", &body);
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        let body = "{\"resource_provider_generation\": 0, \"inventories\": {\"VCPU\": \
                    {\"total\": 4}, \"MEMORY_MB\": {\"total\": 8192}, \"DISK_GB\": {\"total\": 100}}}";
        let path = format!("PUT /resource_providers/{uuid}/inventories");
        let response = server.request(&path, body);
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
}

fn request(rules: &str) -> RequestSpec {
    let text = format!(
        r#"{{"flavor": {{"vcpus": 2, "memory_mb": 1024, "root_gb": 1}},
            "project_id": "p", "user_id": "u", "topology_rules": [{rules}]}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn apply(
    file: &Path,
    server: &Control,
    scheduler: &str,
    further_flags: &[&str],
) -> (i32, String, String) {
    let url = format!("http://{}", server.address);
    let file = file.display().to_string();
    let mut arguments = vec!["topology", "apply", &file, "--url", &url];
    arguments.extend(["--scheduler-url", scheduler]);
    arguments.extend(further_flags);
    run(&arguments)
}

#[test]
fn hosts_go_to_their_places_and_rules_about_them_hold() {
    let directory = tempfile::tempdir().unwrap();
    let listen = free_address().to_string();
    let flags = ["--scheduler-listen", &*listen];
    let server = Control::start(&directory.path().join("store"), &flags);
    add_hosts(&server, 4);
    // An aggregate that is not part of the topology stays.
    let aggregates = "{\"aggregates\": [\"11111111-1111-4111-8111-111111111111\"], \
               \"resource_provider_generation\": 1}";
    let path = format!("/resource_providers/{}/aggregates", host(1));
    server.request(&format!("PUT {path}"), aggregates);

    let url = format!("http://{listen}");
    let file = directory.path().join("hosts.csv");
    let text = "host,rack,room\nnode-1,r1,north\nnode-2,r1,north\nnode-3,r1,south\n";
    std::fs::write(&file, format!("{text}{},r2,south\n", host(4))).unwrap();
    let (code, output, _) = apply(&file, &server, &url, &["--dry-run"]);
    assert_eq!(code, 0);
    assert_eq!(
        output.trim(),
        "nothing changed: 4 hosts in 3 rack, 2 room; 4 hosts would move"
    );
    let (code, output, error) = apply(&file, &server, &url, &[]);
    assert_eq!(
        (code, output.trim()),
        (0, "4 hosts in 3 rack, 2 room; 4 hosts moved"),
        "{error}"
    );
    let distances_file = directory.path().join("distances.csv");
    std::fs::write(
        &distances_file,
        "level,from,to,distance\nroom,north,south,40\n",
    )
    .unwrap();
    let further_flags = ["--distances", &distances_file.display().to_string()];
    let (_, output, _) = apply(&file, &server, &url, &further_flags);
    assert_eq!(
        output.trim(),
        "4 hosts in 3 rack, 2 room, 1 distances; 0 hosts moved"
    );
    let response = server.request(&format!("GET {path}"), "");
    assert!(
        response.contains("11111111-1111-4111-8111-111111111111"),
        "{response}"
    );

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    runtime.block_on(schedule(&url));
    runtime.block_on(name_aggregates(&url));

    replace_hosts(&server, &file, &url);
    std::fs::write(&file, "host,rack\nnobody,r1\n").unwrap();
    let (code, _, error) = apply(&file, &server, &url, &[]);
    assert_eq!(code, 2);
    assert!(error.contains("no root provider nobody"), "{error}");
    server.signal(Signal::TERM);
    let (exit_code, _) = server.end();
    assert_eq!(exit_code, 0);
}

/// Applies a file that names one host of four.
fn replace_hosts(server: &Control, file: &Path, url: &str) {
    // What a file does not name stays.
    std::fs::write(file, "host,rack,room\nnode-1,r1,north\n").unwrap();
    let (_, output, _) = apply(file, server, url, &[]);
    assert_eq!(
        output.trim(),
        "1 hosts in 3 rack, 2 room, 1 distances; 0 hosts moved"
    );
    // With --replace, a host that the file does not name is removed from all places.
    let (_, output, _) = apply(file, server, url, &["--replace"]);
    assert_eq!(output.trim(), "1 hosts in 1 rack, 1 room; 3 hosts moved");
}

#[test]
fn racks_go_into_a_row_and_out_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let listen = free_address().to_string();
    let flags = ["--scheduler-listen", &*listen];
    let server = Control::start(&directory.path().join("store"), &flags);
    add_hosts(&server, 4);
    let urls = (
        format!("http://{}", server.address),
        format!("http://{listen}"),
    );
    let edit = |words: &str| {
        let mut words = words.split(' ');
        let kind = words.next().unwrap();
        let mut arguments = vec![
            "topology",
            kind,
            "--url",
            &urls.0,
            "--scheduler-url",
            &urls.1,
        ];
        arguments.extend(words);
        let (code, output, error) = run(&arguments);
        (code, output.trim().to_owned() + error.trim())
    };
    let done = |words: &str, expected: &str| assert_eq!(edit(words), (0, expected.to_owned()));
    let refused = |words: &str, reason: &str| {
        let (code, text) = edit(words);
        assert_eq!(code, 2, "{text}");
        assert!(text.contains(reason), "{text}");
    };
    done(
        "add --rack r1 node-1 node-2",
        "2 of 2 hosts came into rack r1",
    );
    done("add --rack r2 node-3", "1 of 1 hosts came into rack r2");
    refused("add --rack r2 node-1", "is in rack r1: move it");
    refused("add --rack r2 node-9", "no place and no host \"node-9\"");
    refused("add --rack r2", "say what goes into rack r2");
    refused("add row 7 r1", "write it as --LEVEL PLACE MEMBER");
    done("add --row 7 r1 r2", "3 of 3 hosts came into row 7");
    refused("add --rack r2 7", "only places of smaller levels");
    done("move --rack r2 node-1", "1 of 1 hosts came into rack r2");
    done("move --row 8 r2", "2 of 2 hosts came into row 8");
    done("remove --row 8 node-3", "1 of 1 hosts left row 8");
    refused("remove --row 9", "there is no row \"9\"");
    refused("remove --room 9", "there is no level \"room\"");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let topology = runtime.unwrap().block_on(async {
        let client = Client::new(&urls.1, "admin").unwrap();
        client.topology().await.unwrap()
    });
    let counts: Vec<(&str, usize)> = topology
        .levels
        .iter()
        .map(|level| (&*level.name, level.aggregates.len()))
        .collect();
    assert_eq!(counts, [("rack", 2), ("row", 2)]);
    done("remove --row 7", "1 of 1 hosts left row 7");
    done("remove --row 8", "1 of 1 hosts left row 8");
    refused("remove --row 8", "there is no level \"row\"");
}

/// Sends host states, and checks the receipts, also for updates that are missing.
async fn send_host_states(client: &Client) {
    for number in 1..=4 {
        let mut report = HostReport::default();
        report.facts.names.service_host = format!("host-{number}");
        report.facts.names.node = format!("node-{number}");
        let full = NumberedUpdate {
            incarnation: 1,
            sequence: 1,
            update: HostUpdate::Full(Box::new(report)),
        };
        let uuid = host(number);
        assert_eq!(
            client.send_update(uuid, &full).await.unwrap(),
            Receipt::Applied
        );
        assert_eq!(
            client.send_update(uuid, &full).await.unwrap(),
            Receipt::Stale
        );
        let after_gap = NumberedUpdate {
            sequence: 7,
            update: HostUpdate::Alive,
            ..full
        };
        let gap = client.send_update(uuid, &after_gap).await.unwrap_err();
        assert_eq!(gap.code(), Some(&Code::Gap));
    }
}

/// Uses the client crate's calls, on hosts with a topology.
async fn schedule(url: &str) {
    let client = Client::new(url, "admin").unwrap();
    send_host_states(&client).await;
    let page = client.hosts(3, None).await.unwrap();
    assert_eq!(page.hosts.len(), 3);
    assert_eq!(client.hosts(3, page.next).await.unwrap().hosts.len(), 1);

    let (first, second) = (Uuid::from_u128(901), Uuid::from_u128(902));
    let destinations = client
        .select(&DestinationsRequest::claim(request(""), vec![first]))
        .await
        .unwrap();
    let host_of_first = destinations.selections[0].selected.clone().unwrap();
    let rules = format!(
        r#"{{"relation": "same", "level": "room", "to": ["{first}"]}},
           {{"relation": "different", "level": "rack", "to": ["{first}"]}}"#
    );
    let near = request(&rules);
    let response = client
        .select(&DestinationsRequest::claim(near.clone(), vec![second]))
        .await;
    let is_in_north = |node: &str| node == "node-1" || node == "node-2";
    if is_in_north(&host_of_first.node) {
        // Both hosts of that room are in one rack.
        let refused = response.unwrap_err();
        assert_eq!(refused.code(), Some(&Code::NoCapacity), "{refused}");
        assert_eq!(client.capacity(&near, Some(10)).await.unwrap().count, 0);
    } else {
        let other = response.unwrap().selections[0].selected.clone().unwrap();
        assert!(!is_in_north(&other.node) && other.node != host_of_first.node);
    }
    assert_eq!(
        client.capacity(&request(""), Some(3)).await.unwrap().count,
        3
    );

    let topology = client.topology().await.unwrap();
    assert_eq!((topology.levels.len(), topology.distances.len()), (2, 1));
    assert_eq!(topology.distances[0].distance, 40);
    // First as far away as possible, then as near.
    for (relation, is_same) in [("far", false), ("near", true)] {
        let rule = format!(
            r#"{{"relation": "{relation}", "strength": "soft", "weight": 1000, "to": ["{first}"]}}"#
        );
        let request_without_claim =
            DestinationsRequest::without_claim(request(&rule), vec![Uuid::from_u128(904)]);
        let destinations = client.select(&request_without_claim).await.unwrap();
        let host_found = destinations.selections[0].selected.clone().unwrap();
        assert_eq!(
            is_in_north(&host_found.node) == is_in_north(&host_of_first.node),
            is_same,
            "{relation}"
        );
    }

    let request_without_claim =
        DestinationsRequest::without_claim(request(""), vec![Uuid::from_u128(903)])
            .with_alternates(1);
    let destinations = client.select(&request_without_claim).await.unwrap();
    let alternate = destinations.selections[0].alternates[0].candidate;
    let swapped = client.swap(first, alternate).await.unwrap();
    assert_eq!((swapped.consumer, swapped.candidate), (first, alternate));
    assert_eq!(client.host(swapped.provider).await.unwrap().instances, 1);
    client.release(first).await.unwrap();
    let gone = client.release(first).await.unwrap_err();
    assert_eq!(gone.code(), Some(&Code::NotFound));
    let gone = client.claim(first, Uuid::from_u128(1)).await.unwrap_err();
    assert_eq!(gone.code(), Some(&Code::CandidateExpired));
}

/// Names an aggregate, reads it, and removes the name again.
async fn name_aggregates(url: &str) {
    let client = Client::new(url, "admin").unwrap();
    let uuid = Uuid::from_u128(0xa99);
    let find_aggregate = async || {
        let all = client.aggregates().await.unwrap().aggregates;
        all.into_iter().find(|one| one.uuid == uuid)
    };
    assert_eq!(find_aggregate().await, None);
    let zone = ("availability_zone".to_owned(), "north".to_owned());
    let metadata = BTreeMap::from([("ssd".to_owned(), "true".to_owned()), zone]);
    let put_result = client.put_aggregate(uuid, "fast", &metadata).await;
    put_result.unwrap();
    let expected_aggregate = Aggregate {
        uuid,
        name: "fast".to_owned(),
        zone: Some("north".to_owned()),
        metadata,
    };
    assert_eq!(find_aggregate().await, Some(expected_aggregate));
    client.remove_aggregate(uuid).await.unwrap();
    assert_eq!(find_aggregate().await, None);
    let gone = client.remove_aggregate(uuid).await.unwrap_err();
    assert_eq!(gone.code(), Some(&Code::NotFound));
}

/// The node on which an instance of this flavor would be claimed first, with these rules.
async fn first_node(client: &Client, rules: &str, flavor_rules: &str) -> String {
    let mut request = request(rules);
    if !flavor_rules.is_empty() {
        let key = "placewright:topology".to_owned();
        let specs = &mut request.flavor.extra_specs;
        specs.insert(key, flavor_rules.to_owned());
    }
    let request = DestinationsRequest::without_claim(request, vec![Uuid::from_u128(905)]);
    let destinations = client.select(&request).await.unwrap();
    let selected = destinations.selections[0].selected.clone();
    selected.unwrap().node
}

/// Soft rules that name places, and rules of flavors, in the scheduler's API.
async fn wish_for_places(url: &str) {
    let client = Client::new(url, "admin").unwrap();
    send_host_states(&client).await;
    for number in 1..=4 {
        let place = format!("north/r{number}");
        for (name, relation) in [
            // With the name of the room, and without.
            (&*place, "same"),
            (&place[6..], "same"),
            ("r4", "different"),
        ] {
            let rule = format!(
                r#"{{"relation": "{relation}", "level": "rack", "strength": "soft", "place": ["{name}"]}}"#
            );
            let text = format!("relation={relation},level=rack,strength=soft,place={name}");
            // The rule may be one of the request or of its flavor.
            for (rules, flavor_rules) in [(&*rule, ""), ("", &*text)] {
                let node = first_node(&client, rules, flavor_rules).await;
                if relation == "same" {
                    assert_eq!(node, format!("node-{number}"), "{text}");
                } else {
                    assert_ne!(node, "node-4", "{text}");
                }
            }
        }
    }
    for (flavor_rules, field) in [
        ("relation=same,level=aisle", "[0].level"),
        (
            "relation=same,level=rack,strength=soft,place=r9",
            "[0].place",
        ),
        ("relation=same,level=rack,place=r1", "[0].strength"),
        ("same", "[0]"),
    ] {
        let mut request = request("");
        let key = "placewright:topology".to_owned();
        let specs = &mut request.flavor.extra_specs;
        specs.insert(key, flavor_rules.to_owned());
        let refused = client.capacity(&request, None).await.unwrap_err();
        let selecting = DestinationsRequest::without_claim(request, vec![Uuid::from_u128(906)]);
        for refused in [refused, client.select(&selecting).await.unwrap_err()] {
            let text = refused.to_string();
            let path = format!("flavor.extra_specs[\"placewright:topology\"]{field}");
            assert!(text.contains(&path), "{text}");
        }
    }
}

#[test]
fn users_list_what_they_see_and_names_outlive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let (scheduler, compute) = (free_address().to_string(), free_address().to_string());
    let flags = [
        "--scheduler-listen",
        &*scheduler,
        "--compute-listen",
        &*compute,
        "--compute-topology-levels",
        "rack,room",
        "--compute-topology-places",
        "room",
    ];
    let server = Control::start(&store, &flags);
    add_hosts(&server, 4);
    let url = format!("http://{scheduler}");
    let file = directory.path().join("hosts.csv");
    let lines = (1..=4).map(|number| format!("node-{number},r{number},north\n"));
    std::fs::write(
        &file,
        "host,rack,room\n".to_owned() + &lines.collect::<String>(),
    )
    .unwrap();
    let (code, _, error) = apply(&file, &server, &url, &[]);
    assert_eq!(code, 0, "{error}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(wish_for_places(&url));

    let compute_url = format!("http://{compute}");
    let list = |token: &str, further: &[&str]| {
        let mut arguments = vec!["topology", "levels", "--compute-url", &compute_url];
        arguments.extend(["--token", token]);
        arguments.extend(further);
        let (code, output, error) = run(&arguments);
        assert_eq!(code, 0, "{error}");
        output
    };
    let as_user = ["--header", "x-roles: member,reader"];
    assert_eq!(list("bob:p2", &as_user), "rack\nroom\n  north\n");
    server.signal(Signal::TERM);
    server.end();

    let server = Control::start(&store, &flags);
    let all = "rack\n  north/r1\n  north/r2\n  north/r3\n  north/r4\nroom\n  north\n";
    assert_eq!(list("admin", &[]), all);
    let json = list("bob:p2", &["--header", "x-roles: member,reader", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let expected = serde_json::json!([{"name": "rack"}, {"name": "room", "places": ["north"]}]);
    assert_eq!(json["topology"]["levels"], expected);
    move_by_name(&format!("http://{}", server.address), &url);
}

/// Moves hosts into a place that is found by its name.
fn move_by_name(placement_url: &str, scheduler_url: &str) {
    let move_into_r2 = |member: &str| {
        let mut arguments = vec!["topology", "move", "--url", placement_url];
        arguments.extend(["--scheduler-url", scheduler_url, "--rack", "r2", member]);
        run(&arguments)
    };
    let (code, _, error) = move_into_r2("r1");
    assert_eq!(code, 2);
    assert!(error.contains("only places of smaller levels"), "{error}");
    let (code, output, error) = move_into_r2("node-1");
    assert_eq!(code, 0, "{error}");
    assert_eq!(output.trim(), "1 of 1 hosts came into rack r2");
}

#[test]
fn places_of_a_level_that_is_not_shown_cannot_be_shown() {
    let check = |places: &str| {
        let mut arguments = vec!["config", "check", "--compute-topology-levels", "rack"];
        arguments.extend(["--compute-topology-places", places]);
        run(&arguments)
    };
    let (code, _, error) = check("row");
    assert_eq!(code, 2);
    let expected = "compute.topology_places: \"row\" is not among compute.topology_levels";
    assert!(error.contains(expected), "{error}");
    assert_eq!(check("*").0, 0);
    assert_eq!(check("rack").0, 0);
}
