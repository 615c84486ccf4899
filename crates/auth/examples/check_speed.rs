//! Measures the time of an authentication (`noauth2`) and of an authorization.
//!
//! `cargo run --release -p placewright-auth --example check_speed`

use std::hint::black_box;
use std::time::Instant;

use placewright_auth::{
    AuthConfig, Authenticator, Identity, IdentityParts, Policy, PolicyConfig, Rule, Target,
};
use reqwest::header::{HeaderMap, HeaderValue};

const ROUNDS: u32 = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (policy, _warnings) = Policy::load(&PolicyConfig::default())?;
    let parts = |roles: &[&str]| IdentityParts {
        user_id: Some("nova".to_owned()),
        project_id: Some("6f5e7a2ce8cf4b1b8a4b0c9d53a1f0aa".to_owned()),
        roles: roles.iter().map(|&role| role.to_owned()).collect(),
        ..IdentityParts::default()
    };
    let service = Identity::new(parts(&["reader", "member", "service"]));
    let reader = Identity::new(parts(&["member", "reader"]));
    time("authorize a service to claim", || {
        policy
            .authorize_own(Rule::AllocationsUpdate, black_box(&service))
            .is_ok()
    });
    time("refuse a reader to claim", || {
        policy
            .authorize_own(Rule::AllocationsUpdate, black_box(&reader))
            .is_err()
    });
    time("authorize a reader to see its usages", || {
        let target = Target::project(reader.project_id());
        policy
            .authorize(Rule::TotalUsages, black_box(&reader), &target)
            .is_ok()
    });

    let noauth2 = Authenticator::new(&AuthConfig::default())?;
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("127.0.0.1:8778"));
    headers.insert("x-auth-token", HeaderValue::from_static("admin:admin"));
    headers.insert(
        "openstack-api-version",
        HeaderValue::from_static("placement 1.39"),
    );
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let is_identified = noauth2
                .authenticate(black_box(&headers), None)
                .await
                .is_ok();
            assert!(is_identified);
        }
        report("know a caller with noauth2", start);
    });
    Ok(())
}

fn time(operation: &str, mut run: impl FnMut() -> bool) {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        assert!(run());
    }
    report(operation, start);
}

fn report(operation: &str, start: Instant) {
    println!(
        "{:>8.1} ns  {operation}",
        start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
    );
}
