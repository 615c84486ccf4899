//! Projects: listing, showing, creating, changing and deleting them.

use std::collections::BTreeSet;

use placewright_conductor::accounts::{AccountCommand, AssignmentScope, DEFAULT_DOMAIN, Project};
use placewright_conductor::super_conductor::{Change, State};
use placewright_control::accounts::new_id;
use placewright_http::{ApiResult, Reply};
use serde_json::{Value, json};

use crate::call::Call;
use crate::error;
use crate::fields::Fields;

/// The maximum number of tags of a project.
const TAGS_MAX: usize = 80;

/// A project as an object of the API.
fn to_json(call: &Call<'_>, id: &str, row: &Project) -> Value {
    json!({
        "id": id,
        "name": row.name,
        "description": row.description,
        "enabled": row.enabled,
        "domain_id": DEFAULT_DOMAIN,
        "parent_id": DEFAULT_DOMAIN,
        "is_domain": false,
        "tags": row.tags,
        "options": {},
        "links": {"self": call.link(&format!("/projects/{id}"))},
    })
}

/// The projects in which a user has a role and that pass the filters of the query.
pub(crate) fn of_user(call: &Call<'_>, state: &State, user: &str) -> Vec<Value> {
    let assignments = state.assignments_of(user);
    let projects = assignments.filter_map(|(scope, _)| {
        let AssignmentScope::Project(id) = scope else {
            return None;
        };
        let row = state.projects().get(id)?;
        let passes = call.passes("name", &row.name) && call.passes_enabled(row.enabled);
        passes.then(|| to_json(call, id, row))
    });
    projects.collect()
}

/// `GET /v3/projects`.
pub(crate) async fn list(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    // All projects are in the only domain and directly below it, and none of them is a domain.
    let may_pass = call.passes_domain()
        && call.passes("parent_id", DEFAULT_DOMAIN)
        && !matches!(call.query.get("is_domain"), Some("true" | "True" | "1"));
    let items = call
        .read(|state| {
            let rows = state.projects().iter().filter(|_| may_pass);
            let rows = rows.filter(|(_, row)| {
                call.passes("name", &row.name) && call.passes_enabled(row.enabled)
            });
            rows.map(|(id, row)| to_json(call, id, row)).collect()
        })
        .await;
    call.list("projects", "/projects", items)
}

/// `GET /v3/projects/{project_id}`. Whoever has a role in a project may see it.
pub(crate) async fn show(call: &Call<'_>) -> ApiResult<Reply> {
    let id = call.parameter("project_id");
    let scope = AssignmentScope::Project(id.to_owned());
    let (item, has_role) = call
        .read(|state| {
            let row = state.projects().get(id);
            let has_role = !state.roles_in(call.caller_id(), &scope).is_empty();
            (row.map(|row| to_json(call, id, row)), has_role)
        })
        .await;
    if !has_role {
        call.require_admin()?;
    }
    let item = item.ok_or_else(|| error::missing("project", id))?;
    Reply::value(200, &json!({"project": item}))
}

/// `POST /v3/projects`.
pub(crate) async fn create(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    let body = call.json()?;
    let mut fields = Fields::new("", &body)?;
    let mut project = fields.required_object("project")?;
    fields.finish()?;
    let mut row = Project {
        name: project.required_name("name")?.to_owned(),
        enabled: true,
        created_at: call.now(),
        ..Project::default()
    };
    read_fields(&mut project, &mut row)?;
    project.finish()?;
    let id = new_id();
    call.note(&id);
    let item = to_json(call, &id, &row);
    let row = Some(Box::new(row));
    call.execute(AccountCommand::SetProject { id, row }).await?;
    Reply::value(201, &json!({"project": item}))
}

/// `PATCH /v3/projects/{project_id}`.
pub(crate) async fn update(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    let id = call.parameter("project_id");
    let body = call.json()?;
    let item = call
        .change(|state| {
            let known = state.projects().get(id);
            let known = known.ok_or_else(|| error::missing("project", id))?;
            let mut row = known.clone();
            let mut fields = Fields::new("", &body)?;
            let mut project = fields.required_object("project")?;
            fields.finish()?;
            if let Some(name) = project.name("name")? {
                name.clone_into(&mut row.name);
            }
            read_fields(&mut project, &mut row)?;
            project.finish()?;
            let item = to_json(call, id, &row);
            let expected = Change::Project(id.to_owned(), Some(Box::new(known.clone())));
            let command = AccountCommand::SetProject {
                id: id.to_owned(),
                row: Some(Box::new(row)),
            };
            Ok((expected, command, item))
        })
        .await?;
    Reply::value(200, &json!({"project": item}))
}

/// Reads the fields that a project may be created with and changed to, without its name.
fn read_fields(project: &mut Fields<'_>, row: &mut Project) -> ApiResult<()> {
    if let Some(description) = project.text("description")? {
        description.clone_into(&mut row.description);
    }
    if let Some(enabled) = project.boolean("enabled")? {
        row.enabled = enabled;
    }
    if let Some(tags) = project.list("tags", TAGS_MAX)? {
        let tags = tags.iter().map(|tag| tag.as_str().map(str::to_owned));
        let tags: Option<BTreeSet<String>> = tags.collect();
        let tags = tags.filter(|tags| tags.iter().all(|tag| tag.len() <= 255));
        row.tags = tags.ok_or_else(|| project.error("tags", "each must be a text of 255 bytes"))?;
    }
    project.domain_id("domain_id")?;
    project.domain_id("parent_id")?;
    if project.boolean("is_domain")? == Some(true) {
        return Err(project.error("is_domain", "there is one domain only"));
    }
    project.no_options("options")
}

/// `DELETE /v3/projects/{project_id}`.
pub(crate) async fn delete(call: &Call<'_>) -> ApiResult<Reply> {
    call.require_admin()?;
    let id = call.parameter("project_id").to_owned();
    call.execute(AccountCommand::SetProject { id, row: None })
        .await?;
    Ok(Reply::empty(204))
}
