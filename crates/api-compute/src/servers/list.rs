//! Listings of servers: filtered, sorted and paginated over all cells.
//!
//! A listing in order of age, which is the default, follows an index: a page costs its own rows and
//! those that the filter skips. For other orders, and for filters that skip many rows, the sort
//! keys of all servers are collected first. The rest is read only for the servers of the page. All
//! of this is done in slices, so that control is not blocked for long.

use std::ops::Bound;

use bytes::Bytes;
use placewright_auth::Rule;
use placewright_conductor::super_conductor::ListKey;
use placewright_conductor::{ControlState, InstanceId};
use placewright_control::Views;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::Value;
use uuid::Uuid;

use super::filter::Filter;
use super::pattern::MatchBudget;
use super::server_view::ServerView;
use super::show::{self, Visibility};
use super::sort::{Key, Order};
use crate::page;
use crate::routed_request::RoutedRequest;
use crate::slices::{SliceResult, TimeSlice};

/// After so many rows of the index, a page that is not full is searched for among all servers.
const LOOKS_ALONG: usize = 8000;

pub(crate) async fn brief(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let rules = (Rule::ServersIndex, Rule::ServersIndexAllProjects);
    listed(call, "/servers", rules, |call, seen, _| {
        show::brief(call, seen)
    })
    .await
}

pub(crate) async fn detail(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let rules = (Rule::ServersDetail, Rule::ServersDetailAllProjects);
    listed(call, "/servers/detail", rules, show::detailed).await
}

async fn listed(
    call: &RoutedRequest<'_>,
    path: &str,
    (rule, rule_for_all): (Rule, Rule),
    show: fn(&RoutedRequest<'_>, &ServerView<'_>, Visibility) -> Value,
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
    let sight = Visibility::of(call);
    let page = written(call, &ids, |seen| show(call, seen, sight)).await?;
    let last = page.last.map(|last| last.to_string()).unwrap_or_default();
    let links = if page.is_cut {
        Some(page::link(call, path, &last))
    } else {
        page::next(call, path, ids.len(), &last)?
    };
    let mut text = page.text;
    text.push(b"]");
    if let Some(links) = links {
        text.push(b",\"servers_links\":");
        text.write(&links)?;
    }
    text.push(b"}");
    let bytes = text.len;
    // A list is written where costly work is done, but not sent there.
    let held = call.core.gateway.hold_answer(call.identity, bytes)?;
    Ok(Reply::ready_pieces(text.finish(), held))
}

/// A long text in pieces of about the same length, which the memory of those before them will do for.
#[derive(Default)]
struct Text {
    pieces: Vec<Bytes>,
    last: Vec<u8>,
    len: usize,
}

impl Text {
    const PIECE_BYTES: usize = 64 << 10;

    fn push(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        self.last.extend_from_slice(bytes);
    }

