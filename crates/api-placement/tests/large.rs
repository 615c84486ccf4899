//! Large responses are sent in pieces and have the same content as small ones; requests for too
//! much are refused with an error that names the limit.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use hyper::body::Body as _;
use placewright_api_placement::{PlacementOptions, PlacementService};
use placewright_api_testing::{Answer, ApiParts, ServiceOptions, call, get, service};
use placewright_control::{ControlMachine, submit_placement};
use placewright_engine::{Engine, Options};
use placewright_http::{Body, HttpOptions};
use placewright_journal::MemoryJournal;
use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, Inventory,
    Timestamp,
};
use serde_json::Value;
use tokio::task::JoinSet;
use uuid::Uuid;

const HOSTS: u32 = 2_600;

fn host(number: u32) -> Uuid {
    Uuid::from_u128(0xa000_0000 + u128::from(number))
}

fn consumer(number: u32) -> ConsumerUuid {
    ConsumerUuid::from_uuid(Uuid::from_u128(0xc000_0000 + u128::from(number)))
}

fn fixed_time() -> Timestamp {
    Timestamp::from_seconds(1_790_000_000)
}

type ControlEngine = Engine<ControlMachine>;

async fn submit(engine: &ControlEngine, command: Command) {
    submit_placement(engine, command).await.unwrap().unwrap();
}

/// A service, and its engine, through which tests load data without requests.
async fn service_and_engine(
    options: impl Into<ServiceOptions>,
) -> (Arc<PlacementService>, ControlEngine) {
    let engine = Engine::open(MemoryJournal::new(), Options::default(), ()).unwrap();
    submit(&engine, Command::SyncStandardNames { at: fixed_time() }).await;
    // The empty text stands for the default policies.
    let service = ApiParts::on_engine(&engine, options, "").service();
    (service, engine)
}

async fn create_provider(
    engine: &ControlEngine,
    uuid: Uuid,
    parent: Option<Uuid>,
    classes: &[&str],
) {
    let name = format!("provider-{uuid}");
    let create = Command::CreateProvider {
        uuid,
        name,
        parent,
        at: fixed_time(),
    };
    submit(engine, create).await;
    let inventory = Inventory {
        total: 100_000,
        reserved: 0,
        min_unit: 1,
        max_unit: i32::MAX,
        step_size: 1,
        allocation_ratio: 1.0,
    };
    let inventories = classes.iter().map(|class| ((*class).to_owned(), inventory));
    let set = Command::SetInventories {
        provider: uuid,
        generation: None,
        inventories: inventories.collect(),
        may_reserve_all: true,
        at: fixed_time(),
    };
    submit(engine, set).await;
}

/// Many hosts, every tenth of them with a child provider.
async fn service_with_hosts(options: HttpOptions) -> (Arc<PlacementService>, ControlEngine) {
    let (service, engine) = service_and_engine(options).await;
    for number in 0..HOSTS {
        create_provider(&engine, host(number), None, &["VCPU", "MEMORY_MB"]).await;
        if number % 10 == 0 {
            let child = host(1_000_000 + number);
            create_provider(&engine, child, Some(host(number)), &["VGPU", "VCPU"]).await;
        }
    }
    (service, engine)
}

async fn is_sent_in_pieces(service: &Arc<PlacementService>, path: &str) -> bool {
    let response = get(path).send_unread(service).await;
    assert_eq!(response.status(), 200);
    let in_pieces = matches!(response.body(), Body::Pieces(_));
    assert_eq!(response.body().size_hint().exact().is_none(), in_pieces);
    in_pieces
}

fn items(answer: &Answer, key: &str) -> Vec<Value> {
    answer.json()[key].as_array().unwrap().clone()
}

