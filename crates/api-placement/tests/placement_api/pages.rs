//! Placewright's own pages: metrics, health, the OpenAPI document, the change stream.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use placewright_api_placement::PlacementService;
use placewright_api_testing::{
    CONSUMER, HOST, call, claim, create_host, get, service, service_on, service_with,
};
use placewright_engine::Options;
use placewright_http::{Body, HttpOptions};
use placewright_journal::{Fault, Faults, Faulty, MemoryJournal, Operation};
use serde_json::Value;

#[tokio::test]
async fn a_service_is_not_ready_while_its_store_fails() {
    let faults = Faults::new();
    let journal = Faulty::new(MemoryJournal::new(), faults.clone());
    // The empty text stands for the default policies.
    let service = service_on(journal, HttpOptions::default(), Options::default(), "").await;
    let ready = async || get("/readyz").send(&service).await;
    let change = async |status| {
        let answer = call("PUT", "/traits/CUSTOM_X").send(&service).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    };
    assert_eq!(ready().await.status, 200);
    // The next append fails, and only that.
    faults.fail(Operation::Append, 0, 1, Fault::Io);
    change(503).await;
    let answer = ready().await;
    assert_eq!(
        (answer.status, answer.text.as_str()),
        (503, "the store fails\n")
    );
    assert_eq!(get("/healthz").send(&service).await.status, 200);
    change(201).await;
    assert_eq!(ready().await.status, 200);
}

