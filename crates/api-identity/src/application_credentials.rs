//! Application credentials: with one of them a program signs in as its user, in one project, with some of the user's
//! roles.

use std::collections::BTreeSet;

use placewright_auth::Secret;
use placewright_conductor::accounts::{AccountCommand, ApplicationCredential};
use placewright_conductor::super_conductor::State;
use placewright_control::accounts::{TokenDetails, TokenScope, new_id, random_secret};
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use crate::call::Call;
use crate::fields::Fields;
use crate::{error, roles, time};

/// The most roles that a credential may name.
const ROLES_MAX: usize = 100;

/// A credential as an object of the API, without its secret.
fn to_json(call: &Call<'_>, state: &State, id: &str, row: &ApplicationCredential) -> Value {
    json!({
        "id": id,
        "name": row.name,
        "description": row.description,
        "user_id": row.user,
        "project_id": row.project,
        "roles": roles::all_to_json(call, state, &row.roles),
        "expires_at": row.expires_at.map(time::format),
        "unrestricted": row.unrestricted,
        "links": {
            "self": call.link(&format!("/users/{}/application_credentials/{id}", row.user)),
        },
    })
}

/// `GET /v3/users/{user_id}/application_credentials`.
pub(crate) async fn list(call: &Call<'_>) -> ApiResult<Reply> {
    let user = call.parameter("user_id");
    call.require_admin_or_self(user)?;
    let items = call
        .read(|state| {
            let rows = state.application_credentials_of(user);
            let rows = rows.filter(|(_, row)| call.passes("name", &row.name));
            rows.map(|(id, row)| to_json(call, state, id, row))
                .collect()
        })
        .await;
    let path = format!("/users/{user}/application_credentials");
    call.list("application_credentials", &path, items)
}

/// `GET /v3/users/{user_id}/application_credentials/{credential_id}`.
pub(crate) async fn show(call: &Call<'_>) -> ApiResult<Reply> {
    let user = call.parameter("user_id");
    call.require_admin_or_self(user)?;
    let id = call.parameter("credential_id");
    let item = call
        .read(|state| {
            let row = state.application_credentials().get(id)?;
            (row.user == user).then(|| to_json(call, state, id, row))
        })
        .await;
    let item = item.ok_or_else(|| error::missing("application credential", id))?;
    Reply::value(200, &json!({"application_credential": item}))
}

/// `POST /v3/users/{user_id}/application_credentials`.
pub(crate) async fn create(call: &Call<'_>) -> ApiResult<Reply> {
    let token = own_token(call)?;
    let TokenScope::Project(project) = &token.content.scope else {
        return Err(ApiError::bad_request(
            "Your token has to be one of the project that the credential is for.",
        ));
    };
    let body = call.json()?;
    let mut fields = Fields::new("", &body)?;
    let mut credential = fields.required_object("application_credential")?;
    fields.finish()?;
    let mut row = ApplicationCredential {
        user: token.content.user.clone(),
        name: credential.required_name("name")?.to_owned(),
        description: credential.text("description")?.map(str::to_owned),
        project: project.clone(),
        roles: wanted_roles(&mut credential, &token)?,
        unrestricted: credential.boolean("unrestricted")?.unwrap_or(false),
        created_at: call.now(),
        ..ApplicationCredential::default()
    };
    if let Some(text) = credential.text("expires_at")? {
        let end = time::parse(text).filter(|end| *end > call.now());
        let end = end.ok_or_else(|| credential.error("expires_at", "it must be a time to come"));
        row.expires_at = Some(end?);
    }
    if credential
        .list("access_rules", ROLES_MAX)?
        .is_some_and(|rules| !rules.is_empty())
    {
        return Err(credential.error("access_rules", "there are no access rules here"));
    }
    if credential
        .text("project_id")?
        .is_some_and(|id| id != project)
    {
        return Err(credential.error("project_id", "it must be the project of your token"));
    }
    let secret = match credential.password("secret")? {
        Some(secret) => Secret::new(secret),
        None => Secret::new(random_secret().map_err(ApiError::unavailable)?),
    };
    credential.finish()?;
    row.secret = call.hash(&secret).await?;
    let id = new_id();
    call.note(&id);
    let mut item = call.read(|state| to_json(call, state, &id, &row)).await;
    item["secret"] = json!(secret.expose());
    let row = Some(Box::new(row));
    call.execute(AccountCommand::SetApplicationCredential { id, row })
        .await?;
    Reply::value(201, &json!({"application_credential": item}))
}

/// The ids of the roles that the body names by id or name, all of which the token has to have. If the body has no list
/// of roles, they are those of the token.
fn wanted_roles(credential: &mut Fields<'_>, token: &TokenDetails) -> ApiResult<BTreeSet<String>> {
    let Some(wanted) = credential.list("roles", ROLES_MAX)? else {
        return Ok(token.roles.iter().map(|(id, _)| id.clone()).collect());
    };
    let mut ids = BTreeSet::new();
    for role in wanted {
        let given = |key: &str| role.get(key).and_then(Value::as_str);
        let found = token.roles.iter().find(|(id, name)| {
            given("id").map_or_else(|| given("name") == Some(name), |given| given == id)
        });
        let (id, _) = found.ok_or_else(|| credential.error("roles", "you lack one of them"))?;
        ids.insert(id.clone());
    }
    if ids.is_empty() {
        return Err(credential.error("roles", "there must be at least one"));
    }
    Ok(ids)
}

/// `DELETE /v3/users/{user_id}/application_credentials/{credential_id}`.
pub(crate) async fn delete(call: &Call<'_>) -> ApiResult<Reply> {
    let user = call.parameter("user_id");
    call.require_admin_or_self(user)?;
    if user == call.caller_id() {
        // A token of a restricted application credential may not manage credentials.
        own_token(call)?;
    }
    let id = call.parameter("credential_id");
    let is_of_user = call
        .read(|state| {
            let row = state.application_credentials().get(id);
            row.is_some_and(|row| row.user == user)
        })
        .await;
    if !is_of_user {
        return Err(error::missing("application credential", id));
    }
    let id = id.to_owned();
    call.execute(AccountCommand::SetApplicationCredential { id, row: None })
        .await?;
    Ok(Reply::empty(204))
}

/// `GET /v3/users/{user_id}/access_rules`: there are no access rules.
pub(crate) async fn access_rules(call: &Call<'_>) -> ApiResult<Reply> {
    let user = call.parameter("user_id");
    call.require_admin_or_self(user)?;
    call.list(
        "access_rules",
        &format!("/users/{user}/access_rules"),
        Vec::new(),
    )
}

/// The caller's token, if it is one of the user in the path and may manage credentials.
fn own_token(call: &Call<'_>) -> ApiResult<TokenDetails> {
    let token = call.caller_token()?;
    let is_own = token.content.user == call.parameter("user_id");
    if !is_own || !token.manages_credentials {
        return Err(error::forbidden());
    }
    Ok(token)
}