/// Many queries ask for all candidates, and each of them takes several slices. Then one query asks for ten candidates.
#[tokio::test]
async fn a_query_for_some_candidates_does_not_wait_for_many_queries_for_all() {
    let (service, _) = service_with_hosts(HttpOptions::default()).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut queries = JoinSet::new();
    // No answer comes from a cache, because each query has a limit of its own.
    for limit in (100_000..100_032).chain([10]) {
        let (service, order) = (Arc::clone(&service), Arc::clone(&order));
        queries.spawn(async move {
            let path = format!("/allocation_candidates?resources=VCPU:1&limit={limit}");
            let response = get(&path).send_unread(&service).await;
            assert_eq!(response.status(), 200);
            order.lock().unwrap().push(limit);
        });
    }
    while let Some(done) = queries.join_next().await {
        done.unwrap();
    }
    let order = order.lock().unwrap();
    // Only the queries that one caller may run at a time are answered before the short one.
    let position = order.iter().position(|limit| *limit == 10);
    assert!(position.is_some_and(|index| index <= 3), "{order:?}");
}

#[tokio::test]
async fn large_responses_have_the_content_of_small_ones() {
    let (service, _) = service_with_hosts(HttpOptions::default()).await;
    let path = "/allocation_candidates?resources=VCPU:1,MEMORY_MB:2";
    assert!(is_sent_in_pieces(&service, path).await);
    assert!(!is_sent_in_pieces(&service, &format!("{path}&limit=100")).await);
    for version in ["1.10", "1.12", "1.17", "1.27", "1.29", "1.34", "1.39"] {
        let version = format!("placement {version}");
        let all = get(path).version(&version).send(&service).await;
        let few_path = format!("{path}&limit=900");
        // There is no limit parameter before 1.16, so there is no short response to compare with.
        let few = match version.as_str() {
            "placement 1.10" | "placement 1.12" => continue,
            version => get(&few_path).version(version).send(&service).await,
        };
        let (all_candidates, few_candidates) = (
            items(&all, "allocation_requests"),
            items(&few, "allocation_requests"),
        );
        assert!(
            all_candidates.len() >= HOSTS as usize,
            "{}",
            all_candidates.len()
        );
        assert_eq!(
            few_candidates,
            all_candidates[..few_candidates.len()],
            "{version}"
        );
        // Equal byte by byte, up to the end of the list.
        let end = few.text.find("], \"provider_summaries\"").unwrap();
        assert_eq!(few.text[..end], all.text[..end]);
        let (all, few) = (all.json(), few.json());
        for (uuid, summary) in few["provider_summaries"].as_object().unwrap() {
            assert_eq!(&all["provider_summaries"][uuid], summary);
        }
        let children = HOSTS as usize / 10;
        let summary_count = all["provider_summaries"].as_object().unwrap().len();
        // From 1.29 on the responses have summaries of children, too.
        let with_children = HOSTS as usize + children;
        assert!(
            summary_count == HOSTS as usize || summary_count == with_children,
            "{summary_count}"
        );
    }
}

#[tokio::test]
async fn large_lists_have_the_content_of_single_responses() {
    let (service, engine) = service_with_hosts(HttpOptions::default()).await;
    assert!(is_sent_in_pieces(&service, "/resource_providers").await);
    let all = get("/resource_providers").send(&service).await;
    let all = items(&all, "resource_providers");
    assert_eq!(all.len(), (HOSTS + HOSTS / 10) as usize);
    for provider in all.iter().step_by(97) {
        let path = format!("/resource_providers/{}", provider["uuid"].as_str().unwrap());
        assert_eq!(get(&path).send(&service).await.json(), *provider);
    }
    let claims = |range: std::ops::Range<u32>| Command::Claim {
        consumers: range
            .map(|number| ConsumerClaim {
                consumer: consumer(number),
                generation: ConsumerGeneration::Any,
                project: "p".to_owned(),
                user: format!("u-{}", number % 3),
                consumer_type: (number % 2 == 0).then(|| "INSTANCE".to_owned()),
                allocations: vec![AllocationRequest {
                    provider: host(7),
                    resources: vec![("VCPU".to_owned(), 2), ("MEMORY_MB".to_owned(), 3)],
                }],
            })
            .collect(),
        at: fixed_time(),
    };
    submit(&engine, claims(0..9_000)).await;
    let path = format!("/resource_providers/{}/allocations", host(7));
    assert!(is_sent_in_pieces(&service, &path).await);
    let held = get(&path).send(&service).await.json();
    let holders = held["allocations"].as_object().unwrap();
    assert_eq!(holders.len(), 9_000);
    assert_eq!(held["resource_provider_generation"], 2);
    for number in (0..9_000).step_by(997) {
        let holder = &holders[consumer(number).as_str()];
        assert_eq!(holder["resources"]["VCPU"], 2);
        assert_eq!(holder["consumer_generation"], 1);
    }
    let usages = get("/usages?project_id=p").send(&service).await.json();
    assert_eq!(usages["usages"]["INSTANCE"]["consumer_count"], 4_500);
    assert_eq!(usages["usages"]["unknown"]["MEMORY_MB"], 13_500);
    let path = "/usages?project_id=p&user_id=u-1&consumer_type=all";
    let usages = get(path).send(&service).await.json();
    assert_eq!(usages["usages"]["all"]["VCPU"], 6_000);
}

