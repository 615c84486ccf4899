//! Lists of servers: filtered, sorted and cut over all cells.
//!
//! Only sort keys are gathered of all servers; what a page shows is read for its servers alone,
//! a part at a time, so that control is never held up for long.

use placewright_auth::Rule;
use placewright_conductor::{Control, InstanceId};
use placewright_control::Views;
use serde_json::{Value, json};
use uuid::Uuid;

use super::filter::Filter;
use super::seen::Seen;
use super::show::{self, Sight};
use super::sort::Order;
use crate::call::{Call, Reply};
use crate::error::ApiResult;
use crate::page;

/// So many servers are read at a time.
const PART: usize = 250;

pub(crate) async fn brief(call: &Call<'_>) -> ApiResult<Reply> {
    let rules = (Rule::ServersIndex, Rule::ServersIndexAllProjects);
    listed(call, "/servers", rules, |call, seen, _| {
        show::brief(call, seen)
    })
    .await
}

pub(crate) async fn detail(call: &Call<'_>) -> ApiResult<Reply> {
    let rules = (Rule::ServersDetail, Rule::ServersDetailAllProjects);
    listed(call, "/servers/detail", rules, show::detailed).await
}

async fn listed(
    call: &Call<'_>,
    path: &str,
    (rule, rule_for_all): (Rule, Rule),
    show: fn(&Call<'_>, &Seen<'_>, Sight) -> Value,
) -> ApiResult<Reply> {
    call.allow(rule)?;
    let filter = Filter::of(call, rule_for_all)?;
    let order = Order::of(call)?;
    let limit = page::limit(call)?;
    let marker = match call.query.get("marker") {
        None => None,
        Some(text) => {
            let id = Uuid::try_parse(text).map_err(|_| page::no_marker(text))?;
            Some(InstanceId(id))
        }
    };
    let ids = call.read(|control, views| found(control, views, &filter, &order, marker, limit));
    let ids = ids.await?;
    let sight = Sight::of(call);
    let mut servers = Vec::with_capacity(ids.len());
    for part in ids.chunks(PART) {
        let part = call.read(|control, views| {
            let seen = part.iter().filter_map(|id| Seen::find(control, views, *id));
            seen.map(|seen| show(call, &seen, sight))
                .collect::<Vec<_>>()
        });
        servers.append(&mut part.await);
    }
    let last = ids.last().map(ToString::to_string).unwrap_or_default();
    let mut body = json!({"servers": servers});
    if let Some(links) = page::next(call, path, ids.len(), &last)? {
        body["servers_links"] = links;
    }
    Reply::json(200, &body)
}

/// The servers of the page.
fn found(
    control: &Control,
    views: &Views,
    filter: &Filter,
    order: &Order,
    marker: Option<InstanceId>,
    limit: usize,
) -> ApiResult<Vec<InstanceId>> {
    let marker = match marker {
        None => None,
        Some(id) => {
            let seen = Seen::find(control, views, id);
            let seen = seen.ok_or_else(|| page::no_marker(&id.to_string()))?;
            Some(order.key(&seen))
        }
    };
    if filter.is_empty() || limit == 0 {
        return Ok(Vec::new());
    }
    let mut keys = Vec::new();
    for (id, mapping) in control.conductor.mappings() {
        if !filter.takes_mapping(mapping) {
            continue;
        }
        let Some(seen) = Seen::of(control, views, *id, mapping) else {
            continue;
        };
        if !filter.takes(&seen) {
            continue;
        }
        let key = order.key(&seen);
        if marker
            .as_ref()
            .is_none_or(|marker| order.compare(marker, &key).is_lt())
        {
            keys.push(key);
        }
    }
    if keys.len() > limit {
        keys.select_nth_unstable_by(limit, |a, b| order.compare(a, b));
        keys.truncate(limit);
    }
    keys.sort_unstable_by(|a, b| order.compare(a, b));
    Ok(keys.into_iter().map(|key| key.id).collect())
}
