//! Users: listing, showing, creating, changing and deleting them.

use placewright_auth::{PasswordAttempt, Secret};
use placewright_conductor::accounts::{AccountCommand, DEFAULT_DOMAIN, HiddenText, User};
use placewright_conductor::super_conductor::Change;
use placewright_control::accounts::new_id;
use placewright_http::{ApiResult, Reply};
use serde_json::{Value, json};

use crate::call::Call;
use crate::fields::Fields;
use crate::{error, projects};

/// A user as an object of the API.
fn to_json(call: &Call<'_>, id: &str, row: &User) -> Value {
    let mut user = json!({
        "id": id,
        "name": row.name,
        "enabled": row.enabled,
        "domain_id": DEFAULT_DOMAIN,
        "password_expires_at": null,
        "options": {},
        "links": {"self": call.link(&format!("/users/{id}"))},
    });
    for (key, value) in [
        ("description", &row.description),
        ("email", &row.email),
        ("default_project_id", &row.default_project),
    ] {
        if let Some(value) = value {
            user[key] = json!(value);
        }
    }
    user
}

/// `GET /v3/users`. A user who is not an administrator may find only itself, by name: clients that know only the name
/// look up the id.
pub(crate) async fn list(call: &Call<'_>) -> ApiResult<Reply> {
    if let Some(name) = call.query.get("name")
        && !call.is_admin()
    {
        let id = call.caller_id();
        let own = call
            .read(|state| {
                let row = state.users().get(id).filter(|row| row.name == name)?;
                Some(to_json(call, id, row))
            })
            .await;
        let own = own.ok_or_else(error::forbidden)?;
        return call.list("users", "/users", vec![own]);
    }
    call.require_admin()?;
    // All users are in the only domain.
    let may_pass = call.passes_domain();
    let items = call
        .read(|state| {
            let rows = state.users().iter().filter(|_| may_pass);
            let rows = rows.filter(|(_, row)| {
                call.passes("name", &row.name) && call.passes_enabled(row.enabled)
            });
            rows.map(|(id, row)| to_json(call, id, row)).collect()
        })
        .await;
    call.list("users", "/users", items)
}

/// `GET /v3/users/{user_id}`.
pub(crate) async fn show(call: &Call<'_>) -> ApiResult<Reply> {
    let id = call.parameter("user_id");
    call.require_admin_or_self(id)?;
    let item = call
        .read(|state| Some(to_json(call, id, state.users().get(id)?)))
        .await;
    let item = item.ok_or_else(|| error::missing("user", id))?;
    Reply::value(200, &json!({"user": item}))
}

/// `POST /v3/users`.
pub(crate) async fn create(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    let body = call.json()?;
    let mut fields = Fields::new("", &body)?;
    let mut user = fields.required_object("user")?;
    fields.finish()?;
    let mut row = User {
        name: user.required_name("name")?.to_owned(),
        enabled: true,
        created_at: call.now(),
        ..User::default()
    };
    read_fields(&mut user, &mut row)?;
    let password = user.password("password")?.map(Secret::new);
    user.finish()?;
    if let Some(password) = password {
        row.password = call.hash(&password).await?;
        row.password_set_at = call.now();
    }
    let id = new_id();
    call.note(&id);
    let item = to_json(call, &id, &row);
    let row = Some(Box::new(row));
    call.execute(AccountCommand::SetUser { id, row }).await?;
    Reply::value(201, &json!({"user": item}))
}

/// `PATCH /v3/users/{user_id}`.
pub(crate) async fn update(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    let id = call.parameter("user_id");
    let body = call.json()?;
    let mut fields = Fields::new("", &body)?;
    let mut user = fields.required_object("user")?;
    fields.finish()?;
    let password = user.password("password")?.map(Secret::new);
    let password = match password {
        Some(password) => Some(call.hash(&password).await?),
        None => None,
    };
    let item = call
        .change(|state| {
            let known = state.users().get(id);
            let known = known.ok_or_else(|| error::missing("user", id))?;
            let mut row = known.clone();
            let mut fields = Fields::new("", &body)?;
            let mut user = fields.required_object("user")?;
            if let Some(name) = user.name("name")? {
                name.clone_into(&mut row.name);
            }
            read_fields(&mut user, &mut row)?;
            // The password is hashed already. It is taken so that `finish` does not refuse the field as unknown.
            user.password("password")?;
            user.finish()?;
            if let Some(password) = &password {
                row.password = password.clone();
                row.password_set_at = call.now();
            }
            let item = to_json(call, id, &row);
            let expected = Change::User(id.to_owned(), Some(Box::new(known.clone())));
            let command = AccountCommand::SetUser {
                id: id.to_owned(),
                row: Some(Box::new(row)),
            };
            Ok((expected, command, item))
        })
        .await?;
    Reply::value(200, &json!({"user": item}))
}

