//! Requests and responses without sockets: the order of checks, headers, formats of errors.

use placewright_api_testing::{call, get, service, service_with};
use placewright_http::{Cors, HttpOptions};

#[tokio::test]
async fn checks_are_made_in_the_order_of_the_reference() {
    let service = service(HttpOptions::default()).await;
    // Each request passes the checks that the requests before it failed, and fails all later checks. Two of them fail
    // because of the version. An empty header is not sent.
    let wrong_in_all = || {
        call("PATCH", "/nope")
            .header("x-auth-token", "")
            .version("placement 9.9")
            .body("x")
            .header("accept", "application/json")
    };
    let steps = [
        (wrong_in_all(), 401),
        (wrong_in_all().header("x-auth-token", "bob"), 406),
        (
            wrong_in_all()
                .header("x-auth-token", "bob")
                .version("placement x"),
            400,
        ),
        (
            wrong_in_all()
                .header("x-auth-token", "bob")
                .version("placement 1.0"),
            400,
        ),
        (
            wrong_in_all()
                .header("x-auth-token", "bob")
                .version("")
                .header("content-type", "text/x"),
            404,
        ),
    ];
    for (request, status) in steps {
        assert_eq!(request.send(&service).await.status, status);
    }
    // A user without a role.
    let bob = |method, path| call(method, path).header("x-auth-token", "bob");
    for (request, status) in [
        (bob("PATCH", "/traits"), 405),
        (
            bob("GET", "/traits")
                .version("placement 1.5")
                .header("accept", "text/plain"),
            404,
        ),
        (bob("GET", "/traits").header("accept", "text/plain"), 406),
        (
            bob("PUT", "/resource_providers/x").header("content-type", "text/x"),
            415,
        ),
        (bob("PUT", "/resource_providers/x").json("{"), 403),
        (call("PUT", "/resource_providers/x").json("{"), 404),
        (call("PUT", "/resource_providers/x/traits").json("{"), 400),
        // For aggregates the headers are checked before the version.
        (
            bob("GET", "/resource_providers/x/aggregates")
                .version("placement 1.0")
                .header("accept", "text/plain"),
            406,
        ),
        (
            bob("GET", "/resource_providers/x/aggregates").version("placement 1.0"),
            404,
        ),
    ] {
        assert_eq!(request.send(&service).await.status, status);
    }
}

#[tokio::test]
async fn headers_have_version_request_id_and_caching() {
    let service = service(HttpOptions::default()).await;
    let answer = get("/").header("x-auth-token", "").send(&service).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("openstack-api-version"), "placement 1.39");
    assert_eq!(answer.header("vary"), "openstack-api-version");
    assert_eq!(answer.header("cache-control"), "no-cache");
    assert!(answer.header("last-modified").ends_with(" GMT"));
    assert!(answer.header("x-openstack-request-id").starts_with("req-"));
    let answer = get("/").version("placement 1.14").send(&service).await;
    assert_eq!(answer.header("cache-control"), "");
    // The error for an unknown path has no `Vary`; with a bad version there is no version header at all.
    let answer = get("/nope").send(&service).await;
    assert_eq!(
        (
            answer.header("openstack-api-version"),
            answer.header("vary")
        ),
        ("placement 1.39", "")
    );
    assert_eq!(answer.code(), "placement.undefined_code");
    let answer = get("/traits")
        .version("placement 1.40")
        .send(&service)
        .await;
    assert_eq!(answer.header("openstack-api-version"), "");
    assert_eq!(answer.json()["errors"][0]["max_version"], "1.39");
    let request_id = answer.json()["errors"][0]["request_id"].clone();
    assert_eq!(answer.header("x-openstack-request-id"), request_id);
}

