//! Roles, and which roles imply others.

use placewright_conductor::accounts::{AccountCommand, Role};
use placewright_conductor::super_conductor::{Change, State};
use placewright_control::accounts::new_id;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use crate::call::Call;
use crate::error;
use crate::fields::Fields;

/// A role as an object of the API.
pub(crate) fn to_json(call: &Call<'_>, id: &str, row: &Role) -> Value {
    json!({
        "id": id,
        "name": row.name,
        "description": row.description,
        "domain_id": null,
        "options": {},
        "links": {"self": call.link(&format!("/roles/{id}"))},
    })
}

/// The roles with these ids as objects of the API.
pub(crate) fn all_to_json<'i>(
    call: &Call<'_>,
    state: &State,
    ids: impl IntoIterator<Item = &'i String>,
) -> Vec<Value> {
    let roles = ids.into_iter();
    roles
        .filter_map(|id| Some(to_json(call, id, state.roles().get(id)?)))
        .collect()
}

/// `GET /v3/roles`.
pub(crate) async fn list(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin_or_service()?;
    // No role belongs to a domain.
    let is_wanted = matches!(
        call.query.get("domain_id"),
        None | Some("" | "None" | "null")
    );
    let items = call
        .read(|state| {
            let rows = state.roles().iter().filter(|_| is_wanted);
            let rows = rows.filter(|(_, row)| call.passes("name", &row.name));
            rows.map(|(id, row)| to_json(call, id, row)).collect()
        })
        .await;
    call.list("roles", "/roles", items)
}

/// `GET /v3/roles/{role_id}`.
pub(crate) async fn show(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin_or_service()?;
    let id = call.parameter("role_id");
    let item = call
        .read(|state| Some(to_json(call, id, state.roles().get(id)?)))
        .await;
    let item = item.ok_or_else(|| error::missing("role", id))?;
    Reply::value(200, &json!({"role": item}))
}

/// `POST /v3/roles`.
pub(crate) async fn create(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    let body = call.json()?;
    let mut row = Role::default();
    read_fields(&body, &mut row)?;
    if row.name.is_empty() {
        return Err(ApiError::field("role.name", "it is missing"));
    }
    let id = new_id();
    call.note(&id);
    let item = to_json(call, &id, &row);
    let row = Some(Box::new(row));
    call.execute(AccountCommand::SetRole { id, row }).await?;
    Reply::value(201, &json!({"role": item}))
}

/// `PATCH /v3/roles/{role_id}`.
pub(crate) async fn update(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    let id = call.parameter("role_id");
    let body = call.json()?;
    let item = call
        .change(|state| {
            change_role(state, id, |row| read_fields(&body, row))
                .map(|(expected, command, row)| (expected, command, to_json(call, id, &row)))
        })
        .await?;
    Reply::value(200, &json!({"role": item}))
}

/// Sets the fields of a role that the body of a request has.
fn read_fields(body: &Value, row: &mut Role) -> ApiResult<()> {
    let mut fields = Fields::new("", body)?;
    let mut role = fields.required_object("role")?;
    fields.finish()?;
    if let Some(name) = role.name("name")? {
        name.clone_into(&mut row.name);
    }
    if role.contains("description") {
        row.description = role.text("description")?.map(str::to_owned);
    }
    if role.text("domain_id")?.is_some() {
        return Err(role.error("domain_id", "roles belong to no domain"));
    }
    role.no_options("options")?;
    role.finish()
}

/// The command that changes a role, with the role that it expects and the one that it makes.
fn change_role(
    state: &State,
    id: &str,
    change: impl FnOnce(&mut Role) -> ApiResult<()>,
) -> ApiResult<(Change, AccountCommand, Role)> {
    let known = state.roles().get(id);
    let known = known.ok_or_else(|| error::missing("role", id))?;
    let mut row = known.clone();
    change(&mut row)?;
    let expected = Change::Role(id.to_owned(), Some(Box::new(known.clone())));
    let command = AccountCommand::SetRole {
        id: id.to_owned(),
        row: Some(Box::new(row.clone())),
    };
    Ok((expected, command, row))
}

/// `DELETE /v3/roles/{role_id}`.
pub(crate) async fn delete(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    let id = call.parameter("role_id").to_owned();
    call.execute(AccountCommand::SetRole { id, row: None })
        .await?;
    Ok(Reply::empty(204))
}

/// A role with the roles that it implies directly, as an object of the API.
fn inference(call: &Call<'_>, state: &State, id: &str, row: &Role) -> Value {
    json!({
        "prior_role": {"id": id, "name": row.name, "links": {"self": call.link(&format!("/roles/{id}"))}},
        "implies": all_to_json(call, state, &row.implies),
    })
}

/// `GET /v3/role_inferences`.
pub(crate) async fn inferences(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    let items = call
        .read(|state| {
            let rows = state.roles().iter();
            let rows = rows.filter(|(_, row)| !row.implies.is_empty());
            rows.map(|(id, row)| inference(call, state, id, row))
                .collect()
        })
        .await;
    call.list("role_inferences", "/role_inferences", items)
}

/// `GET /v3/roles/{role_id}/implies`.
pub(crate) async fn implied(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    let id = call.parameter("role_id");
    let item = call
        .read(|state| Some(inference(call, state, id, state.roles().get(id)?)))
        .await;
    let item = item.ok_or_else(|| error::missing("role", id))?;
    Reply::value(200, &json!({"role_inference": item}))
}

/// `GET /v3/roles/{role_id}/implies/{implied_id}`.
pub(crate) async fn show_implied(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    let (id, implied) = (call.parameter("role_id"), call.parameter("implied_id"));
    let is_implied = call
        .read(|state| {
            let row = state.roles().get(id);
            row.is_some_and(|row| row.implies.contains(implied))
        })
        .await;
    match is_implied {
        true => Ok(Reply::empty(204)),
        false => Err(error::missing("role", implied)),
    }
}

/// `PUT /v3/roles/{role_id}/implies/{implied_id}`.
pub(crate) async fn imply(call: &Call<'_>) -> ApiResult<Reply> {
    set_implied(call, true).await.map(|()| Reply::empty(201))
}

/// `DELETE /v3/roles/{role_id}/implies/{implied_id}`.
pub(crate) async fn stop_implying(call: &Call<'_>) -> ApiResult<Reply> {
    set_implied(call, false).await.map(|()| Reply::empty(204))
}

/// Makes a role imply another one, or not any more.
async fn set_implied(call: &Call<'_>, is_implied: bool) -> ApiResult<()> {
    call.require_admin()?;
    let (id, implied) = (call.parameter("role_id"), call.parameter("implied_id"));
    call.change(|state| {
        let changed = change_role(state, id, |row| {
            if is_implied {
                row.implies.insert(implied.to_owned());
            } else if !row.implies.remove(implied) {
                return Err(error::missing("role", implied));
            }
            Ok(())
        });
        changed.map(|(expected, command, _)| (expected, command, ()))
    })
    .await
}
