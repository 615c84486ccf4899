//! `keystone`: tokens, validated by a small Keystone on loopback.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use placewright_auth::{
    AuthConfig, AuthError, Authenticator, Identity, KeystoneConfig, Scope, Secret, SetupError,
    Strategy,
};
use placewright_testing::keystone::{self, FakeKeystone, token};
use serde_json::json;

fn config(keystone: &FakeKeystone) -> KeystoneConfig {
    KeystoneConfig {
        auth_url: keystone.url(),
        www_authenticate_uri: "https://public.example.org:5000".to_owned(),
        username: "placement".to_owned(),
        password: Secret::new("sesame"),
        ..KeystoneConfig::default()
    }
}

fn authenticator(keystone: KeystoneConfig) -> Result<Authenticator, SetupError> {
    let strategy = Strategy::Keystone;
    Authenticator::new(&AuthConfig {
        strategy,
        keystone,
        ..AuthConfig::default()
    })
}

async fn send(auth: &Authenticator, token: &str) -> Result<Arc<Identity>, AuthError> {
    send_from(auth, token, None).await
}

async fn send_from(
    auth: &Authenticator,
    token: &str,
    source: Option<IpAddr>,
) -> Result<Arc<Identity>, AuthError> {
    auth.authenticate(&[("X-Auth-Token", token)], source).await
}

fn unauthorized() -> AuthError {
    let challenge = "Keystone uri=\"https://public.example.org:5000\"".to_owned();
    AuthError::Unauthorized {
        challenge: Some(challenge),
    }
}

fn is_unavailable(answer: &Result<Arc<Identity>, AuthError>) -> bool {
    matches!(answer, Err(AuthError::Unavailable { retry_after, .. }) if !retry_after.is_zero())
}

#[tokio::test]
async fn a_valid_token_has_an_identity_and_is_validated_once() {
    let keystone = FakeKeystone::start().await;
    keystone.add_token(
        "t-project",
        token(json!({"project": {"id": "p1", "domain": {"id": "d2"}}})),
    );
    let auth = authenticator(config(&keystone)).unwrap();
    for given in ["t-project", "  t-project\t", "t-project"] {
        let identity = send(&auth, given).await.unwrap();
        let parts = identity.parts();
        assert_eq!(parts.user_id.as_deref(), Some("u1"));
        assert_eq!(parts.user_domain_id.as_deref(), Some("d1"));
        assert_eq!(parts.project_id.as_deref(), Some("p1"));
        assert_eq!(parts.project_domain_id.as_deref(), Some("d2"));
        assert_eq!(parts.roles, ["admin", "member"]);
        assert!(parts.is_admin_project && parts.is_admin.is_none() && parts.service.is_none());
        assert_eq!(identity.scope(), Scope::Project);
    }
    assert_eq!((keystone.logins(), keystone.validations()), (1, 1));
    assert_eq!(keystone.last_query(), "nocatalog");
    let storage = auth
        .authenticate(&[("X-Storage-Token", "t-project")], None)
        .await;
    assert!(storage.is_ok());
    // Claims in the client's own headers are ignored.
    let forged = auth
        .authenticate(
            &[
                ("X-Auth-Token", "t-project"),
                ("X-Roles", "root"),
                ("X-User-Id", "x"),
            ],
            None,
        )
        .await
        .unwrap();
    assert_eq!((forged.user_id(), forged.roles().len()), (Some("u1"), 2));
    assert_eq!(keystone.validations(), 1);
}

#[tokio::test]
async fn tokens_have_the_scope_of_the_system_of_a_domain_or_else_of_a_project() {
    let keystone = FakeKeystone::start().await;
    keystone.add_token(
        "system",
        token(json!({"system": {"all": true}, "is_admin_project": false})),
    );
    keystone.add_token("domain", token(json!({"domain": {"id": "d9"}})));
    keystone.add_token("none", token(json!({"roles": []})));
    let auth = authenticator(config(&keystone)).unwrap();
    let system = send(&auth, "system").await.unwrap();
    assert_eq!(system.scope(), Scope::System);
    assert!(!system.parts().is_admin_project);
    let domain = send(&auth, "domain").await.unwrap();
    assert_eq!(
        (domain.scope(), domain.parts().domain_id.as_deref()),
        (Scope::Domain, Some("d9"))
    );
    let none = send(&auth, "none").await.unwrap();
    assert_eq!(
        (none.scope(), none.roles(), none.project_id()),
        (Scope::Project, &[][..], None)
    );
}