#[tokio::test]
async fn errors_have_the_form_that_the_client_accepts() {
    let service = service(HttpOptions::default()).await;
    let head = call("HEAD", "/traits").send(&service).await;
    assert_eq!(
        (head.status, head.text.as_str(), head.header("allow")),
        (405, "", "GET")
    );
    assert_eq!(head.header("content-type"), "text/html; charset=UTF-8");
    let html = get("/nope")
        .header("accept", "text/html")
        .send(&service)
        .await;
    assert!(html.text.starts_with("<html>"), "{}", html.text);
    let text = get("/traits")
        .header("accept", "text/plain")
        .send(&service)
        .await;
    assert!(
        text.text.starts_with("406 Not Acceptable\n\n"),
        "{}",
        text.text
    );
    let old_version = call("DELETE", "/resource_providers/x/inventories").version("placement 1.4");
    let old_version = old_version.send(&service).await;
    assert_eq!((old_version.status, old_version.header("allow")), (405, ""));
    let unauthenticated = get("/traits")
        .header("x-auth-token", "")
        .send(&service)
        .await;
    assert_eq!(unauthenticated.json()["code"], "401 Unauthorized");
    let too_large = HttpOptions {
        body_bytes_max: 10,
        ..HttpOptions::default()
    };
    let small_service = placewright_api_testing::service(too_large).await;
    let answer = call("POST", "/resource_providers")
        .json("{\"name\": \"a\"}")
        .send(&small_service)
        .await;
    assert_eq!(answer.status, 413);
    let long = format!("/{}", "a".repeat(65_000));
    let also_long = "b".repeat(1000);
    assert_eq!(
        get(&long)
            .header("x-note", &also_long)
            .send(&service)
            .await
            .status,
        431
    );
}

#[tokio::test]
async fn cross_origin_requests_are_answered_for_known_origins() {
    let cors = Cors {
        allowed_origins: vec!["http://a".into()],
        ..Cors::default()
    };
    let options = HttpOptions {
        cors: Some(cors),
        ..HttpOptions::default()
    };
    let service = service(options).await;
    let preflight = |method, origin| {
        call(method, "/nope")
            .header("x-auth-token", "")
            .header("origin", origin)
            .header("access-control-request-method", "GET")
    };
    let known = preflight("OPTIONS", "http://a").send(&service).await;
    assert_eq!(
        (known.status, known.header("access-control-allow-origin")),
        (200, "http://a")
    );
    assert_eq!(known.header("access-control-max-age"), "3600");
    let unknown = preflight("OPTIONS", "http://b").send(&service).await;
    assert_eq!(
        (
            unknown.status,
            unknown.header("access-control-allow-origin")
        ),
        (200, "")
    );
    let plain = preflight("GET", "http://a").send(&service).await;
    assert_eq!(
        (plain.status, plain.header("access-control-allow-origin")),
        (401, "http://a")
    );
}

#[tokio::test]
async fn policies_are_checked_before_handlers_run() {
    let policy = "\"placement:traits:list\": \"role:watcher\"";
    let service = service_with(
        HttpOptions::default(),
        placewright_engine::Options::default(),
        policy,
    )
    .await;
    let answer = get("/traits").send(&service).await;
    assert_eq!(answer.status, 403);
    assert_eq!(
        answer.detail(),
        "Policy does not allow placement:traits:list to be performed."
    );
    let watcher = get("/traits")
        .header("x-roles", "Watcher")
        .send(&service)
        .await;
    assert_eq!(watcher.status, 200);
    let reader = |query| {
        get(query)
            .header("x-auth-token", "r:mine")
            .header("x-roles", "reader")
    };
    assert_eq!(
        reader("/usages?project_id=mine")
            .send(&service)
            .await
            .status,
        200
    );
    assert_eq!(
        reader("/usages?project_id=other")
            .send(&service)
            .await
            .status,
        403
    );
    assert_eq!(reader("/usages").send(&service).await.status, 403);
    let system = get("/resource_classes").header("openstack-system-scope", "all");
    assert_eq!(system.send(&service).await.status, 403);
}