    fn write(&mut self, value: &Value) -> ApiResult<()> {
        let before = self.last.len();
        serde_json::to_writer(&mut self.last, value).map_err(|error| {
            ApiError::new(500, format!("The answer cannot be written: {error}"))
        })?;
        self.len += self.last.len() - before;
        if self.last.len() >= Self::PIECE_BYTES {
            let next = Vec::with_capacity(Self::PIECE_BYTES);
            let piece = std::mem::replace(&mut self.last, next);
            self.pieces.push(piece.into());
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<Bytes> {
        if !self.last.is_empty() {
            self.pieces.push(self.last.into());
        }
        self.pieces
    }
}

/// What the answer begins with.
const OPENING: &[u8] = b"{\"servers\":[";

/// The servers of a page.
#[derive(Default)]
struct Page {
    /// The answer as far as it is written: there is never more than one copy of it.
    text: Text,
    /// The last that was looked at.
    last: Option<InstanceId>,
    /// Whether the page was cut because of its size, and more servers follow.
    is_cut: bool,
}

/// Serializes servers until the page has reached its limit of bytes.
async fn written(
    call: &RoutedRequest<'_>,
    ids: &[InstanceId],
    show: impl Fn(&ServerView<'_>) -> Value + Send + Sync,
) -> ApiResult<Page> {
    let mut page = Page::default();
    page.text.push(OPENING);
    let most = call.core.limits().page_bytes_max + OPENING.len();
    let mut rest = ids;
    while !rest.is_empty() {
        if page.text.len >= most {
            page.is_cut = true;
            break;
        }
        let part = call.read(|control, views| {
            let rows = rest.iter().enumerate();
            SliceResult::look(rows, |_, id| {
                let seen = ServerView::find(control, views, *id);
                Some((*id, seen.map(|seen| show(&seen))))
            })
        });
        let part = part.await.found;
        let mut written = 0;
        for (id, value) in part {
            if page.text.len >= most {
                break;
            }
            written += 1;
            page.last = Some(id);
            let Some(value) = value else { continue };
            if page.text.len > OPENING.len() {
                page.text.push(b",");
            }
            page.text.write(&value)?;
        }
        rest = rest.get(written..).unwrap_or_default();
        tokio::task::yield_now().await;
    }
    Ok(page)
}

/// The servers of the page, in order.
async fn found(
    call: &RoutedRequest<'_>,
    filter: &Filter,
    order: &Order,
    marker: Option<InstanceId>,
    limit: usize,
) -> ApiResult<Vec<InstanceId>> {
    let marker = match marker {
        None => None,
        Some(id) => {
            let key = call.try_read(|control, views| {
                let seen = ServerView::find(control, views, id);
                // A server that the caller may not see is treated as missing.
                let seen = seen.filter(|seen| {
                    seen.mapping.project == call.project() || call.sees_all_projects()
                });
                let seen = seen.ok_or_else(|| page::no_marker(&id.to_string()))?;
                Ok((order.key(&seen), (seen.mapping.created_at, id)))
            });
            Some(key.await?)
        }
    };
    if filter.is_empty() || limit == 0 {
        return Ok(Vec::new());
    }
    let mut effort = MatchBudget::of(call);
    if let Some(descends) = order.by_age() {
        let after = marker.as_ref().map(|(_, place)| *place);
        let from = ScanPosition::Age(after, descends);
        let found = scan_index(call, filter, from, limit, &mut effort).await?;
        if let Some(found) = found {
            return Ok(found);
        }
    }
    let marker = marker.map(|(key, _)| key);
    sorted(call, filter, order, marker.as_ref(), limit, &mut effort).await
}

/// A position from which a scan of servers continues.
#[derive(Clone, Copy)]
enum ScanPosition {
    /// After a position in order of age; true for the youngest first.
    Age(Option<ListKey>, bool),
    /// After an id: not in the order of a listing, but rows that are near in memory are read
    /// together.
    Id(Option<InstanceId>),
}

impl ScanPosition {
    /// The servers after the position, each with the position after it.
    fn servers<'s>(
        self,
        control: &'s ControlState,
        views: &'s Views,
        project: Option<&'s str>,
    ) -> Box<dyn Iterator<Item = (Self, Option<ServerView<'s>>)> + 's> {
        let conductor = &control.conductor;
        match self {
            Self::Age(after, descends) => {
                let places = conductor.listing().after(project, after, descends);
                Box::new(places.map(move |place| {
                    let seen = ServerView::find(control, views, place.1);
                    (Self::Age(Some(place), descends), seen)
                }))
            }
            Self::Id(after) => {
                let after = after.map_or(Bound::Unbounded, Bound::Excluded);
                let mappings = conductor.mappings().range((after, Bound::Unbounded));
                Box::new(mappings.map(move |(id, mapping)| {
                    let is_wanted = project.is_none_or(|project| project == mapping.project);
                    let seen = is_wanted.then(|| ServerView::of(control, views, *id, mapping));
                    (Self::Id(Some(*id)), seen.flatten())
                }))
            }
        }
    }
}

/// A part of a scan: the servers found, and where to continue; none at the end.
struct ScanPart<T> {
    /// The servers found, each with the texts that the patterns are matched with.
    found: Vec<(T, Vec<String>)>,
    looked_at: usize,
    next: Option<ScanPosition>,
}

impl<T> ScanPart<T> {
    /// Scans servers until so many are found or the time slice is over.
    fn look(
        (control, views): (&ControlState, &Views),
        filter: &Filter,
        from: ScanPosition,
        most: usize,
        take: impl Fn(&ServerView<'_>) -> Option<T>,
    ) -> Self {
        let mut part = Self {
            found: Vec::new(),
            looked_at: 0,
            next: None,
        };
        let mut slice = TimeSlice::begin();
        let mut last = None;
        for (place, seen) in from.servers(control, views, filter.project()) {
            if part.found.len() == most || slice.is_over() {
                part.next = last;
                return part;
            }
            last = Some(place);
            part.looked_at += 1;
            if let Some(seen) = seen.filter(|seen| filter.takes(seen))
                && let Some(taken) = take(&seen)
            {
                part.found.push((taken, filter.texts(&seen)));
            }
        }
        part
    }

    /// The servers whose texts match the patterns. No lock is held meanwhile.
    async fn matched(self, filter: &Filter, effort: &mut MatchBudget) -> ApiResult<Vec<T>> {
        if !filter.has_patterns() {
            return Ok(self.found.into_iter().map(|(one, _)| one).collect());
        }
        effort.keep(self.found, |texts| filter.matches(texts)).await
    }
}

/// The servers of a page in order of age. None if the filter skips so many that a scan of all
/// servers is faster.
async fn scan_index(
    call: &RoutedRequest<'_>,
    filter: &Filter,
    mut from: ScanPosition,
    limit: usize,
    effort: &mut MatchBudget,
) -> ApiResult<Option<Vec<InstanceId>>> {
    let mut ids = Vec::new();
    let mut looked_at = 0;
    while looked_at < LOOKS_ALONG {
        let most = limit - ids.len();
        let part = call.read(|control, views| {
            ScanPart::look((control, views), filter, from, most, |seen| Some(seen.id))
        });
        let part = part.await;
        looked_at += part.looked_at;
        let next = part.next;
        ids.append(&mut part.matched(filter, effort).await?);
        match next {
            Some(next) if ids.len() < limit => from = next,
            _ => return Ok(Some(ids)),
        }
        tokio::task::yield_now().await;
    }
    Ok(None)
}

/// The servers of a page in any order.
async fn sorted(
    call: &RoutedRequest<'_>,
    filter: &Filter,
    order: &Order,
    marker: Option<&Key>,
    limit: usize,
    effort: &mut MatchBudget,
) -> ApiResult<Vec<InstanceId>> {
    let is_behind = |key: &Key| marker.is_none_or(|marker| order.compare(marker, key).is_lt());
    let key = |seen: &ServerView<'_>| Some(order.key(seen)).filter(is_behind);
    // A project with few of all servers is scanned by its index.
    let mut from = call
        .read(|control, _| {
            let listing = control.conductor.listing();
            let is_small = listing.count(filter.project()) < listing.count(None) / 4;
            if is_small {
                ScanPosition::Age(None, false)
            } else {
                ScanPosition::Id(None)
            }
        })
        .await;
    let mut keys = Vec::new();
    loop {
        let part = call
            .read(|control, views| ScanPart::look((control, views), filter, from, usize::MAX, key));
        let part = part.await;
        let next = part.next;
        keys.append(&mut part.matched(filter, effort).await?);
        if keys.len() > limit.saturating_mul(2) {
            // What is after the page now will not move into it.
            keys.select_nth_unstable_by(limit, |a, b| order.compare(a, b));
            keys.truncate(limit);
        }
        match next {
            Some(next) => from = next,
            None => break,
        }
        tokio::task::yield_now().await;
    }
    keys.sort_unstable_by(|a, b| order.compare(a, b));
    keys.truncate(limit);
    Ok(keys.into_iter().map(|key| key.id).collect())
}
