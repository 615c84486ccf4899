//! Signing in, and how long a token is valid afterwards.

mod common;

use std::time::Duration;

use common::{Site, project, send, sign_in_body};
use serde_json::{Value, json};

#[tokio::test]
async fn a_password_gives_a_token_with_roles_and_the_catalog() {
    let site = Site::new().await;
    let answer = site.sign_in("demo", "of demo", project("demo")).await;
    let token = &answer.body["token"];
    assert_eq!(token["user"]["name"], "demo");
    assert_eq!(token["project"]["name"], "demo");
    assert_eq!(token["methods"], json!(["password"]));
    let roles = token["roles"].as_array().unwrap().iter();
    let mut roles: Vec<&str> = roles.map(|role| role["name"].as_str().unwrap()).collect();
    roles.sort_unstable();
    assert_eq!(roles, ["member", "reader"]);
    let endpoint = &token["catalog"][0]["endpoints"][0];
    assert_eq!(endpoint["url"], "http://192.0.2.7:8774/v2.1");
    // A check of the token returns the same, without the catalog if the query has `nocatalog`.
    let own = answer.token();
    let headers = [
        ("x-auth-token", own.as_str()),
        ("x-subject-token", own.as_str()),
    ];
    let seen = site
        .send("GET", "/v3/auth/tokens?nocatalog", &headers, None)
        .await;
    assert_eq!(seen.status, 200);
    assert_eq!(seen.body["token"]["audit_ids"], token["audit_ids"]);
    assert_eq!(seen.body["token"].get("catalog"), None);
    assert_eq!(
        site.send("HEAD", "/v3/auth/tokens", &headers, None)
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn whatever_is_wrong_the_answer_is_the_same() {
    let site = Site::new().await;
    let wrong = site.sign_in("demo", "of admin", project("demo")).await;
    assert_eq!(wrong.status, 401);
    assert_eq!(wrong.body["error"]["title"], "Unauthorized");
    for (name, password, scope) in [
        ("nobody", "of demo", project("demo")),
        ("demo", "of demo", project("admin")),
        ("demo", "of demo", project("nowhere")),
        ("demo", "of demo", json!({"system": {"all": true}})),
        ("demo", "of demo", json!({"domain": {"id": "default"}})),
        ("demo", "of demo", json!({"domain": {"name": "Other"}})),
    ] {
        let answer = site.sign_in(name, password, scope).await;
        assert_eq!((answer.status, answer.body), (401, wrong.body.clone()));
    }
    let mut elsewhere = sign_in_body("demo", "of demo", project("demo"));
    elsewhere["auth"]["identity"]["password"]["user"]["domain"] = json!({"name": "Other"});
    let answer = site
        .send("POST", "/v3/auth/tokens", &[], Some(elsewhere))
        .await;
    assert_eq!((answer.status, answer.body), (401, wrong.body));
}

#[tokio::test]
async fn tokens_are_of_a_project_of_the_system_of_the_domain_or_of_nothing() {
    let site = Site::new().await;
    let system = site
        .sign_in("admin", "of admin", json!({"system": {"all": true}}))
        .await;
    assert_eq!(system.body["token"]["system"], json!({"all": true}));
    let domain = site
        .sign_in("admin", "of admin", json!({"domain": {"name": "Default"}}))
        .await;
    assert_eq!(domain.body["token"]["domain"]["id"], "default");
    let nothing = site.sign_in("admin", "of admin", json!("unscoped")).await;
    assert_eq!(nothing.body["token"].get("roles"), None);
    assert_eq!(nothing.body["token"].get("project"), None);
    // If the body names no scope, the token is of the user's default project.
    let default = site.sign_in("admin", "of admin", Value::Null).await;
    assert_eq!(default.body["token"]["project"]["name"], "admin");
    // A client can get another token for a token. Both expire at the same time.
    let identity = json!({"methods": ["token"], "token": {"id": nothing.token()}});
    let body = json!({"auth": {"identity": identity, "scope": project("admin")}});
    let other = site.send("POST", "/v3/auth/tokens", &[], Some(body)).await;
    let (first, second) = (&nothing.body["token"], &other.body["token"]);
    assert_eq!(second["expires_at"], first["expires_at"]);
    assert_eq!(second["methods"], json!(["password", "token"]));
    assert_eq!(second["audit_ids"][1], first["audit_ids"][0]);
}

#[tokio::test]
async fn every_replica_checks_a_token_by_itself() {
    let site = Site::new().await;
    let token = site.demo().await;
    let other = site.other_service();
    let headers = [
        ("x-auth-token", token.as_str()),
        ("x-subject-token", token.as_str()),
    ];
    let request = ("192.0.2.1:1", "GET", "/v3/auth/tokens");
    assert_eq!(send(&other, request, &headers, None).await.status, 200);
    // A token of another installation is signed with a key that this one does not have.
    let foreign = Site::new().await.demo().await;
    let headers = [("x-auth-token", foreign.as_str())];
    let request = ("192.0.2.1:1", "GET", "/v3/auth/projects");
    assert_eq!(send(&other, request, &headers, None).await.status, 401);
    assert_eq!(site.status_of(&foreign).await, 404);
}

#[tokio::test]
async fn a_token_ends_when_its_time_is_over() {
    let site = Site::new().await;
    let token = site.demo().await;
    site.clock
        .advance(Duration::from_secs(common::TOKEN_LIFETIME_S - 1));
    assert_eq!(site.status_of(&token).await, 200);
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(site.status_of(&token).await, 404);
    assert_eq!(
        site.call(&token, "GET", "/v3/auth/projects", None)
            .await
            .status,
        401
    );
    // An administrator may ask about a token that has expired lately.
    let admin = site.admin().await;
    let headers = [
        ("x-auth-token", admin.as_str()),
        ("x-subject-token", token.as_str()),
    ];
    let seen = site
        .send("GET", "/v3/auth/tokens?allow_expired=1", &headers, None)
        .await;
    assert_eq!(seen.status, 200);
}

#[tokio::test]
async fn what_an_administrator_takes_away_counts_at_once() {
    let site = Site::new().await;
    let admin = site.admin().await;
    let (user, demo) = (
        site.id("users", "demo").await,
        site.id("projects", "demo").await,
    );
    let role = site.id("roles", "member").await;
    let user_path = format!("/v3/users/{user}");
    let project_path = format!("/v3/projects/{demo}");
    let role_path = format!("/v3/projects/{demo}/users/{user}/roles/{role}");
    let enabled = |kind: &str, is_enabled: bool| json!({kind: {"enabled": is_enabled}});

    let token = site.demo().await;
    let patch = |path: &str, body: Value| {
        let (site, admin, path) = (&site, &admin, path.to_owned());
        async move { site.call(admin, "PATCH", &path, body).await.status }
    };
    assert_eq!(patch(&project_path, enabled("project", false)).await, 200);
    assert_eq!(site.status_of(&token).await, 404);
    assert_eq!(patch(&project_path, enabled("project", true)).await, 200);
    assert_eq!(site.status_of(&token).await, 200);

    assert_eq!(
        site.call(&admin, "DELETE", &role_path, None).await.status,
        204
    );
    assert_eq!(site.status_of(&token).await, 404);
    assert_eq!(site.call(&admin, "PUT", &role_path, None).await.status, 204);
    assert_eq!(site.status_of(&token).await, 200);

    assert_eq!(patch(&user_path, enabled("user", false)).await, 200);
    assert_eq!(
        site.sign_in("demo", "of demo", project("demo"))
            .await
            .status,
        401
    );
    assert_eq!(patch(&user_path, enabled("user", true)).await, 200);
    // Tokens that were issued before the user was disabled stay invalid.
    assert_eq!(site.status_of(&token).await, 404);

    let token = site.demo().await;
    let new = json!({"user": {"password": "another", "original_password": "of demo"}});
    let path = format!("{user_path}/password");
    assert_eq!(site.call(&token, "POST", &path, new).await.status, 204);
    assert_eq!(site.status_of(&token).await, 404);
    assert_eq!(
        site.sign_in("demo", "of demo", project("demo"))
            .await
            .status,
        401
    );
    let token = site
        .sign_in("demo", "another", project("demo"))
        .await
        .token();

    let headers = [
        ("x-auth-token", token.as_str()),
        ("x-subject-token", token.as_str()),
    ];
    assert_eq!(
        site.send("DELETE", "/v3/auth/tokens", &headers, None)
            .await
            .status,
        204
    );
    assert_eq!(site.status_of(&token).await, 404);
}

#[tokio::test]
async fn guesses_from_one_address_hold_up_nobody_else() {
    let site = Site::new().await;
    let guess = async |address: &str, password: &str| {
        let body = sign_in_body("demo", password, project("demo"));
        let request = (address, "POST", "/v3/auth/tokens");
        send(&site.service, request, &[], Some(body)).await
    };
    // More wrong passwords than an address may send in a burst.
    let mut last = 0;
    for number in 0..12 {
        let answer = guess("192.0.2.66:1", &format!("guess {number}")).await;
        last = answer.status;
        assert!(matches!(last, 401 | 429), "{last}");
        assert_eq!(last == 429, answer.headers.contains_key("retry-after"));
    }
    assert_eq!(last, 429);
    // After the guesses, the right password from their address is refused, too. Other addresses can sign in as this
    // user, and the guesser's address can sign in as another user.
    assert_eq!(guess("192.0.2.66:1", "of demo").await.status, 429);
    assert_eq!(guess("192.0.2.1:1", "of demo").await.status, 201);
    let body = sign_in_body("admin", "of admin", project("admin"));
    let request = ("192.0.2.66:1", "POST", "/v3/auth/tokens");
    assert_eq!(
        send(&site.service, request, &[], Some(body)).await.status,
        201
    );
}
