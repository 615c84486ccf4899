//! Who may do what, and bad input.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod common;

use common::{Site, project, sign_in_body};
use serde_json::{Value, json};

#[tokio::test]
async fn versions_are_shown_to_everybody() {
    let site = Site::new().await;
    let versions = site.send("GET", "/", &[], None).await;
    let link = "/versions/values/0/links/0/href";
    assert_eq!(versions.status, 300);
    assert_eq!(
        versions.body.pointer(link).unwrap(),
        "http://192.0.2.7:5000/v3/"
    );
    let version = site.send("GET", "/v3", &[], None).await;
    assert_eq!(
        (version.status, &version.body["version"]["status"]),
        (200, &json!("stable"))
    );
}

#[tokio::test]
async fn the_root_says_what_the_service_can_do_and_clients_may_keep_it() {
    let site = Site::new().await;
    for (path, status) in [("/", 300), ("/v3", 200)] {
        let first = site.send("GET", path, &[], None).await;
        assert_eq!(first.status, status);
        let tag = first.headers["etag"].to_str().unwrap();
        let again = site
            .send("GET", path, &[("if-none-match", tag)], None)
            .await;
        assert_eq!((again.status, &again.body), (304, &Value::Null));
    }
    let root = site.send("GET", "/", &[], None).await.body;
    let capabilities = &root["capabilities"];
    assert_eq!(capabilities["release"], env!("CARGO_PKG_VERSION"));
    let methods = json!(["password", "token", "application_credential"]);
    assert_eq!(capabilities["methods"], methods);
}

