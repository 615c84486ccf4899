//! Servers of the compute API: created, listed, deleted.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use uuid::Uuid;

use super::api::{Api, CallError, Service};
use super::progress_table::TaskEnd;

/// The image that servers boot from: Placewright stores the reference and does not look it up.
const IMAGE: &str = "70ace000-0000-4000-8000-000000000001";
/// The number of servers on a page of a listing.
const PAGE: usize = 1000;

#[derive(Debug, Deserialize)]
struct Created {
    server: Named,
}

#[derive(Debug, Deserialize)]
struct Named {
    id: Uuid,
}

/// A server in a listing.
#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    pub(crate) id: Uuid,
    /// The status; only in detailed listings.
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
struct Page {
    servers: Vec<Listed>,
    #[serde(default)]
    servers_links: Vec<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Shown {
    server: Listed,
}

impl Listed {
    /// How the server ended, if it did.
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
    /// The message, and the first line of the details if that is text and adds something.
    fn reason(&self) -> String {
        let mut more = self.details.lines().map(str::trim);
        let more = more.find(|line| !line.is_empty());
        let message = self.message.trim();
        match more {
            // Placewright's explanation in JSON; the message summarises it.
            Some(more) if more.starts_with('{') => message.to_owned(),
            Some(more) if message.is_empty() => more.to_owned(),
            Some(more) if !message.contains(more) => format!("{message} {more}"),
            _ => message.to_owned(),
        }
    }
}

/// The conditions of a listing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted<'a> {
    /// Whether to list all fields, or only the names.
    pub(crate) detail: bool,
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
    let created: Created = api.post("/servers", body.to_string()).await?;
    Ok(created.server.id)
}

/// Reads a single server.
pub(crate) async fn show(api: &Api, server: Uuid) -> Result<Listed, CallError> {
    let path = format!("/servers/{server}");
    let shown = api.get::<Shown>(Service::Compute, &path).await?;
    Ok(shown.body.server)
}

/// Requests the deletion of a server.
pub(crate) async fn delete(api: &Api, server: Uuid) -> Result<(), CallError> {
    api.delete(&format!("/servers/{server}")).await
}

/// Lists servers page by page; returns the server's time when the listing began.
pub(crate) async fn list(
    api: &Api,
    wanted: Wanted<'_>,
    mut visit: impl FnMut(Listed),
) -> Result<Option<Timestamp>, CallError> {
    let mut base = if wanted.detail {
        "/servers/detail".to_owned()
    } else {
        "/servers".to_owned()
    };
    // Writing to a string cannot fail.
    let _ = write!(base, "?limit={PAGE}");
    if let Some(status) = wanted.status {
        let _ = write!(base, "&status={status}");
    }
    if let Some(since) = wanted.changed_since {
        let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
        let _ = write!(base, "&changes-since={since}");
    }
    let mut path = base.clone();
    let mut began = None;
    loop {
        let answer = api.get::<Page>(Service::Compute, &path).await?;
        began = began.or(answer.date);
        let page = answer.body;
        let last = page.servers.last().map(|server| server.id);
        page.servers.into_iter().for_each(&mut visit);
        match last {
            Some(last) if !page.servers_links.is_empty() => {
                path = format!("{base}&marker={last}");
            }
            _ => return Ok(began),
        }
    }
}