#[tokio::test]
async fn a_response_that_would_be_too_large_is_refused() {
    let options = HttpOptions {
        answer_bytes_max: 1 << 20,
        ..HttpOptions::default()
    };
    let (service, _) = service_with_hosts(options).await;
    let groups: String = (0..20).fold(String::new(), |mut text, number| {
        let _ = write!(text, "resources_{number}=VCPU:1&");
        text
    });
    for path in [
        "/resource_providers".to_owned(),
        "/allocation_candidates?resources=VCPU:1".to_owned(),
        format!("/allocation_candidates?{groups}group_policy=none"),
    ] {
        let answer = get(&path).send(&service).await;
        assert_eq!(answer.status, 400, "{path}");
        let detail = answer.detail();
        assert!(detail.contains("placement.answer_bytes_max"), "{detail}");
    }
    let path = "/allocation_candidates?resources=VCPU:1&limit=500";
    assert_eq!(get(path).send(&service).await.status, 200);
}

#[tokio::test]
async fn unread_responses_are_bounded_together() {
    let options = HttpOptions {
        answers_bytes_max: 1 << 20,
        ..HttpOptions::default()
    };
    let (service, _) = service_with_hosts(options).await;
    let mut held = Vec::new();
    let mut refused = None;
    for _ in 0..64 {
        let response = get("/resource_providers").send_unread(&service).await;
        if response.status() == 200 {
            held.push(response);
        } else {
            refused = Some(response.status());
            break;
        }
    }
    assert_eq!(refused.unwrap(), 503);
    assert!(!held.is_empty());
    // Small responses are still sent, and large ones are sent again once the memory of earlier responses was released.
    let path = "/resource_providers?in_tree=00000000-0000-0000-0000-0000a0000000";
    assert_eq!(get(path).send(&service).await.status, 200);
    drop(held);
    let answer = get("/resource_providers").send(&service).await;
    assert_eq!(answer.status, 200);
}

/// A request that is refused for its size: method, path, body, version.
type TooLarge = (&'static str, String, String, &'static str);

/// The body of a claim on this number of providers.
fn claim_body(count: u32) -> String {
    let member = |number| format!(r#""{}": {{"resources": {{"VCPU": 1}}}}"#, host(number));
    let all: Vec<String> = (0..count).map(member).collect();
    format!(
        r#"{{"allocations": {{{}}}, "project_id": "p", "user_id": "u",
            "consumer_type": "X", "consumer_generation": null}}"#,
        all.join(", ")
    )
}

