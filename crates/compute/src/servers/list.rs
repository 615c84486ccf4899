//! Lists of servers: filtered, sorted and cut over all cells.
//!
//! A list in the order of age, which is the order of most, goes along an index: a page costs the page,
//! and what a filter passes over. For other orders, and for filters that pass over much, the sort keys
//! of all servers are gathered. What a page shows is read for its servers alone. All of it a part at a time, so that
//! control is never held up for long.

use std::ops::Bound;

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
/// A page that is not full after so many looks along the index is looked for among all servers.
const PARTS_ALONG: usize = 4;

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
        let after = marker.as_ref().map(|(_, place)| *place);
        let found = along(call, filter, Behind::Age(after, descends), limit).await;
        if let Some(found) = found {
            return Ok(found);
        }
    }
    let marker = marker.map(|(key, _)| key);
    Ok(sorted(call, filter, order, marker.as_ref(), limit).await)
}

/// Where a look at servers goes on.
#[derive(Clone, Copy)]
enum Behind {
    /// Behind a place in the order of age; true for the youngest first.
    Age(Option<ListKey>, bool),
    /// Behind an id. Without the order of a list, but what belongs together is found together.
    Id(Option<InstanceId>),
}

impl Behind {
    /// The servers behind it, each with where a look goes on behind it.
    fn servers<'s>(
        self,
        control: &'s Control,
        views: &'s Views,
        project: Option<&'s str>,
    ) -> Box<dyn Iterator<Item = (Self, Option<Seen<'s>>)> + 's> {
        let conductor = &control.conductor;
        match self {
            Self::Age(after, descends) => {
                let places = conductor.listing().after(project, after, descends);
                Box::new(places.map(move |place| {
                    let seen = Seen::find(control, views, place.1);
                    (Self::Age(Some(place), descends), seen)
                }))
            }
            Self::Id(after) => {
                let after = after.map_or(Bound::Unbounded, Bound::Excluded);
                let mappings = conductor.mappings().range((after, Bound::Unbounded));
                Box::new(mappings.map(move |(id, mapping)| {
                    let is_wanted = project.is_none_or(|project| project == mapping.project);
                    let seen = is_wanted.then(|| Seen::of(control, views, *id, mapping));
                    (Self::Id(Some(*id)), seen.flatten())
                }))
            }
        }
    }
}

/// Some servers that were found, and where it goes on; nothing if there are no more.
struct Part<T> {
    found: Vec<T>,
    next: Option<Behind>,
}

impl<T> Part<T> {
    /// Looks at the next servers, until so many are found.
    fn look(
        (control, views): (&Control, &Views),
        filter: &Filter,
        from: Behind,
        most: usize,
        take: impl Fn(&Seen<'_>) -> Option<T>,
    ) -> Self {
        let mut found = Vec::new();
        let mut next = None;
        let servers = from.servers(control, views, filter.project());
        for (looked_at, (place, seen)) in servers.enumerate() {
            if looked_at == LOOKED_AT || found.len() == most {
                return Self { found, next };
            }
            next = Some(place);
            let seen = seen.filter(|seen| filter.takes(seen));
            found.extend(seen.as_ref().and_then(&take));
        }
        Self { found, next: None }
    }
}

/// The servers of a page in the order of their age. Nothing if the filter passes over so many that
/// it is faster to look at all.
async fn along(
    call: &Call<'_>,
    filter: &Filter,
    mut from: Behind,
    limit: usize,
) -> Option<Vec<InstanceId>> {
    let mut ids = Vec::new();
    for _ in 0..PARTS_ALONG {
        let most = limit - ids.len();
        let part = call.read(|control, views| {
            Part::look((control, views), filter, from, most, |seen| Some(seen.id))
        });
        let mut part = part.await;
        ids.append(&mut part.found);
        match part.next {
            Some(next) if ids.len() < limit => from = next,
            _ => return Some(ids),
        }
    }
    None
}

/// The servers of a page in any order.
async fn sorted(
    call: &Call<'_>,
    filter: &Filter,
    order: &Order,
    marker: Option<&Key>,
    limit: usize,
) -> Vec<InstanceId> {
    let is_behind = |key: &Key| marker.is_none_or(|marker| order.compare(marker, key).is_lt());
    let key = |seen: &Seen<'_>| Some(order.key(seen)).filter(is_behind);
    // A project with few of all servers is found by its index.
    let mut from = call
        .read(|control, _| {
            let listing = control.conductor.listing();
            let is_small = listing.count(filter.project()) < listing.count(None) / 4;
            if is_small {
                Behind::Age(None, false)
            } else {
                Behind::Id(None)
            }
        })
        .await;
    let mut keys = Vec::new();
    loop {
        let part =
            call.read(|control, views| Part::look((control, views), filter, from, usize::MAX, key));
        let mut part = part.await;
        keys.append(&mut part.found);
        if keys.len() > limit {
            // What is behind the page now stays behind it.
            keys.select_nth_unstable_by(limit, |a, b| order.compare(a, b));
            keys.truncate(limit);
        }
        match part.next {
            Some(next) => from = next,
            None => break,
        }
    }
    keys.sort_unstable_by(|a, b| order.compare(a, b));
    keys.into_iter().map(|key| key.id).collect()
}
