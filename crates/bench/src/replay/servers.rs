//! Creates, lists, shows and deletes servers of the compute API.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use uuid::Uuid;

use super::api::{Api, CallError, Service};
use super::task_progress::TaskEnd;

/// The image of servers: the one that a new installation of `placewright up` has. An installation without an image API
/// accepts any UUID.
const IMAGE: &str = "70ace000-0000-4000-8000-000000000001";
/// The number of servers on a page of a listing.
const PAGE_SERVERS: usize = 1000;

#[derive(Debug, Deserialize)]
struct CreateResponse {
    server: CreatedServer,
}

#[derive(Debug, Deserialize)]
struct CreatedServer {
    id: Uuid,
}

/// A server in a response.
#[derive(Debug, Deserialize)]
pub(crate) struct ServerView {
    pub(crate) id: Uuid,
    /// The status; empty in listings that are not detailed.
    #[serde(default)]
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) tenant_id: String,
    #[serde(default)]
    fault: Option<Fault>,
}

#[derive(Debug, Deserialize)]
struct Fault {
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: String,
}

#[derive(Debug, Deserialize)]
struct ServerPage {
    servers: Vec<ServerView>,
    #[serde(default)]
    servers_links: Vec<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct ServerResponse {
    server: ServerView,
}

impl ServerView {
    /// How the server's build ended; `None` if the build has not ended.
    pub(crate) fn end(&self) -> Option<TaskEnd> {
        match self.status.as_str() {
            "ACTIVE" => Some(TaskEnd::Active),
            "ERROR" => Some(match self.fault.as_ref().map(Fault::reason) {
                Some(reason) if !reason.is_empty() => TaskEnd::Refused(reason),
                _ => TaskEnd::Lost("ERROR without a reason".to_owned()),
            }),
            "DELETED" | "SOFT_DELETED" => Some(TaskEnd::Lost("somebody deleted it".to_owned())),
            _ => None,
        }
    }
}

impl Fault {
    /// The message, followed by the first line of the details if the message does not contain that line.
    fn reason(&self) -> String {
        let mut details = self.details.lines().map(str::trim);
        let first_detail = details.find(|line| !line.is_empty());
        let message = self.message.trim();
        match first_detail {
            // The details are Placewright's explanation in JSON, which the message summarises.
            Some(first_detail) if first_detail.starts_with('{') => message.to_owned(),
            Some(first_detail) if message.is_empty() => first_detail.to_owned(),
            Some(first_detail) if !message.contains(first_detail) => {
                format!("{message} {first_detail}")
            }
            _ => message.to_owned(),
        }
    }
}

/// The conditions of a listing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServerFilter<'a> {
    /// Whether to list all fields of servers, or only ids and names.
    pub(crate) is_detailed: bool,
    /// Only servers with this status.
    pub(crate) status: Option<&'a str>,
    /// Only servers that changed at this time or later.
    pub(crate) changed_since: Option<Timestamp>,
}

/// Requests a server, and returns its UUID once the request is accepted.
pub(crate) async fn create(api: &Api, name: &str, flavor: &str) -> Result<Uuid, CallError> {
    let body = json!({"server": {
        "name": name, "flavorRef": flavor, "imageRef": IMAGE, "networks": "none",
    }});
    let created: CreateResponse = api.post("/servers", body.to_string()).await?;
    Ok(created.server.id)
}

/// Reads a single server.
pub(crate) async fn show(api: &Api, server: Uuid) -> Result<ServerView, CallError> {
    let path = format!("/servers/{server}");
    let response = api.get::<ServerResponse>(Service::Compute, &path).await?;
    Ok(response.body.server)
}

/// Requests the deletion of a server.
pub(crate) async fn delete(api: &Api, server: Uuid) -> Result<(), CallError> {
    api.delete(&format!("/servers/{server}")).await
}

/// Lists servers page by page. Returns the time at the start of the listing by the API server's clock; `None` if the
/// responses have no date.
pub(crate) async fn list(
    api: &Api,
    filter: ServerFilter<'_>,
    mut visit: impl FnMut(ServerView),
) -> Result<Option<Timestamp>, CallError> {
    let mut base = if filter.is_detailed {
        "/servers/detail".to_owned()
    } else {
        "/servers".to_owned()
    };
    // Writing to a string cannot fail.
    let _ = write!(base, "?limit={PAGE_SERVERS}");
    if let Some(status) = filter.status {
        let _ = write!(base, "&status={status}");
    }
    if let Some(since) = filter.changed_since {
        let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
        let _ = write!(base, "&changes-since={since}");
    }
    let mut path = base.clone();
    let mut listing_start = None;
    loop {
        let page_response = api.get::<ServerPage>(Service::Compute, &path).await?;
        listing_start = listing_start.or(page_response.date);
        let page = page_response.body;
        let last_id = page.servers.last().map(|server| server.id);
        page.servers.into_iter().for_each(&mut visit);
        match last_id {
            Some(last_id) if !page.servers_links.is_empty() => {
                path = format!("{base}&marker={last_id}");
            }
            _ => return Ok(listing_start),
        }
    }
}
