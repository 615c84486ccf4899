//! Lists of servers: filtered, sorted and cut over all cells.
//!
//! A list in the order of age, which is the order of most, goes along an index: a page costs the page,
//! and what a filter passes over. For other orders the sort keys of the project's servers are
//! gathered. What a page shows is read for its servers alone. All of it a part at a time, so that
//! control is never held up for long.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::ListKey;
use placewright_conductor::{Control, InstanceId};
use placewright_control::Views;
use serde_json::{Value, json};
use uuid::Uuid;

use super::filter::Filter;
use super::seen::Seen;
use super::show::{self, Sight};
use super::sort::{Key, Order};
use crate::call::{Call, Reply};
use crate::error::ApiResult;
use crate::page;

/// So many servers are read at a time.
const PART: usize = 250;
/// So many are looked at at a time.
const LOOKED_AT: usize = 2000;

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
    let ids = found(call, &filter, &order, marker, limit).await?;
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
async fn found(
    call: &Call<'_>,
    filter: &Filter,
    order: &Order,
    marker: Option<InstanceId>,
    limit: usize,
) -> ApiResult<Vec<InstanceId>> {
    let marker = match marker {
        None => None,
        Some(id) => {
            let key = call.try_read(|control, views| {
                let seen = Seen::find(control, views, id);
                let seen = seen.ok_or_else(|| page::no_marker(&id.to_string()))?;
                Ok((order.key(&seen), (seen.mapping.created_at, id)))
            });
            Some(key.await?)
        }
    };
    if filter.is_empty() || limit == 0 {
        return Ok(Vec::new());
    }
    if let Some(descends) = order.by_age() {
        let after = marker.map(|(_, place)| place);
        return Ok(along(call, filter, after, descends, limit).await);
    }
    let marker = marker.map(|(key, _)| key);
    Ok(sorted(call, filter, order, marker.as_ref(), limit).await)
}

/// Some servers that a list goes along, and how it goes on.
struct Part<T> {
    found: Vec<T>,
    /// The last that was looked at; nothing if there are no more.
    last: Option<ListKey>,
}

impl<T> Part<T> {
    /// Looks at the next servers behind a place, until so many are found.
    fn look(
        (control, views): (&Control, &Views),
        filter: &Filter,
        (after, descends): (Option<ListKey>, bool),
        most: usize,
        take: impl Fn(&Seen<'_>) -> Option<T>,
    ) -> Self {
        let conductor = &control.conductor;
        let places = conductor.listing().after(filter.project(), after, descends);
        let mut found = Vec::new();
        let mut last = None;
        for (looked_at, place) in places.enumerate() {
            if looked_at == LOOKED_AT || found.len() == most {
                return Self { found, last };
            }
            last = Some(place);
            let seen = Seen::find(control, views, place.1).filter(|seen| filter.takes(seen));
            found.extend(seen.as_ref().and_then(&take));
        }
        Self { found, last: None }
    }
}

/// The servers of a page in the order of their age.
async fn along(
    call: &Call<'_>,
    filter: &Filter,
    mut after: Option<ListKey>,
    descends: bool,
    limit: usize,
) -> Vec<InstanceId> {
    let mut ids = Vec::new();
    loop {
        let most = limit - ids.len();
        let from = (after, descends);
        let part = call.read(|control, views| {
            Part::look((control, views), filter, from, most, |seen| Some(seen.id))
        });
        let mut part = part.await;
        ids.append(&mut part.found);
        after = part.last;
        if after.is_none() || ids.len() == limit {
            return ids;
        }
    }
}

/// The servers of a page in another order.
async fn sorted(
    call: &Call<'_>,
    filter: &Filter,
    order: &Order,
    marker: Option<&Key>,
    limit: usize,
) -> Vec<InstanceId> {
    let is_behind = |key: &Key| marker.is_none_or(|marker| order.compare(marker, key).is_lt());
    let mut keys = Vec::new();
    let mut after = None;
    loop {
        let part = call.read(|control, views| {
            let key = |seen: &Seen<'_>| Some(order.key(seen)).filter(is_behind);
            let from = (after, false);
            Part::look((control, views), filter, from, usize::MAX, key)
        });
        let mut part = part.await;
        keys.append(&mut part.found);
        if keys.len() > limit {
            // What is behind the page now stays behind it.
            keys.select_nth_unstable_by(limit, |a, b| order.compare(a, b));
            keys.truncate(limit);
        }
        after = part.last;
        if after.is_none() {
            break;
        }
    }
    keys.sort_unstable_by(|a, b| order.compare(a, b));
    keys.into_iter().map(|key| key.id).collect()
}
