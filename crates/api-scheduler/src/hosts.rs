//! `/v1/hosts`: the scheduler's view of hosts, and the updates that hosts send.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use placewright_control::now;
use placewright_http::{Query, Reply, Syntax};
use placewright_placement::{ProviderId, State, Timestamp};
use placewright_scheduler::host_state::{HostState, Load, Metric, NumberedUpdate, Receipt};
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::platform::Platform;
use serde::Serialize;
use uuid::Uuid;

use crate::error_response::{ErrorResponse, HandlerResult, code};
use crate::shared::{RoutedRequest, json_reply};

/// The default number of hosts on a page.
const PAGE_DEFAULT: usize = 1_000;
/// The maximum number of hosts on a page.
const PAGE_MAX: usize = 10_000;

/// The body of the response to `GET /v1/hosts`.
#[derive(Serialize)]
struct HostsBody<'a> {
    hosts: Vec<HostBody<'a>>,
    /// The value of `after` for the next page; none on the last page.
    next: Option<Uuid>,
}

/// The representation of a host in a listing.
#[derive(Serialize)]
struct HostBody<'a> {
    uuid: Uuid,
    cell: Uuid,
    host: &'a str,
    node: &'a str,
    zone: Option<&'a str>,
    /// Whether placement has a root provider with this UUID; without one the host is never
    /// selected.
    has_provider: bool,
    up: bool,
    enabled: bool,
    disabled_reason: Option<&'a str>,
    forced_down: bool,
    /// How long ago the last update was received, in milliseconds.
    age_ms: i64,
    load: Load,
    instances: usize,
    /// How many of the instances are pending: the host has not reported them yet.
    instances_expected: u32,
}

/// The representation of a single host, with more details.
#[derive(Serialize)]
struct HostDetailsBody<'a> {
    #[serde(flatten)]
    host: HostBody<'a>,
    incarnation: u64,
    sequence: u64,
    /// The version of the host's compute service; 0 if the service said none.
    service_version: u32,
    platform: &'a Platform,
    stats: &'a BTreeMap<String, String>,
    metrics: &'a [Metric],
    aggregates: Vec<&'a str>,
    /// The capacity and usage of the host's root provider, by resource class.
    resources: BTreeMap<&'a str, ResourceBody>,
    instance_uuids: Vec<Uuid>,
}

/// The capacity and usage of a resource class.
#[derive(Serialize)]
struct ResourceBody {
    capacity: i64,
    used: i64,
}

/// The body of the response to an update of a host's state.
#[derive(Serialize)]
struct ReceiptBody {
    receipt: &'static str,
}

/// The representation of a host in a listing. `slot` is none if placement has no root provider for the host.
fn host_body<'a>(
    hosts: &'a HostTable,
    slot: Option<u32>,
    host_state: &'a HostState,
    now: Timestamp,
) -> HostBody<'a> {
    // Timestamps are in microseconds.
    let age_ms = (now.0 - host_state.reported_at.0).max(0) / 1_000;
    HostBody {
        uuid: host_state.uuid,
        cell: host_state.names.cell,
        host: &host_state.names.service_host,
        node: &host_state.names.node,
        zone: slot.and_then(|slot| hosts.aggregates().zone(slot)),
        has_provider: slot.is_some(),
        up: slot.is_some_and(|slot| hosts.up().contains(slot)),
        enabled: host_state.disabled.is_none(),
        disabled_reason: host_state.disabled.as_deref(),
        forced_down: host_state.is_forced_down,
        age_ms,
        load: host_state.load,
        instances: host_state.instances.len(),
        instances_expected: host_state.pending_count(),
    }
}

/// `GET /v1/hosts?limit=&after=`: a page of the hosts that have a provider, in a stable order.
pub(crate) fn list(request: &RoutedRequest<'_>) -> HandlerResult<Reply> {
    let query = Query::parse(request.query, Syntax::default())
        .map_err(|error| ErrorResponse::field("query", error.to_string()))?;
    if let Some((key, _)) = query
        .iter()
        .find(|(key, _)| !["limit", "after"].contains(key))
    {
        let detail = format!("{key}: there are only limit and after");
        return Err(ErrorResponse::field(key, detail));
    }
    let limit = match query.get("limit").map(str::parse) {
        None => PAGE_DEFAULT,
        Some(Ok(limit)) if (1..=PAGE_MAX).contains(&limit) => limit,
        Some(_) => {
            let detail = format!("limit: a whole number from 1 to {PAGE_MAX}");
            return Err(ErrorResponse::field("limit", detail));
        }
    };
    let after: Option<Uuid> = query
        .get("after")
        .map(str::parse)
        .transpose()
        .map_err(|_| ErrorResponse::field("after", "after: the UUID of a host"))?;
    // `with_scheduler` makes the scheduler observe the latest changes. Writing the page needs only the host table, so
    // the state of placement is not locked meanwhile.
    request.api_state.with_scheduler(|_, _| ());
    request
        .api_state
        .scheduler
        .read_hosts(|hosts| page(hosts, after, limit))
}