#[tokio::test]
async fn public_pages_need_neither_token_nor_version() {
    let options = HttpOptions {
        metrics_on_apis: true,
        ..HttpOptions::default()
    };
    let service = service(options).await;
    create_host(&service, HOST).await;
    // The host has 8 VCPUs, so this claim is counted as refused.
    call("PUT", &format!("/allocations/{CONSUMER}"))
        .json(claim(HOST, 9, None))
        .send(&service)
        .await;
    get("/nope/at/all").send(&service).await;
    let public_request = |path| {
        // An empty header is not sent.
        get(path)
            .header("x-auth-token", "")
            .version("placement nonsense")
    };
    assert_eq!(public_request("/healthz").send(&service).await.text, "ok\n");
    assert_eq!(
        public_request("/readyz").send(&service).await.text,
        "ready\n"
    );
    let metrics = public_request("/metrics").send(&service).await.text;
    for line in [
        "placewright_http_requests_total{method=\"POST\",route=\"/resource_providers\",status=\"200\"} 1",
        "placewright_http_requests_total{method=\"GET\",route=\"other\",status=\"404\"} 1",
        "placewright_refusals_total{reason=\"capacity_exceeded\"} 1",
        "placewright_claims_total{result=\"refused\"} 1",
        "placewright_http_request_duration_seconds_count{method=\"PUT\",route=\"/allocations/{consumer_uuid}\"} 1",
        "placewright_change_followers 0",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    let post = call("POST", "/healthz").send(&service).await;
    assert_eq!((post.status, post.header("allow")), (405, "GET"));
}

#[tokio::test]
async fn the_capabilities_are_for_everybody_and_clients_may_keep_them() {
    let service = service(HttpOptions::default()).await;
    let path = "/placewright/v1/capabilities";
    let first = get(path).header("x-auth-token", "").send(&service).await;
    assert_eq!(first.status, 200);
    let capabilities = &first.json()["capabilities"];
    assert_eq!(capabilities["release"], env!("CARGO_PKG_VERSION"));
    assert_eq!(capabilities["max_version"], "1.39");
    let pages = capabilities["pages"].as_array().unwrap();
    assert!(pages.contains(&Value::from(path)));
    assert_eq!(capabilities["limits"]["entries"], 10_000);
    let again = get(path)
        .header("if-none-match", first.header("etag"))
        .send(&service)
        .await;
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    let query = format!("{path}?x=1");
    assert_eq!(get(&query).send(&service).await.status, 400);
    let post = call("POST", path).send(&service).await;
    assert_eq!((post.status, post.header("allow")), (405, "GET"));
    // The root is the reference's.
    let root = get("/").send(&service).await.json();
    assert_eq!(root.as_object().map(serde_json::Map::len), Some(1));
}

#[tokio::test]
async fn tenants_see_no_metrics() {
    let service = service(HttpOptions::default()).await;
    let answer = get("/metrics").send(&service).await;
    assert_eq!(answer.status, 404);
    assert!(answer.text.contains("health.listen"), "{}", answer.text);
}

#[tokio::test]
async fn the_openapi_document_is_that_of_the_version() {
    let service = service(HttpOptions::default()).await;
    let request = |query: &str| {
        let path = format!("/placewright/v1/openapi.json{query}");
        let service = &service;
        async move { get(&path).header("x-auth-token", "").send(service).await }
    };
    let new = request("").await.json();
    assert_eq!(new["openapi"], "3.1.0");
    assert_eq!(new["info"]["version"], "1.39");
    // The newest version has all paths.
    assert_eq!(new["paths"].as_object().map(serde_json::Map::len), Some(18));
    let put = &new["paths"]["/allocations/{consumer_uuid}"]["put"];
    let body = &put["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(
        body["properties"]["consumer_type"]["pattern"],
        "^[A-Z0-9_]+$"
    );
    assert_eq!(body["additionalProperties"], false);
    let old = request("?microversion=1.5").await.json();
    assert!(old["paths"].get("/traits").is_none());
    let put = &old["paths"]["/allocations/{consumer_uuid}"]["put"];
    let body = &put["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(body["properties"]["allocations"]["type"], "array");
    assert_eq!(request("?microversion=1.40").await.status, 400);
    assert_eq!(request("?version=1").await.status, 400);
}

#[tokio::test]
async fn an_explanation_has_each_shortfall() {
    let service = service(HttpOptions::default()).await;
    create_host(&service, HOST).await;
    let request = |query: &'static str| get(query);
    let path = "/placewright/v1/explain?resources=VCPU:16,MEMORY_MB:1&required=HW_CPU_X86_AVX";
    let explanation = request(path).send(&service).await.json();
    assert_eq!(
        (&explanation["roots"], &explanation["left"]),
        (&1.into(), &0.into())
    );
    let constraints = explanation["constraints"].as_array().unwrap();
    let vcpu = constraints
        .iter()
        .find(|constraint| constraint["constraint"] == "resources=VCPU:16")
        .unwrap();
    assert_eq!(
        (&vcpu["removed_alone"], &vcpu["group"]),
        (&1.into(), &"".into())
    );
    assert_eq!(
        explanation["smallest_impossible_set"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    let miss = &explanation["near_misses"][0];
    assert_eq!(miss["example"]["uuid"], HOST);
    let lacks: Vec<(&Value, &Value)> = (miss["lacks"].as_array().unwrap().iter())
        .map(|lack| (&lack["reason"], &lack["missing"]))
        .collect();
    assert!(
        lacks.contains(&(&"amount".into(), &8.into())),
        "{explanation}"
    );
    let path = "/placewright/v1/explain?resources=CUSTOM_NOPE:1";
    assert_eq!(request(path).send(&service).await.status, 400);
    let path = "/placewright/v1/explain?resources1=VCPU:1";
    assert_eq!(
        request(path)
            .version("placement 1.10")
            .send(&service)
            .await
            .status,
        400
    );
    assert_eq!(request(path).version("").send(&service).await.status, 200);
    assert_eq!(
        request(path)
            .header("x-auth-token", "bob")
            .send(&service)
            .await
            .status,
        403
    );
}

/// One event of the change stream.
#[derive(Debug, PartialEq)]
struct Event {
    id: u64,
    data: Value,
}

/// The server-sent events of a response.
struct Events {
    body: Body,
    text: String,
}

impl Events {
    async fn follow(service: &Arc<PlacementService>, path: &str, last_id: &str) -> Self {
        let response = get(path)
            .header("last-event-id", last_id)
            .send_unread(service)
            .await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            body: response.into_body(),
            text: String::new(),
        }
    }

    /// The next event; none at the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event_text, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    event_text
                        .lines()
                        .find_map(|line| line.strip_prefix(name))
                        .map(str::to_owned)
                };
                let id_and_data = field("id: ").zip(field("data: "));
                self.text = rest.to_owned();
                // A comment has neither an id nor data.
                let Some((id, data)) = id_and_data else {
                    continue;
                };
                return Some(Event {
                    id: id.parse().unwrap(),
                    data: serde_json::from_str(&data).unwrap(),
                });
            }
            let frame = self.body.frame().await?.unwrap();
            self.text
                .push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
    }
}

