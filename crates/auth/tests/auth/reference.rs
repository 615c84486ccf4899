//! Compares `noauth2` and the policies with the answers of the reference.
//!
//! `oslo_policy_cases.py` generated `data/oslo_policy_cases.json` with openstack-placement 16.0.0 and
//! oslo.policy 6.0.1: the identities for random headers, and what random policy files allow them.

use std::path::Path;

use placewright_auth::{
    AuthConfig, Authenticator, Identity, Policy, PolicyConfig, Rule, ServiceIdentity, Target,
};
use serde_json::{Value, json};

fn cases() -> Value {
    serde_json::from_str(include_str!("../data/oslo_policy_cases.json")).unwrap()
}

async fn authenticate(headers: &Value) -> Option<Identity> {
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
fn context_values(identity: &Identity) -> Value {
    let parts = identity.parts();
    let service = parts.service.as_deref().cloned().unwrap_or_default();
    let ServiceIdentity {
        user_id,
        user_domain_id,
        project_id,
        project_domain_id,
        roles,
    } = service;
    json!({
        "user_id": parts.user_id, "user_domain_id": parts.user_domain_id,
        "system_scope": parts.system_scope, "domain_id": parts.domain_id,
        "project_id": parts.project_id, "project_domain_id": parts.project_domain_id,
        "roles": parts.roles, "is_admin_project": parts.is_admin_project,
        "service_user_id": user_id, "service_user_domain_id": user_domain_id,
        "service_project_id": project_id, "service_project_domain_id": project_domain_id,
        "service_roles": roles,
    })
}

#[tokio::test]
async fn noauth2_identifies_callers_as_the_reference() {
    let mut identified = 0;
    for case in cases()["identities"].as_array().unwrap() {
        let identity = authenticate(&case["headers"]).await;
        let own_result = identity.map_or(Value::Null, |identity| context_values(&identity));
        assert_eq!(own_result, case["values"], "{}", case["headers"]);
        identified += usize::from(!own_result.is_null());
    }
    assert!(identified > 30);
}

/// The answers of a case have a line for each identity, with a character for each rule and target: `1` if the reference
/// allows it, `0` if it refuses it, `x` if it fails.
#[tokio::test]
async fn policies_allow_what_the_reference_allows() {
    let cases = cases();
    let mut identities = Vec::new();
    for case in cases["identities"].as_array().unwrap() {
        identities.push(authenticate(&case["headers"]).await);
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
        // Files for which the reference logs a complaint, or fails ('x'), are refused here.
        let fails_in_reference = case["answers"].as_array().is_some_and(|answers| {
            answers
                .iter()
                .any(|line| line.as_str().is_some_and(|line| line.contains('x')))
        });
        let (policy, _) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                let is_logged_by_reference = case["refused"].as_bool().unwrap();
                assert!(
                    is_logged_by_reference || fails_in_reference || is_unsupported(&text),
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
                    let reference_result = answers.next().unwrap();
                    let own_result = policy.authorize(rule, identity, target).is_ok();
                    if reference_result != 'x' {
                        assert_eq!(
                            own_result,
                            reference_result == '1',
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

/// Whether a policy file has something that the reference accepts and that is refused here.
fn is_unsupported(text: &str) -> bool {
    // The reference queries other servers, replaces %s by the whole target, and ignores unknown rules
    // after "not".
    ["http", "user_id:%s", "rule:nowhere"]
        .iter()
        .any(|unsupported| text.contains(unsupported))
}
