//! The projects that may use a private flavor.

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use super::{find, replace};
use crate::error;
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;

fn shown(id: &str, projects: &[String]) -> Value {
    let pairs = projects
        .iter()
        .map(|project| json!({"flavor_id": id, "tenant_id": project}));
    json!({"flavor_access": pairs.collect::<Vec<_>>()})
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::FlavorAccessList)?;
    let id = call.parameter("flavor_id");
    let projects = call.read(|control, _| {
        let flavor = find(call, control, id)?;
        if flavor.is_public {
            let message = format!("Flavor {id} is public: there is no list of who may use it.");
            return Err(ApiError::new(404, message));
        }
        Ok(flavor.projects.clone())
    });
    Reply::value(200, &shown(id, &projects.await?))
}

pub(crate) async fn action(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = call.json()?;
    let mut fields = ObjectParser::of_body(&body)?;
    let is_added = fields.has("addTenantAccess");
    let (key, rule) = if is_added {
        ("addTenantAccess", Rule::FlavorAccessAdd)
    } else {
        ("removeTenantAccess", Rule::FlavorAccessRemove)
    };
    call.note_action(key);
    let mut parsed = fields.object(key)?;
    let project = parsed.needed_text("tenant", 1..=255)?;
    parsed.finish()?;
    fields.finish()?;
    call.allow(rule)?;
    let after = replace(call, |flavor| {
        let has = flavor.projects.iter().any(|known| known == project);
        match (is_added, has) {
            (true, _) if flavor.is_public && call.version.since(7) => {
                return Err(ApiError::conflict(
                    "The flavor is public: everybody may use it.",
                ));
            }
            (true, true) => {
                let message = format!("Project {project} may use the flavor already.");
                return Err(ApiError::conflict(message));
            }
            (false, false) => return Err(error::missing("access of project", project)),
            (true, false) => flavor.projects.push(project.to_owned()),
            (false, true) => flavor.projects.retain(|known| known != project),
        }
        Ok(())
    });
    let id = call.parameter("flavor_id");
    Reply::value(200, &shown(id, &after.await?.projects))
}