#[tokio::test]
async fn every_change_is_followed_in_order_and_can_be_resumed() {
    let service = service(HttpOptions::default()).await;
    let mut follower = Events::follow(&service, "/placewright/v1/changes", "").await;
    create_host(&service, HOST).await;
    let path = format!("/allocations/{CONSUMER}");
    assert_eq!(
        call("PUT", &path)
            .json(claim(HOST, 2, None))
            .send(&service)
            .await
            .status,
        204
    );
    assert_eq!(call("DELETE", &path).send(&service).await.status, 204);

    let mut events = Vec::new();
    while events.len() < 4 {
        events.push(follower.next().await.unwrap());
    }
    let first = events[0].id;
    let ids: Vec<u64> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids, [first, first + 1, first + 2, first + 3]);
    let kinds: Vec<String> = (events.iter())
        .flat_map(|event| event.data["changes"].as_array().unwrap())
        .map(|change| change["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        [
            "provider_created",
            "inventory_set",
            "generation_set",
            "consumer_set",
            "generation_set",
            "consumer_removed"
        ]
    );
    let inventory = &events[1].data["changes"][0];
    assert_eq!(
        (&inventory["resource_class"], &inventory["total"]),
        (&"VCPU".into(), &8.into())
    );
    assert_eq!(events[2].data["changes"][0]["allocations"][0]["amount"], 2);
    assert_eq!(events[3].data["sequence"], first + 3);

    // The header of a client that reconnects takes precedence over the query.
    let after = format!("/placewright/v1/changes?after={}", first - 1);
    let mut second_follower = Events::follow(&service, &after, "").await;
    assert_eq!(second_follower.next().await.unwrap(), events[0]);
    let mut resumed_follower = Events::follow(&service, &after, &(first + 1).to_string()).await;
    assert_eq!(resumed_follower.next().await.unwrap(), events[2]);
}

#[tokio::test]
async fn errors_of_the_change_stream_have_their_status() {
    let engine = Options {
        snapshot_entries: 1,
        retain_entries: 1,
        snapshots_kept: 1,
        ..Options::default()
    };
    let service = service_with(HttpOptions::default(), engine, "").await;
    let follow = |query: &str| {
        let path = format!("/placewright/v1/changes{query}");
        let service = &service;
        async move { get(&path).send(service).await }
    };
    assert_eq!(follow("?after=x").await.status, 400);
    assert_eq!(follow("?since=1").await.status, 400);
    let ahead = follow("?after=1000").await;
    assert_eq!(ahead.status, 400);
    assert!(
        ahead.detail().contains("the last entry is 1"),
        "{}",
        ahead.text
    );
    let refused = get("/placewright/v1/changes")
        .header("x-auth-token", "bob")
        .send(&service)
        .await;
    assert_eq!(refused.status, 403);
    let refused = get("/placewright/v1/changes")
        .header("x-auth-token", "")
        .send(&service)
        .await;
    assert_eq!(refused.status, 401);
    // Snapshots are made in the background, and delete the entries that they cover.
    for round in 0_u32.. {
        let name = format!("/traits/CUSTOM_{round}");
        call("PUT", &name).send(&service).await;
        let mut response = get("/placewright/v1/changes?after=0")
            .send_unread(&service)
            .await;
        if response.status() == 410 {
            let text = response.body_mut().collect().await.unwrap().to_bytes();
            let text = String::from_utf8(text.to_vec()).unwrap();
            assert!(text.contains("Entry 1 is no longer held"), "{text}");
            return;
        }
        assert_eq!(response.status(), 200);
        assert!(round < 10_000, "no snapshot was made");
    }
}
