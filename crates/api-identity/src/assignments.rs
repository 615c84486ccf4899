//! The assignments of roles to users, each in a scope.

use std::collections::BTreeSet;

use placewright_conductor::accounts::{AccountCommand, AssignmentScope, DEFAULT_DOMAIN};
use placewright_conductor::super_conductor::State;
use placewright_http::{ApiResult, Reply};
use serde_json::{Value, json};

use crate::call::Call;
use crate::{error, roles, token_json};

/// The scope that a path names.
fn scope_of(call: &Call<'_>) -> AssignmentScope {
    match (call.parameter("project_id"), call.parameter("domain_id")) {
        ("", "") => AssignmentScope::System,
        ("", domain) => AssignmentScope::Domain(domain.to_owned()),
        (project, _) => AssignmentScope::Project(project.to_owned()),
    }
}

/// `GET /v3/{projects,domains,system}/…/users/{user_id}/roles`.
pub(crate) async fn roles(call: &Call<'_>) -> ApiResult<Reply> {
    let user = call.parameter("user_id");
    call.require_admin_or_self(user)?;
    let key = (user.to_owned(), scope_of(call));
    let items = call
        .read(|state| {
            let row = state.assignments().get(&key);
            roles::all_to_json(call, state, row.iter().flat_map(|row| &row.roles))
        })
        .await;
    let path = format!("{}/users/{user}/roles", path_of(&key.1));
    call.list("roles", &path, items)
}

fn path_of(scope: &AssignmentScope) -> String {
    match scope {
        AssignmentScope::Project(id) => format!("/projects/{id}"),
        AssignmentScope::Domain(id) => format!("/domains/{id}"),
        AssignmentScope::System => "/system".to_owned(),
    }
}

/// `GET` and `HEAD` of a role of a user.
pub(crate) async fn check(call: &Call<'_>) -> ApiResult<Reply> {
    let user = call.parameter("user_id");
    call.require_admin_or_self(user)?;
    let role = call.parameter("role_id");
    let key = (user.to_owned(), scope_of(call));
    let has_role = call
        .read(|state| {
            let row = state.assignments().get(&key);
            row.is_some_and(|row| row.roles.contains(role))
        })
        .await;
    match has_role {
        true => Ok(Reply::empty(204)),
        false => Err(error::missing("role", role)),
    }
}

/// `PUT` of a role of a user.
pub(crate) async fn grant(call: &Call<'_>) -> ApiResult<Reply> {
    assign(call, true).await
}

/// `DELETE` of a role of a user.
pub(crate) async fn revoke(call: &Call<'_>) -> ApiResult<Reply> {
    assign(call, false).await
}

async fn assign(call: &Call<'_>, is_granted: bool) -> ApiResult<Reply> {
    call.require_admin()?;
    call.execute(AccountCommand::Assign {
        user: call.parameter("user_id").to_owned(),
        scope: scope_of(call),
        role: call.parameter("role_id").to_owned(),
        is_granted,
    })
    .await?;
    Ok(Reply::empty(204))
}

/// `GET /v3/role_assignments`.
pub(crate) async fn list(call: &Call<'_>) -> ApiResult<Reply> {
    match call.query.get("user.id") {
        Some(user) => call.require_admin_or_self(user)?,
        None => call.require_admin()?,
    }
    let items = call.read(|state| assignments(call, state)).await;
    call.list("role_assignments", "/role_assignments", items)
}

/// Whether a flag of the query is set. A flag without a value is set, too.
fn is_set(call: &Call<'_>, key: &str) -> bool {
    let value = call.query.get(key).map(str::to_ascii_lowercase);
    value.is_some_and(|value| !matches!(value.as_str(), "0" | "false" | "no"))
}

fn assignments(call: &Call<'_>, state: &State) -> Vec<Value> {
    let mut items = Vec::new();
    // There are no groups, so nothing is assigned to one.
    if call.query.get("group.id").is_some() {
        return items;
    }
    // With `effective`, the list also has the roles that assigned roles imply.
    let is_effective = is_set(call, "effective");
    for ((user, scope), row) in state.assignments() {
        if !call.passes("user.id", user) || !passes_scope(call, scope) {
            continue;
        }
        let roles: BTreeSet<String> = match is_effective {
            true => state.with_implied(&row.roles),
            false => row.roles.clone(),
        };
        let roles = roles.iter().filter(|role| call.passes("role.id", role));
        items.extend(roles.map(|role| to_json(call, state, user, scope, role)));
    }
    items
}

fn passes_scope(call: &Call<'_>, scope: &AssignmentScope) -> bool {
    let filters = ["scope.project.id", "scope.domain.id", "scope.system"];
    if filters.iter().all(|key| call.query.get(key).is_none()) {
        return true;
    }
    match scope {
        AssignmentScope::Project(id) => call.query.get("scope.project.id") == Some(id),
        AssignmentScope::Domain(id) => call.query.get("scope.domain.id") == Some(id),
        AssignmentScope::System => call.query.get("scope.system").is_some(),
    }
}

fn to_json(
    call: &Call<'_>,
    state: &State,
    user: &str,
    scope: &AssignmentScope,
    role: &str,
) -> Value {
    let link = call.link(&format!("{}/users/{user}/roles/{role}", path_of(scope)));
    let mut item = json!({
        "role": {"id": role},
        "user": {"id": user},
        "scope": match scope {
            AssignmentScope::Project(id) => json!({"project": {"id": id}}),
            AssignmentScope::Domain(id) => json!({"domain": {"id": id}}),
            AssignmentScope::System => json!({"system": {"all": true}}),
        },
        "links": {"assignment": link},
    });
    if is_set(call, "include_names") {
        item["role"]["name"] = json!(state.roles().get(role).map(|row| &row.name));
        item["user"]["name"] = json!(state.users().get(user).map(|row| &row.name));
        item["user"]["domain"] = token_json::domain();
        match scope {
            AssignmentScope::Project(id) => {
                let project = &mut item["scope"]["project"];
                project["name"] = json!(state.projects().get(id).map(|row| &row.name));
                project["domain"] = token_json::domain();
            }
            AssignmentScope::Domain(id) if id == DEFAULT_DOMAIN => {
                item["scope"]["domain"] = token_json::domain();
            }
            AssignmentScope::Domain(_) | AssignmentScope::System => {}
        }
    }
    item
}