/// Reads the fields that a user may be created with and changed to, without name and password.
fn read_fields(user: &mut Fields<'_>, row: &mut User) -> ApiResult<()> {
    if let Some(enabled) = user.boolean("enabled")? {
        row.enabled = enabled;
    }
    let texts = [
        ("description", &mut row.description),
        ("email", &mut row.email),
        ("default_project_id", &mut row.default_project),
    ];
    for (key, field) in texts {
        if user.contains(key) {
            *field = user.text(key)?.map(str::to_owned);
        }
    }
    user.domain_id("domain_id")?;
    user.no_options("options")
}

/// `DELETE /v3/users/{user_id}`.
pub(crate) async fn delete(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    let id = call.parameter("user_id").to_owned();
    call.execute(AccountCommand::SetUser { id, row: None })
        .await?;
    Ok(Reply::empty(204))
}

/// `POST /v3/users/{user_id}/password`: a user changes its own password, and sends the present password, too.
pub(crate) async fn change_password(call: &Call<'_>) -> ApiResult<Reply> {
    let id = call.parameter("user_id");
    call.require_admin_or_self(id)?;
    let body = call.json()?;
    let mut fields = Fields::new("", &body)?;
    let mut user = fields.required_object("user")?;
    fields.finish()?;
    let required = |user: &mut Fields<'_>, key| -> ApiResult<Secret> {
        let password = user.password(key)?.map(Secret::new);
        password.ok_or_else(|| user.error(key, "it is missing"))
    };
    let new = required(&mut user, "password")?;
    let present = required(&mut user, "original_password")?;
    user.finish()?;
    let hash = call
        .read(|state| Some(state.users().get(id)?.password.0.clone()))
        .await;
    let attempt = PasswordAttempt {
        address: call.head.client_address,
        name: id,
        password: &present,
        hash: hash.as_deref().filter(|hash| !hash.is_empty()),
    };
    let verified = call.api_state.passwords.verify(attempt).await;
    if !verified.map_err(error::from_auth)? {
        return Err(error::unauthorized());
    }
    let password = call.hash(&new).await?;
    call.change(|state| {
        let known = state.users().get(id).ok_or_else(error::unauthorized)?;
        // The password that was verified must still be the user's: an administrator may have replaced it meanwhile.
        if Some(&known.password.0) != hash.as_ref() {
            return Err(error::unauthorized());
        }
        let row = User {
            password: password.clone(),
            password_set_at: call.now(),
            ..known.clone()
        };
        let expected = Change::User(id.to_owned(), Some(Box::new(known.clone())));
        let command = AccountCommand::SetUser {
            id: id.to_owned(),
            row: Some(Box::new(row)),
        };
        Ok((expected, command, ()))
    })
    .await?;
    Ok(Reply::empty(204))
}

/// `GET /v3/users/{user_id}/projects`.
pub(crate) async fn projects(call: &Call<'_>) -> ApiResult<Reply> {
    let id = call.parameter("user_id");
    call.require_admin_or_self(id)?;
    let items = call
        .read(|state| {
            let known = state.users().contains_key(id);
            known.then(|| projects::of_user(call, state, id))
        })
        .await;
    let items = items.ok_or_else(|| error::missing("user", id))?;
    call.list("projects", &format!("/users/{id}/projects"), items)
}

/// `GET /v3/users/{user_id}/groups`: there are no groups.
pub(crate) async fn groups(call: &Call<'_>) -> ApiResult<Reply> {
    let id = call.parameter("user_id");
    call.require_admin_or_self(id)?;
    call.list("groups", &format!("/users/{id}/groups"), Vec::new())
}

/// `GET /v3/groups`: there are no groups.
pub(crate) async fn all_groups(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    call.list("groups", "/groups", Vec::new())
}

impl Call<'_> {
    /// The hash of a new password or secret.
    pub(crate) async fn hash(&self, password: &Secret) -> ApiResult<HiddenText> {
        let hashed = self.api_state.passwords.hash(password).await;
        hashed.map(HiddenText).map_err(error::from_auth)
    }
}