/// Claims of 101 amounts or consumers, one more than the test allows, and a body of too many JSON values.
fn too_large_claims() -> Vec<TooLarge> {
    let item = |number| {
        let uuid = host(number);
        format!(r#"{{"resource_provider": {{"uuid": "{uuid}"}}, "resources": {{"VCPU": 1}}}}"#)
    };
    let items: Vec<String> = (0..101).map(item).collect();
    let list = format!(r#"{{"allocations": [{}]}}"#, items.join(", "));
    let consumers: Vec<String> = (0..101)
        .map(|number| format!(r#""{}": {}"#, host(number), claim_body(1)))
        .collect();
    let consumer_path = || format!("/allocations/{}", placewright_api_testing::CONSUMER);
    let allocations_path = || "/allocations".to_owned();
    vec![
        ("PUT", consumer_path(), claim_body(101), "1.39"),
        ("PUT", consumer_path(), list, "1.0"),
        (
            "POST",
            allocations_path(),
            format!("{{{}}}", consumers.join(", ")),
            "1.39",
        ),
        (
            "POST",
            allocations_path(),
            format!("[{}0]", "0, ".repeat(10_000)),
            "1.39",
        ),
    ]
}

/// Inventories, traits and aggregates: 101 of each, one more than the test allows.
fn too_large_lists() -> Vec<TooLarge> {
    let texts = |name: &dyn Fn(u32) -> String| {
        let all: Vec<String> = (0..101)
            .map(|number| format!("\"{}\"", name(number)))
            .collect();
        all.join(", ")
    };
    let members: Vec<String> = (0..101)
        .map(|number| format!(r#""CUSTOM_{number}": {{"total": 1}}"#))
        .collect();
    let members = members.join(", ");
    let traits = texts(&|number| format!("CUSTOM_{number}"));
    let aggregates = texts(&|number| host(number).to_string());
    let generation = r#""resource_provider_generation": 1"#;
    let host_path = |resource: &str| {
        format!(
            "/resource_providers/{}/{resource}",
            placewright_api_testing::HOST
        )
    };
    let inventories = format!(r#"{{{generation}, "inventories": {{{members}}}}}"#);
    let traits = format!(r#"{{{generation}, "traits": [{traits}]}}"#);
    vec![
        ("PUT", host_path("inventories"), inventories, "1.39"),
        ("PUT", host_path("traits"), traits, "1.39"),
        (
            "PUT",
            host_path("aggregates"),
            format!("[{aggregates}]"),
            "1.1",
        ),
    ]
}

#[tokio::test]
async fn requests_that_change_too_much_are_refused() {
    let options = PlacementOptions {
        entries_max: 100,
        ..PlacementOptions::default()
    };
    let service = service(options).await;
    placewright_api_testing::create_host(&service, placewright_api_testing::HOST).await;
    let requests = too_large_claims().into_iter().chain(too_large_lists());
    for (method, path, body, version) in requests {
        let version = format!("placement {version}");
        let request = call(method, &path).json(body).version(&version);
        let answer = request.send(&service).await;
        assert_eq!(answer.status, 413, "{method} {path}: {}", answer.text);
        let names_limit = answer.text.contains("placement.entries_max");
        assert!(names_limit, "{}", answer.text);
    }
    let path = format!("/allocations/{}", placewright_api_testing::CONSUMER);
    let answer = call("PUT", &path)
        .json(claim_body(100))
        .send(&service)
        .await;
    // The request is not too large, but its providers do not exist.
    assert_eq!(answer.status, 400, "{}", answer.text);
}

#[tokio::test]
async fn queries_with_too_many_groups_are_refused() {
    let options = PlacementOptions {
        groups_max: 8,
        ..PlacementOptions::default()
    };
    let service = service(options).await;
    placewright_api_testing::create_host(&service, placewright_api_testing::HOST).await;
    let groups = |count: u32| {
        let group = |number| format!("resources_{number}=VCPU:1&");
        (0..count).map(group).collect::<String>()
    };
    // Different sets, because a repeated one has no effect.
    let sets = |count: u32| {
        let set = |number| {
            format!(
                "&same_subtree=_{},_{}",
                number % 8,
                (number / 8 + number + 1) % 8
            )
        };
        (0..count).map(set).collect::<String>()
    };
    for query in [
        format!("{}group_policy=none", groups(9)),
        format!("{}group_policy=none{}", groups(8), sets(9)),
        format!(
            "resources={}",
            (0..9)
                .map(|number| format!("C{number}:1"))
                .collect::<Vec<_>>()
                .join(",")
        ),
    ] {
        let path = format!("/allocation_candidates?{query}");
        let answer = get(&path).send(&service).await;
        assert_eq!(answer.status, 400, "{query}");
        let detail = answer.detail();
        assert!(detail.contains("placement.groups_max"), "{detail}");
    }
    let path = format!("/allocation_candidates?{}group_policy=none", groups(8));
    assert_eq!(get(&path).send(&service).await.status, 200);
}
