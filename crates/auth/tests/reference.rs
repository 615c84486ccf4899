//! Compares `noauth2` and the policies with the answers of the reference.
//!
//! `data/oslo_policy_cases.json` was printed by `oslo_policy_cases.py` from openstack-placement 16.0.0
//! and oslo.policy 6.0.1: who a caller is for random headers, and what random policy files let those
//! callers do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use placewright_auth::{
    AuthConfig, Authenticator, Identity, Policy, PolicyConfig, Rule, ServiceIdentity, Target,
};
use serde_json::{Value, json};

fn cases() -> Value {
    serde_json::from_str(include_str!("data/oslo_policy_cases.json")).unwrap()
}

async fn identify(headers: &Value) -> Option<Identity> {
    let headers: Vec<(&str, &str)> = headers
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap()))
        .collect();
    let noauth2 = Authenticator::new(&AuthConfig::default()).unwrap();
    noauth2
        .authenticate(headers.as_slice(), None)
        .await
        .ok()
        .map(|identity| (*identity).clone())
}

/// The identity in the form of the reference's context.
fn values(identity: &Identity) -> Value {
    let own = identity.parts();
    let service = own.service.as_deref().cloned().unwrap_or_default();
    let ServiceIdentity {
        user_id,
        user_domain_id,
        project_id,
        project_domain_id,
        roles,
    } = service;
    json!({
        "user_id": own.user_id, "user_domain_id": own.user_domain_id,
        "system_scope": own.system_scope, "domain_id": own.domain_id,
        "project_id": own.project_id, "project_domain_id": own.project_domain_id,
        "roles": own.roles, "is_admin_project": own.is_admin_project,
        "service_user_id": user_id, "service_user_domain_id": user_domain_id,
        "service_project_id": project_id, "service_project_domain_id": project_domain_id,
        "service_roles": roles,
    })
}

#[tokio::test]
async fn noauth2_makes_of_headers_what_the_reference_makes_of_them() {
    let mut known = 0;
    for case in cases()["identities"].as_array().unwrap() {
        let identity = identify(&case["headers"]).await;
        let ours = identity.map_or(Value::Null, |identity| values(&identity));
        assert_eq!(ours, case["values"], "{}", case["headers"]);
        known += usize::from(!ours.is_null());
    }
    assert!(known > 30);
}

#[tokio::test]
async fn policies_allow_what_the_reference_allows() {
    let cases = cases();
    let mut identities = Vec::new();
    for case in cases["identities"].as_array().unwrap() {
        identities.push(identify(&case["headers"]).await);
    }
    let rules: Vec<Rule> = cases["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| Rule::from_name(name.as_str().unwrap()).unwrap())
        .collect();
    let (mut compared, mut refused) = (0, 0);
    for case in cases["cases"].as_array().unwrap() {
        let config = PolicyConfig {
            enforce_new_defaults: case["enforce_new_defaults"].as_bool().unwrap(),
            ..PolicyConfig::default()
        };
        let text = case["rules"].to_string();
        let loaded = Policy::from_text(&config, Path::new("policy.yaml"), &text);
        // What the reference logs as a complaint, or fails at with a 500, is refused here.
        let fails = case["answers"].as_array().is_some_and(|answers| {
            answers
                .iter()
                .any(|line| line.as_str().is_some_and(|line| line.contains('x')))
        });
        let (policy, _) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                let complains = case["refused"].as_bool().unwrap();
                assert!(
                    complains || fails || unlike_the_reference(&text),
                    "{text}\n{error}"
                );
                refused += 1;
                continue;
            }
        };
        assert!(
            !case["refused"].as_bool().unwrap(),
            "should be refused: {text}"
        );
        for (identity, answers) in identities.iter().zip(case["answers"].as_array().unwrap()) {
            let Some(identity) = identity else { continue };
            let mut answers = answers.as_str().unwrap().chars();
            for &rule in &rules {
                let targets = [
                    Target::own(identity),
                    Target::project(Some("p1")),
                    Target::project(None),
                ];
                for target in &targets {
                    let theirs = answers.next().unwrap();
                    let ours = policy.authorize(rule, identity, target).is_ok();
                    if theirs != 'x' {
                        assert_eq!(
                            ours,
                            theirs == '1',
                            "{rule} {target:?} {identity:?}\n{text}"
                        );
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(
        compared > 100_000 && refused > 20,
        "{compared} compared, {refused} refused"
    );
}

/// Files that the reference accepts although they cannot work in every case.
fn unlike_the_reference(text: &str) -> bool {
    // It asks other servers, fills a whole target in for %s, and does not look for unknown rules
    // behind "not".
    ["http", "user_id:%s", "rule:nowhere"]
        .iter()
        .any(|odd| text.contains(odd))
}
