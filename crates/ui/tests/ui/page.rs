//! The page's files, the headers that protect it, and the way to the other services.

use crate::common::{ADMIN, Site, TENANT, host};

const FILES: [&str; 6] = [
    "/ui/",
    "/ui/main.js",
    "/ui/style.css",
    "/ui/icon.svg",
    "/ui/texts.js",
    "/ui/pages/fleet.js",
];

#[tokio::test]
async fn every_answer_keeps_other_origins_away() {
    let site = Site::start().await;
    let calls = ["/ui/api/installation", "/ui/api/session", "/ui/nothing"];
    let forwarded = ["/ui/api/scheduler/v1/hosts", "/ui/api/placement/"];
    for path in FILES.iter().chain(&calls).chain(&forwarded) {
        let answer = site.get(path, ADMIN).await;
        let policy = answer.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
    }
}

#[tokio::test]
async fn files_are_asked_for_again_and_sent_only_if_they_changed() {
    let site = Site::start().await;
    for path in FILES {
        let first = site.get(path, "").await;
        assert_eq!(first.status, 200, "{path}");
        assert_eq!(first.header("cache-control"), "no-cache");
        assert!(!first.body.is_empty());
        let tag = first.header("etag").to_owned();
        let known = format!("If-None-Match: \"other\", {tag}\r\n");
        let again = site.get(path, &known).await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        let other = site.get(path, "If-None-Match: \"other\"\r\n").await;
        assert_eq!(other.status, 200);
    }
}

#[tokio::test]
async fn the_root_leads_to_the_page_and_nothing_else_is_there() {
    let site = Site::start().await;
    for path in ["/", "/ui"] {
        let answer = site.get(path, "").await;
        assert_eq!((answer.status, answer.header("location")), (302, "/ui/"));
    }
    for path in [
        "/ui/other",
        "/ui/../Cargo.toml",
        "/ui/%2e%2e/x",
        "/v2.1",
        "/ui/api/identity/v3",
        "/ui/api/other/v1",
    ] {
        assert_eq!(site.get(path, ADMIN).await.status, 404, "{path}");
    }
    assert_eq!(site.send("POST", "/ui/", "", "{}").await.status, 405);
    let head = site.send("HEAD", "/ui/", "", "").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn a_page_learns_who_its_user_is_and_what_is_of_use() {
    let site = Site::start().await;
    let installation = site.get("/ui/api/installation", "").await.json();
    assert_eq!(installation["sign_in"], "noauth2");
    let services = serde_json::json!(["placement", "scheduler"]);
    assert_eq!(installation["services"], services);
    let admin = site.get("/ui/api/session", ADMIN).await.json();
    assert_eq!(admin["may"]["fleet"], true);
    let tenant = site.get("/ui/api/session", TENANT).await.json();
    assert_eq!(tenant["project"], "blue");
    let may = tenant["may"].as_object().unwrap();
    assert!(may.values().all(|allowed| allowed == false), "{may:?}");
    let nobody = site.get("/ui/api/session", "").await;
    assert_eq!(nobody.status, 401);
}

#[tokio::test]
async fn a_browser_is_never_made_to_ask_for_a_password_itself() {
    let site = Site::start().await;
    for path in ["/ui/api/session", "/ui/api/scheduler/v1/hosts"] {
        let answer = site.get(path, "").await;
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.header("www-authenticate"), "", "{path}");
    }
}

#[tokio::test]
async fn tenants_get_nothing_of_the_fleet() {
    let site = Site::start().await;
    site.add_host(1).await;
    for path in [
        "/ui/api/fleet".to_owned(),
        "/ui/api/metrics".to_owned(),
        "/ui/api/scheduler/v1/hosts".to_owned(),
        "/ui/api/placement/resource_providers".to_owned(),
        format!("/ui/api/placement/resource_providers/{}", host(1)),
    ] {
        let answer = site.get(&path, TENANT).await;
        assert_eq!(answer.status, 403, "{path}");
        let text = String::from_utf8_lossy(&answer.body);
        assert!(
            !text.contains("node-1") && !text.contains("host-1"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn requests_that_other_pages_cause_change_nothing() {
    let site = Site::start().await;
    let body = r#"{"name": "forged"}"#;
    let path = "/ui/api/placement/resource_providers";
    for origin in ["cross-site", "same-site", "none"] {
        let headers = format!("{ADMIN}Sec-Fetch-Site: {origin}\r\n");
        let answer = site.send("POST", path, &headers, body).await;
        assert_eq!(answer.status, 403, "{origin}");
        let session = site.get("/ui/api/session", &headers).await;
        assert_eq!(session.status, 403, "{origin}");
    }
    let providers = site.get(path, ADMIN).await.json();
    assert_eq!(providers["resource_providers"], serde_json::json!([]));
    let headers = format!("{ADMIN}Sec-Fetch-Site: same-origin\r\n");
    let own = site.send("POST", path, &headers, body).await;
    assert_eq!(own.status, 201);
}

#[tokio::test]
async fn queries_go_on_to_the_service() {
    let site = Site::start().await;
    for number in 1..=3 {
        site.add_host(number).await;
    }
    let page = site.get("/ui/api/scheduler/v1/hosts?limit=2", ADMIN).await;
    assert_eq!(page.json()["hosts"].as_array().unwrap().len(), 2);
    let bad = site.get("/ui/api/scheduler/v1/hosts?limit=x", ADMIN).await;
    assert_eq!(bad.status, 400);
}

#[tokio::test]
async fn metrics_are_shown_to_operators() {
    let site = Site::start().await;
    site.get("/ui/api/session", ADMIN).await;
    let answer = site.get("/ui/api/metrics", ADMIN).await;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(text.contains("placewright_http_requests_total"), "{text}");
}