#[tokio::test]
async fn unknown_expired_and_malformed_tokens_are_rejected() {
    let keystone = FakeKeystone::start().await;
    keystone.add_token(
        "expired",
        token(json!({"expires_at": "2020-01-01T00:00:00.000000Z"})),
    );
    let rules = json!({"application_credential": {"id": "c", "access_rules": []}});
    keystone.add_token("restricted", token(rules));
    let auth = authenticator(config(&keystone)).unwrap();
    for name in ["unknown", "expired", "restricted"] {
        for _ in 0..3 {
            let error = send(&auth, name).await.unwrap_err();
            assert_eq!(error, unauthorized(), "{name}");
        }
    }
    assert_eq!(keystone.validations(), 3, "rejections are cached");
    for malformed in ["", " ", "a b", "ü", "x\u{7f}", "a".repeat(9000).as_str()] {
        assert_eq!(send(&auth, malformed).await.unwrap_err(), unauthorized());
    }
    let no_headers: [(&str, &str); 0] = [];
    assert_eq!(
        auth.authenticate(&no_headers, None).await.unwrap_err(),
        unauthorized()
    );
    let repeated_header = auth
        .authenticate(&[("X-Auth-Token", "a"), ("X-Auth-Token", "b")], None)
        .await;
    assert_eq!(repeated_header.unwrap_err(), unauthorized());
    assert_eq!(
        keystone.validations(),
        4,
        "only the joined a,b could have been a token"
    );
}

