//! The projects that may use a private flavor.

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use super::{change_flavor, find};
use crate::error;
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;

fn access_json(id: &str, projects: &[String]) -> Value {
    let pairs = projects
        .iter()
        .map(|project| json!({"flavor_id": id, "tenant_id": project}));
    json!({"flavor_access": pairs.collect::<Vec<_>>()})
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::FlavorAccessList)?;
    let id = request.parameter("flavor_id");
    let projects = request.read(|control, _| {
        let flavor = find(request, control, id)?;
        if flavor.is_public {
            let message = format!("Flavor {id} is public: there is no list of who may use it.");
            return Err(ApiError::new(404, message));
        }
        Ok(flavor.projects.clone())
    });
    Reply::value(200, &access_json(id, &projects.await?))
}

pub(crate) async fn action(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json()?;
    let mut body_parser = ObjectParser::of_body(&body)?;
    let adds_project = body_parser.contains("addTenantAccess");
    let (key, rule) = if adds_project {
        ("addTenantAccess", Rule::FlavorAccessAdd)
    } else {
        ("removeTenantAccess", Rule::FlavorAccessRemove)
    };
    request.note_action(key);
    let mut parser = body_parser.object(key)?;
    let project = parser.required_text("tenant", 1..=255)?;
    parser.finish()?;
    body_parser.finish()?;
    request.authorize(rule)?;
    let flavor = change_flavor(request, |flavor| {
        let has_access = flavor.projects.iter().any(|listed| listed == project);
        match (adds_project, has_access) {
            (true, _) if flavor.is_public && request.version.since(7) => {
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
            (false, true) => flavor.projects.retain(|listed| listed != project),
        }
        Ok(())
    });
    let id = request.parameter("flavor_id");
    Reply::value(200, &access_json(id, &flavor.await?.projects))
}
