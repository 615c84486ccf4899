//! Responses with candidates are the same whether they come from the cache or not.

use std::sync::Arc;

use placewright_api_placement::PlacementService;
use placewright_api_testing::{ApiParts, call, get};
use placewright_control::{ControlMachine, submit_placement};
use placewright_engine::{Engine, Options};
use placewright_http::HttpOptions;
use placewright_journal::MemoryJournal;
use placewright_placement::{Command, Timestamp};

/// A service on an engine that other services may use, too.
fn service_of(engine: &Engine<ControlMachine>) -> Arc<PlacementService> {
    // The empty text stands for the default policies.
    ApiParts::on_engine(engine, HttpOptions::default(), "").service()
}

fn uuid(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// Queries whose responses share summaries. In some responses each candidate has one provider; in others a candidate
/// has several.
const QUERIES: [&str; 6] = [
    "resources=VCPU:1",
    "resources=VCPU:1,CUSTOM_A:1&limit=5",
    "resources_B=VCPU:1&resources_C=CUSTOM_A:2&group_policy=none",
    "resources_B=VCPU:1&resources_C=VCPU:1&group_policy=isolate&limit=20",
    "resources=VCPU:2&required=CUSTOM_T",
    // The suffix of this group looks like the UUID of a provider.
    "resources_00000000-0000-4000-8000-000000000001=VCPU:1",
];

/// Checks that a service with filled caches and a new service give the same responses.
async fn check_responses(
    engine: &Engine<ControlMachine>,
    warm_service: &Arc<PlacementService>,
    change: &str,
) {
    let cold_service = service_of(engine);
    for version in ["1.10", "1.17", "1.27", "1.29", "1.34", "1.39"] {
        for query in QUERIES {
            let path = format!("/allocation_candidates?{query}");
            let version = format!("placement {version}");
            let request = || get(&path).version(&version);
            let expected = request().send(&service_of(engine)).await;
            for service in [warm_service, &cold_service, warm_service] {
                let answer = request().send(service).await;
                assert_eq!(
                    answer.status, expected.status,
                    "{change}: {version} {query}"
                );
                // An error response contains the id of its request, so only successes are compared.
                if expected.status == 200 {
                    assert_eq!(answer.text, expected.text, "{change}: {version} {query}");
                }
            }
        }
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one sequence of changes")]
async fn cached_responses_follow_every_change() {
    let engine: Engine<ControlMachine> =
        Engine::open(MemoryJournal::new(), Options::default(), ()).unwrap();
    let at = Timestamp::from_seconds(1_790_000_000);
    let standard_names = submit_placement(&engine, Command::SyncStandardNames { at }).await;
    standard_names.unwrap().unwrap();
    let warm_service = service_of(&engine);
    let mut changes = vec![
        (
            "PUT",
            "/resource_classes/CUSTOM_A".to_owned(),
            String::new(),
        ),
        ("PUT", "/traits/CUSTOM_T".to_owned(), String::new()),
        ("PUT", "/traits/CUSTOM_U".to_owned(), String::new()),
    ];
    // Hosts 1 to 6; 11 and 12 are children of 1, 13 is a child of 11. The parent 0 stands for none.
    for (number, parent) in [
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 0),
        (5, 0),
        (6, 0),
        (11, 1),
        (12, 1),
        (13, 11),
    ] {
        let parent = match parent {
            0 => "null".to_owned(),
            parent => format!("\"{}\"", uuid(parent)),
        };
        changes.push((
            "POST",
            "/resource_providers".to_owned(),
            format!(
                r#"{{"name": "p{number}", "uuid": "{}", "parent_provider_uuid": {parent}}}"#,
                uuid(number)
            ),
        ));
        changes.push((
            "PUT",
            format!("/resource_providers/{}/inventories", uuid(number)),
            r#"{"resource_provider_generation": 0, "inventories":
                {"VCPU": {"total": 8}, "CUSTOM_A": {"total": 4}}}"#
                .to_owned(),
        ));
    }
    let provider = |number| format!("/resource_providers/{}", uuid(number));
    let claim = |consumer: u64, provider: u64, generation: &str| {
        (
            "PUT",
            format!("/allocations/{}", uuid(1000 + consumer)),
            format!(
                r#"{{"allocations": {{"{}": {{"resources": {{"VCPU": 2}}}}}},
                "consumer_generation": {generation}, "project_id": "p", "user_id": "u",
                "consumer_type": "INSTANCE"}}"#,
                uuid(provider)
            ),
        )
    };
    let rename_and_reparent = |number: u64, name: &str, parent: &str| {
        (
            "PUT",
            provider(number),
            format!(r#"{{"name": "{name}", "parent_provider_uuid": {parent}}}"#),
        )
    };
    let quoted = |number| format!("\"{}\"", uuid(number));
    changes.extend([
        claim(1, 1, "null"),
        claim(2, 13, "null"),
        claim(1, 2, "1"),
        (
            "PUT",
            format!("{}/traits", provider(2)),
            r#"{"resource_provider_generation": 2, "traits": ["CUSTOM_T", "CUSTOM_U"]}"#.to_owned(),
        ),
        (
            "PUT",
            format!("{}/traits", provider(12)),
            r#"{"resource_provider_generation": 1, "traits": ["CUSTOM_T"]}"#.to_owned(),
        ),
        rename_and_reparent(3, "renamed", "null"),
        // A child with a child of its own moves to another host, and then becomes a root.
        rename_and_reparent(11, "p11", &quoted(4)),
        rename_and_reparent(12, "p12", "null"),
        rename_and_reparent(5, "p5", &quoted(6)),
        (
            "PUT",
            format!("{}/inventories", provider(4)),
            r#"{"resource_provider_generation": 1, "inventories": {"VCPU": {"total": 16}}}"#
                .to_owned(),
        ),
        (
            "DELETE",
            format!("/allocations/{}", uuid(1001)),
            String::new(),
        ),
        ("DELETE", provider(3), String::new()),
        // A new provider reuses the slot of the deleted one.
        (
            "POST",
            "/resource_providers".to_owned(),
            format!(r#"{{"name": "p20", "uuid": "{}"}}"#, uuid(20)),
        ),
        (
            "PUT",
            format!("{}/inventories", provider(20)),
            r#"{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 1}}}"#
                .to_owned(),
        ),
        ("DELETE", format!("{}/traits", provider(2)), String::new()),
        ("DELETE", "/traits/CUSTOM_U".to_owned(), String::new()),
    ]);
    for (method, path, body) in changes {
        let mut request = call(method, &path);
        if !body.is_empty() {
            request = request.json(body.as_str());
        }
        let answer = request.send(&warm_service).await;
        let change = format!("{method} {path} {body}");
        assert!(
            answer.status < 300,
            "{change}: {} {}",
            answer.status,
            answer.text
        );
        check_responses(&engine, &warm_service, &change).await;
    }
}