/// The calls that only an administrator may make, each with its method, path and body. `ADMIN`, `PROJECT` and `ROLE`
/// stand for the ids of the user, the project and the role named `admin`, and `OWN` for the id of the user `demo`.
async fn management(site: &Site) -> Vec<(&'static str, String, Option<Value>)> {
    let admin = site.id("users", "admin").await;
    let own = site.id("users", "demo").await;
    let project = site.id("projects", "admin").await;
    let role = site.id("roles", "admin").await;
    let table = "
        GET /users
        POST /users {\"user\": {\"name\": \"eve\"}}
        GET /users/ADMIN
        PATCH /users/ADMIN {\"user\": {\"password\": \"mine\"}}
        DELETE /users/ADMIN
        GET /users/ADMIN/projects
        GET /users/ADMIN/application_credentials
        POST /users/ADMIN/application_credentials {\"application_credential\": {\"name\": \"x\"}}
        GET /projects
        POST /projects {\"project\": {\"name\": \"mine\"}}
        GET /projects/PROJECT
        DELETE /projects/PROJECT
        GET /roles
        POST /roles {\"role\": {\"name\": \"mine\"}}
        DELETE /roles/ROLE
        PUT /roles/ROLE/implies/ROLE
        GET /role_assignments
        GET /role_inferences
        GET /groups
        PUT /projects/PROJECT/users/OWN/roles/ROLE
        DELETE /projects/PROJECT/users/OWN/roles/ROLE";
    let lines = table.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let (method, rest) = line.trim().split_once(' ').unwrap();
            let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
            let path = path.replace("ADMIN", &admin).replace("OWN", &own);
            let path = path.replace("PROJECT", &project).replace("ROLE", &role);
            (
                method,
                format!("/v3{path}"),
                serde_json::from_str(body).ok(),
            )
        })
        .collect()
}

#[tokio::test]
async fn only_administrators_manage() {
    let site = Site::new().await;
    let demo = site.demo().await;
    for (method, path, body) in management(&site).await {
        let answer = site.call(&demo, method, &path, body).await;
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.body);
        let without = site.send(method, &path, &[], None).await;
        assert_eq!(without.status, 401, "{method} {path}");
        assert_eq!(without.body["error"]["code"], 401);
    }
    let admin = site.admin().await;
    let headers = [
        ("x-auth-token", demo.as_str()),
        ("x-subject-token", admin.as_str()),
    ];
    for method in ["GET", "DELETE"] {
        let answer = site.send(method, "/v3/auth/tokens", &headers, None).await;
        assert_eq!(answer.status, 403, "{method}");
    }
}

#[tokio::test]
async fn users_look_at_all_tokens_of_theirs_and_revoke_them() {
    let site = Site::new().await;
    let (token, other) = (site.demo().await, site.demo().await);
    let headers = [
        ("x-auth-token", token.as_str()),
        ("x-subject-token", other.as_str()),
    ];
    // After it is revoked, the service does not say any more whose token it was.
    for (method, status) in [("GET", 200), ("DELETE", 204), ("GET", 403)] {
        let answer = site.send(method, "/v3/auth/tokens", &headers, None).await;
        assert_eq!(answer.status, status, "{method}: {}", answer.body);
    }
    assert_eq!(site.status_of(&token).await, 200);
    assert_eq!(site.status_of(&other).await, 404);
}

#[tokio::test]
async fn everybody_sees_what_is_their_own() {
    let site = Site::new().await;
    let demo = site.demo().await;
    let own_id = site.id("users", "demo").await;
    let own = site.call(&demo, "GET", "/v3/users?name=demo", None).await;
    assert_eq!(own.body["users"][0]["id"], own_id);
    let other = site.call(&demo, "GET", "/v3/users?name=admin", None).await;
    assert_eq!(other.status, 403);
    for path in ["auth/projects", "auth/catalog", "domains", "services"] {
        let answer = site.call(&demo, "GET", &format!("/v3/{path}"), None).await;
        assert_eq!(answer.status, 200, "{path}");
    }
    for path in [
        "",
        "/projects",
        "/application_credentials",
        "/groups",
        "/access_rules",
    ] {
        let path = format!("/v3/users/{own_id}{path}");
        let answer = site.call(&demo, "GET", &path, None).await;
        assert_eq!(answer.status, 200, "{path}");
    }
}

#[tokio::test]
async fn an_application_credential_has_no_more_than_it_was_given() {
    let site = Site::new().await;
    let demo = site.demo().await;
    let path = format!(
        "/v3/users/{}/application_credentials",
        site.id("users", "demo").await
    );
    let create = async |token: &str, fields: Value| {
        let body = json!({"application_credential": fields});
        site.call(token, "POST", &path, body).await
    };
    let more = create(&demo, json!({"name": "more", "roles": [{"name": "admin"}]})).await;
    assert_eq!(more.status, 400, "{}", more.body);
    let made = create(
        &demo,
        json!({"name": "robot", "roles": [{"name": "reader"}]}),
    )
    .await;
    assert_eq!(made.status, 201, "{}", made.body);
    let made = &made.body["application_credential"];
    let sign_in = async |secret: &Value, scope: Value| {
        let credential = json!({"id": made["id"], "secret": secret});
        let identity =
            json!({"methods": ["application_credential"], "application_credential": credential});
        let body = json!({"auth": {"identity": identity, "scope": scope}});
        site.send("POST", "/v3/auth/tokens", &[], Some(body)).await
    };
    assert_eq!(sign_in(&json!("wrong"), Value::Null).await.status, 401);
    assert_eq!(
        sign_in(&made["secret"], json!("unscoped")).await.status,
        401
    );
    assert_eq!(sign_in(&made["secret"], project("admin")).await.status, 401);
    let signed_in = sign_in(&made["secret"], Value::Null).await;
    let token = &signed_in.body["token"];
    assert_eq!(token["roles"].as_array().unwrap().len(), 1);
    assert_eq!(token["application_credential"]["restricted"], true);
    // The credential's token can make no further application credential and cannot remove its own; a token that
    // is issued for that token can make none either.
    let robot = signed_in.token();
    assert_eq!(create(&robot, json!({"name": "child"})).await.status, 403);
    let identity = json!({"methods": ["token"], "token": {"id": robot}});
    let again = json!({"auth": {"identity": identity, "scope": project("demo")}});
    let again = site
        .send("POST", "/v3/auth/tokens", &[], Some(again))
        .await
        .token();
    assert_eq!(create(&again, json!({"name": "child"})).await.status, 403);
    let id = made["id"].as_str().unwrap();
    let credential = format!("{path}/{id}");
    assert_eq!(
        site.call(&robot, "DELETE", &credential, None).await.status,
        403
    );
    let shown = site.call(&demo, "GET", &credential, None).await.body;
    assert_eq!(shown["application_credential"].get("secret"), None);
    assert_eq!(
        site.call(&demo, "DELETE", &credential, None).await.status,
        204
    );
    assert_eq!(site.status_of(&robot).await, 404);
}

#[tokio::test]
async fn bad_input_names_the_field_and_changes_nothing() {
    let site = Site::new().await;
    let admin = site.admin().await;
    let users = async || site.call(&admin, "GET", "/v3/users", None).await.body["users"].clone();
    let before = users().await;
    for (body, field) in [
        (json!([]), ""),
        (json!({}), "user"),
        (json!({"user": {}}), "user.name"),
        (json!({"user": {"name": " ada"}}), "user.name"),
        (json!({"user": {"name": "a\nb"}}), "user.name"),
        (json!({"user": {"name": "a".repeat(256)}}), "user.name"),
        (
            json!({"user": {"name": "ada", "password": ""}}),
            "user.password",
        ),
        (
            json!({"user": {"name": "ada", "enabled": "yes"}}),
            "user.enabled",
        ),
        (
            json!({"user": {"name": "ada", "domain_id": "other"}}),
            "user.domain_id",
        ),
        (
            json!({"user": {"name": "ada", "colour": "blue"}}),
            "user.colour",
        ),
        (json!({"user": {"name": "ada"}, "more": 1}), "more"),
    ] {
        let answer = site.call(&admin, "POST", "/v3/users", body.clone()).await;
        assert_eq!(answer.status, 400, "{body}");
        let message = answer.body["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(field), "{body}: {message}");
    }
    assert_eq!(users().await, before);
    let taken = json!({"user": {"name": "demo"}});
    assert_eq!(
        site.call(&admin, "POST", "/v3/users", taken).await.status,
        409
    );
    for (methods, status) in [(json!([]), 400), (json!(["magic"]), 400), (json!(7), 400)] {
        let mut body = sign_in_body("demo", "of demo", Value::Null);
        body["auth"]["identity"]["methods"] = methods;
        let answer = site.send("POST", "/v3/auth/tokens", &[], Some(body)).await;
        assert_eq!(answer.status, status);
    }
    let mut trust = sign_in_body("demo", "of demo", Value::Null);
    trust["auth"]["scope"] = json!({"OS-TRUST:trust": {"id": "x"}});
    assert_eq!(
        site.send("POST", "/v3/auth/tokens", &[], Some(trust))
            .await
            .status,
        400
    );
    let not_allowed = site.call(&admin, "PUT", "/v3/users", None).await;
    assert_eq!(
        (not_allowed.status, &not_allowed.headers["allow"]),
        (405, &"GET, POST".parse().unwrap())
    );
    assert_eq!(
        site.call(&admin, "GET", "/v3/nothing", None).await.status,
        404
    );
    assert_eq!(
        site.call(&admin, "GET", "/v2.0/tokens", None).await.status,
        404
    );
}