#[tokio::test]
async fn without_a_cache_a_revoked_token_is_refused_at_once() {
    let keystone = FakeKeystone::start().await;
    keystone.add_token("t", token(json!({})));
    let no_cache = KeystoneConfig {
        cache_seconds: 0,
        negative_cache_seconds: 0,
        ..config(&keystone)
    };
    let auth = authenticator(no_cache).unwrap();
    assert!(send(&auth, "t").await.is_ok());
    keystone.remove_token("t");
    assert_eq!(send(&auth, "t").await.unwrap_err(), unauthorized());
    keystone.add_token("t", token(json!({})));
    assert!(send(&auth, "t").await.is_ok());
    assert_eq!(keystone.validations(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_with_one_token_share_a_validation() {
    let keystone = FakeKeystone::start().await;
    keystone.add_token("t", token(json!({})));
    keystone.hold_answers();
    let auth = Arc::new(authenticator(config(&keystone)).unwrap());
    let requests: Vec<_> = (0..100)
        .map(|_| {
            let auth = Arc::clone(&auth);
            tokio::spawn(async move { send(&auth, "t").await })
        })
        .collect();
    keystone.release_answers_after_a_request().await;
    for request in requests {
        assert!(request.await.unwrap().is_ok());
    }
    assert_eq!((keystone.logins(), keystone.validations()), (1, 1));
}

#[tokio::test]
async fn the_service_users_token_is_renewed_when_rejected_or_before_it_expires() {
    let keystone = FakeKeystone::start().await;
    for name in ["a", "b", "c"] {
        keystone.add_token(name, token(json!({})));
    }
    let auth = authenticator(config(&keystone)).unwrap();
    assert!(send(&auth, "a").await.is_ok());
    keystone.revoke_logins();
    assert!(send(&auth, "b").await.is_ok());
    // The validation of b was repeated with the token of the second login.
    assert_eq!((keystone.logins(), keystone.validations()), (2, 3));

    let short_lived = FakeKeystone::start().await;
    short_lived.set_login_lifetime(Duration::from_secs(60));
    short_lived.add_token("a", token(json!({})));
    short_lived.add_token("b", token(json!({})));
    let auth = authenticator(config(&short_lived)).unwrap();
    assert!(send(&auth, "a").await.is_ok());
    assert!(send(&auth, "b").await.is_ok());
    assert_eq!(short_lived.logins(), 2);
    // A failed renewal is harmless while the old token is valid.
    short_lived.add_token("c", token(json!({})));
    short_lived.set_password("changed");
    assert!(send(&auth, "c").await.is_ok());
}

#[tokio::test]
async fn errors_and_time_outs_of_keystone_make_it_unavailable() {
    let keystone = FakeKeystone::start().await;
    keystone.add_token("t", token(json!({})));
    let auth = authenticator(config(&keystone)).unwrap();
    for status in [500, 503, 403, 302, 400] {
        keystone.set_error_status(Some(status));
        assert!(is_unavailable(&send(&auth, "t").await), "{status}");
    }
    keystone.set_error_status(None);
    keystone.add_token("odd", json!({"token": {"no": "user"}}));
    assert!(is_unavailable(&send(&auth, "odd").await));
    assert!(send(&auth, "t").await.is_ok(), "it is back");

    // No server listens at this address.
    let unreachable = KeystoneConfig {
        auth_url: keystone::closed_url().await,
        ..config(&keystone)
    };
    let auth = authenticator(unreachable).unwrap();
    assert!(is_unavailable(&send(&auth, "t").await));

    keystone.hold_answers();
    let slow_config = KeystoneConfig {
        request_timeout_ms: 50,
        ..config(&keystone)
    };
    let auth = authenticator(slow_config).unwrap();
    assert!(is_unavailable(&send(&auth, "t").await));
}

#[tokio::test]
async fn a_rejected_service_user_logs_in_again_only_after_a_pause() {
    let keystone = FakeKeystone::start().await;
    keystone.set_password("other");
    let auth = authenticator(config(&keystone)).unwrap();
    for token in ["a", "b", "c"] {
        let answer = send(&auth, token).await;
        assert!(is_unavailable(&answer));
        assert!(!answer.unwrap_err().to_string().contains("sesame"));
    }
    assert_eq!(keystone.logins(), 1);
}

#[tokio::test]
async fn service_tokens_must_be_valid_and_allow_expired_user_tokens() {
    let keystone = FakeKeystone::start().await;
    let nova = json!({
        "user": {"id": "nova", "domain": {"id": "d1"}}, "roles": [{"id": "r", "name": "service"}],
        "project": {"id": "services", "domain": {"id": "d3"}}, "system": null,
    });
    keystone.add_token("nova", token(nova));
    keystone.add_token("user", token(json!({"project": {"id": "p1"}})));
    keystone.add_token(
        "late",
        token(json!({"expires_at": "2020-01-01T00:00:00.000000Z"})),
    );
    keystone.add_token("system", token(json!({"system": {"all": true}})));
    let auth = authenticator(config(&keystone)).unwrap();
    let send = async |auth: &Authenticator, user: &str, service: &str| {
        auth.authenticate(
            &[("X-Auth-Token", user), ("X-Service-Token", service)],
            None,
        )
        .await
    };
    let identity = send(&auth, "user", "nova").await.unwrap();
    assert_eq!(identity.project_id(), Some("p1"));
    let service = identity.parts().service.as_deref().unwrap();
    assert_eq!(service.user_id.as_deref(), Some("nova"));
    assert_eq!(service.project_id.as_deref(), Some("services"));
    assert_eq!(service.project_domain_id.as_deref(), Some("d3"));
    assert_eq!(service.roles, ["service"]);
    assert_eq!(keystone.last_query(), "nocatalog&allow_expired=1");

    assert!(send(&auth, "late", "nova").await.is_ok());
    let alone = auth.authenticate(&[("X-Auth-Token", "late")], None).await;
    assert_eq!(alone.unwrap_err(), unauthorized());
    assert_eq!(
        send(&auth, "system", "nova").await.unwrap().scope(),
        Scope::System
    );
    assert_eq!(
        send(&auth, "user", "unknown").await.unwrap_err(),
        unauthorized()
    );
    assert_eq!(
        send(&auth, "user", "user").await.unwrap_err(),
        unauthorized(),
        "no service role"
    );
    assert!(
        send(&auth, "user", "")
            .await
            .unwrap()
            .parts()
            .service
            .is_none()
    );

    let lax_config = KeystoneConfig {
        service_token_roles_required: false,
        ..config(&keystone)
    };
    let auth = authenticator(lax_config).unwrap();
    assert!(
        send(&auth, "user", "user")
            .await
            .unwrap()
            .parts()
            .service
            .is_some()
    );
    assert_eq!(
        send(&auth, "late", "user").await.unwrap_err(),
        unauthorized()
    );
}

#[tokio::test]
async fn the_service_user_logs_in_with_the_configured_scope_and_password() {
    let keystone = FakeKeystone::start().await;
    keystone.add_token("t", token(json!({})));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "sesame\n").unwrap();
    let from_file = KeystoneConfig {
        auth_url: format!("{}/v3/", keystone.url()),
        password: Secret::default(),
        password_file: Some(file.clone()),
        project_name: String::new(),
        user_domain_name: "Heat".to_owned(),
        ..config(&keystone)
    };
    assert!(send(&authenticator(from_file).unwrap(), "t").await.is_ok());
    let login = keystone.last_login();
    assert_eq!(login["auth"]["scope"], json!({"system": {"all": true}}));
    let user = json!({"name": "placement", "domain": {"name": "Heat"}, "password": "sesame"});
    assert_eq!(login["auth"]["identity"]["password"]["user"], user);

    assert!(
        send(&authenticator(config(&keystone)).unwrap(), "t")
            .await
            .is_ok()
    );
    let scope = json!({"project": {"name": "service", "domain": {"name": "Default"}}});
    assert_eq!(keystone.last_login()["auth"]["scope"], scope);
}

#[tokio::test]
async fn invalid_options_are_errors_that_show_no_secrets() {
    let keystone = FakeKeystone::start().await;
    let valid = || config(&keystone);
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let error = |change: &dyn Fn(&mut KeystoneConfig)| {
        let mut config = valid();
        change(&mut config);
        authenticator(config).unwrap_err().to_string()
    };
    assert_eq!(
        error(&|c| c.auth_url.clear()),
        "keystone needs the option auth_url"
    );
    assert_eq!(
        error(&|c| c.username.clear()),
        "keystone needs the option username"
    );
    assert_eq!(
        error(&|c| c.password = Secret::default()),
        "keystone needs the option password"
    );
    let no_scheme = error(&|c| c.auth_url = "keystone:5000".to_owned());
    assert!(no_scheme.starts_with("auth_url: must start"));
    assert!(error(&|c| c.auth_url = "http://".to_owned()).starts_with("auth_url: is not a URL"));
    let secret = error(&|c| c.auth_url = "http://me:hidden@keystone/".to_owned());
    assert!(
        secret.starts_with("auth_url: must not contain a password") && !secret.contains("hidden")
    );
    assert!(error(&|c| c.cafile = Some(empty.clone())).contains("holds no certificates"));
    assert!(
        error(&|c| c.password_file = Some(empty.clone())).starts_with("password_file: give either")
    );
    assert!(error(&|c| c.www_authenticate_uri = "a\r\nb".to_owned()).contains("is not a URL"));

    let debug = format!("{:?} {:?}", valid(), authenticator(valid()).unwrap());
    assert!(
        !debug.contains("sesame") && debug.contains("***"),
        "{debug}"
    );
    let parsed: Result<AuthConfig, _> =
        serde_json::from_value(json!({"strategy": "keystone", "keystone": {"authurl": "x"}}));
    assert!(
        parsed
            .unwrap_err()
            .to_string()
            .contains("unknown field `authurl`")
    );
}

/// An address: the attackers have 1 and the new user has 3. The verified user sends from 1 and 2.
fn address(last_octet: u8) -> Option<IpAddr> {
    Some([192, 0, 2, last_octet].into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invented_tokens_at_full_speed_delay_neither_verified_nor_new_ones() {
    let keystone = FakeKeystone::start().await;
    keystone.add_token("known", token(json!({})));
    keystone.add_token("new", token(json!({})));
    // Each query takes a while, and few are sent to Keystone at a time.
    keystone.set_answer_delay(Duration::from_millis(20));
    let config = KeystoneConfig {
        cache_seconds: 1,
        cache_entries: 64,
        requests_max: 8,
        ..config(&keystone)
    };
    let auth = Arc::new(authenticator(config).unwrap());
    send_from(&auth, "known", address(2)).await.unwrap();

    let is_over = Arc::new(AtomicBool::new(false));
    let attackers: Vec<_> = (0..64)
        .map(|number: u32| {
            let (auth, is_over) = (Arc::clone(&auth), Arc::clone(&is_over));
            tokio::spawn(async move {
                for guess in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let invented = format!("{number}-{guess}");
                    match send_from(&auth, &invented, address(1)).await {
                        Ok(_) => panic!("nobody has that token"),
                        Err(AuthError::TooMany { .. }) => {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                        Err(_) => {}
                    }
                }
            })
        })
        .collect();
    let mut longest = Duration::ZERO;
    let end = Instant::now() + Duration::from_millis(2500);
    while Instant::now() < end {
        // The cache entry expires, so the token is validated again meanwhile, with priority.
        for source in [address(2), address(1)] {
            let start = Instant::now();
            send_from(&auth, "known", source).await.unwrap();
            longest = longest.max(start.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(longest < Duration::from_millis(250), "{longest:?}");
    let start = Instant::now();
    send_from(&auth, "new", address(3)).await.unwrap();
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
    is_over.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.abort();
        let _ = attacker.await;
    }
    // Keystone answered a burst of 256 queries, and then ten a second.
    let validations = keystone.validations();
    assert!(validations < 450, "{validations}");
}

#[tokio::test]
async fn rejected_tokens_evict_no_valid_ones() {
    let keystone = FakeKeystone::start().await;
    keystone.add_token("good", token(json!({})));
    let config = KeystoneConfig {
        cache_entries: 8,
        negative_cache_entries: 8,
        failures_burst: 1000,
        ..config(&keystone)
    };
    let auth = authenticator(config).unwrap();
    assert!(send(&auth, "good").await.is_ok());
    for number in 0..100 {
        let invented = format!("made-up-{number}");
        assert_eq!(send(&auth, &invented).await.unwrap_err(), unauthorized());
    }
    // A caller with many valid tokens evicts none that is in use.
    for number in 0..100 {
        let other = format!("other-{number}");
        keystone.add_token(&other, token(json!({})));
        assert!(send(&auth, &other).await.is_ok());
        assert!(send(&auth, "good").await.is_ok());
    }
    assert_eq!(keystone.validations(), 1 + 100 + 100);
}