/// The page of at most `limit` hosts after the host `after`; the first page without it.
fn page(hosts: &HostTable, after: Option<Uuid>, limit: usize) -> HandlerResult<Reply> {
    let start = match after.map(|uuid| hosts.by_uuid(uuid)) {
        None => 0,
        Some(Some((slot, _))) => slot + 1,
        Some(None) => {
            return Err(ErrorResponse::field(
                "after",
                "after: there is no such host",
            ));
        }
    };
    let mut slots = hosts.slots().iter().filter(|slot| *slot >= start);
    let page: Vec<HostBody<'_>> = slots
        .by_ref()
        .take(limit)
        .filter_map(|slot| Some(host_body(hosts, Some(slot), hosts.get(slot)?, now())))
        .collect();
    let next = slots.next().and(page.last()).map(|last| last.uuid);
    json_reply(200, &HostsBody { hosts: page, next })
}

/// `GET /v1/hosts/{uuid}`: a host with its details.
pub(crate) fn show(request: &RoutedRequest<'_>, uuid: Uuid) -> HandlerResult<Reply> {
    request.api_state.with_scheduler(|scheduler, state| {
        let hosts = scheduler.hosts();
        let slot = hosts.by_uuid(uuid).map(|(slot, _)| slot);
        let host = hosts.state(uuid).ok_or_else(|| host_not_found(uuid))?;
        let provider = slot.and_then(|slot| state.provider(ProviderId(slot)));
        let aggregates = provider.map_or(&[][..], |provider| &provider.aggregates);
        let (incarnation, sequence) = host.position;
        let body = HostDetailsBody {
            host: host_body(hosts, slot, host, now()),
            incarnation,
            sequence,
            service_version: host.service_version,
            platform: &host.platform,
            stats: &host.stats,
            metrics: &host.metrics,
            aggregates: aggregates
                .iter()
                .map(|id| state.aggregate_uuid(*id))
                .collect(),
            resources: resources(state, slot),
            instance_uuids: host.instances.keys().copied().collect(),
        };
        json_reply(200, &body)
    })
}

/// The capacity and usage of the provider in a slot, by the names of the resource classes.
fn resources(state: &State, slot: Option<u32>) -> BTreeMap<&str, ResourceBody> {
    let provider = slot.and_then(|slot| state.provider(ProviderId(slot)));
    let inventories = provider
        .into_iter()
        .flat_map(|provider| &provider.inventories);
    let resources = inventories.map(|row| {
        let resource = ResourceBody {
            capacity: row.capacity,
            used: row.used,
        };
        (state.class_name(row.class), resource)
    });
    resources.collect()
}

fn host_not_found(uuid: Uuid) -> ErrorResponse {
    ErrorResponse::not_found(format!("The scheduler has not heard of host {uuid}."))
}

/// `POST /v1/hosts/{uuid}/state`: applies the next update of a host's agent, at all replicas.
pub(crate) async fn update(request: &RoutedRequest<'_>, uuid: Uuid) -> HandlerResult<Reply> {
    let update: NumberedUpdate = request.parse_body()?;
    (update.check_limits(SystemTime::now()))
        .map_err(|error| ErrorResponse::field(error.field(), error.to_string()))?;
    let apply = |hosts: &mut HostTable| hosts.apply_numbered(uuid, now(), &update);
    let mut receipt = request.api_state.change_hosts(apply);
    if receipt != Receipt::Gap
        && let Some(others) = request.api_state.other_replicas.get()
    {
        // Other replicas get the update only if this one did not find a gap. After a gap, the agent sends the complete
        // state, and that one goes to all.
        let receipts = others.forward_update(uuid, Arc::new(update)).await;
        // The worst receipt of all replicas is the answer. If the update was stale at one of them, there is a newer
        // one, perhaps of another agent. If one of them lacks an earlier update, the agent has to send the complete
        // state.
        for found in [Receipt::Stale, Receipt::Gap] {
            if receipts.contains(&found) {
                receipt = found;
            }
        }
    }
    let receipt = match receipt {
        Receipt::Applied => "applied",
        Receipt::Stale => "stale",
        Receipt::Gap => {
            let detail = "An update before this one is missing: send {\"full\": …}.";
            return Err(ErrorResponse::new(409, code::GAP, detail));
        }
    };
    json_reply(200, &ReceiptBody { receipt })
}
