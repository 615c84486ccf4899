//! A token as the API shows it.

use placewright_conductor::accounts::DEFAULT_DOMAIN;
use placewright_conductor::super_conductor::State;
use placewright_control::accounts::{TokenDetails, TokenScope};
use serde_json::{Value, json};

use crate::sign_in_body::DEFAULT_DOMAIN_NAME;
use crate::time;

/// The only domain, as other objects contain it.
pub(crate) fn domain() -> Value {
    json!({"id": DEFAULT_DOMAIN, "name": DEFAULT_DOMAIN_NAME})
}

/// The body for a token. It has no catalog if `catalog` is `None`, or if the token has no scope.
pub(crate) fn token(details: &TokenDetails, state: &State, catalog: Option<Value>) -> Value {
    let content = &details.content;
    let methods: Vec<&str> = content.methods.iter().map(|method| method.name()).collect();
    let mut token = json!({
        "methods": methods,
        "user": {
            "id": content.user,
            "name": details.user_name,
            "domain": domain(),
            "password_expires_at": null,
        },
        "audit_ids": content.audit_ids(),
        "issued_at": time::format(content.issued_at),
        "expires_at": time::format(content.expires_at),
    });
    match &content.scope {
        TokenScope::None => {}
        TokenScope::Project(id) => {
            token["project"] = json!({
                "id": id,
                "name": details.project_name,
                "domain": domain(),
            });
            token["is_domain"] = json!(false);
        }
        TokenScope::Domain(_) => token["domain"] = domain(),
        TokenScope::System => token["system"] = json!({"all": true}),
    }
    if content.scope != TokenScope::None {
        let roles = details.roles.iter();
        let roles: Value = roles
            .map(|(id, name)| json!({"id": id, "name": name}))
            .collect();
        token["roles"] = roles;
        if let Some(catalog) = catalog {
            token["catalog"] = catalog;
        }
    }
    if let Some(id) = &content.application_credential {
        let row = state.application_credentials().get(id);
        token["application_credential"] = json!({
            "id": id,
            "name": row.map(|row| row.name.as_str()),
            "restricted": !details.manages_credentials,
        });
    }
    json!({"token": token})
}
