//! Listings of servers: filtered, sorted and paginated over all cells.
//!
//! A listing in order of age, which is the default, reads an index: a page costs its own rows and
//! those that the filter skips. For other orders, and for filters that skip many rows, the sort
//! keys of all servers are collected first, and only the servers of the page are read completely.
//! All reads are done in slices, so that writers are not blocked for long.

use std::ops::Bound;
use std::time::{Duration, Instant};

use bytes::Bytes;
use placewright_auth::Rule;
use placewright_conductor::super_conductor::ListKey;
use placewright_conductor::{ControlState, InstanceId};
use placewright_control::Views;
use placewright_http::{ApiError, ApiResult, MemoryPermit, Reply, SMALL_RESPONSE_BYTES};
use serde_json::Value;
use uuid::Uuid;

use super::filter::Filter;
use super::pattern::MatchBudget;
use super::server_view::ServerView;
use super::show::{self, Visibility};
use super::sort::{Order, SortKey};
use crate::page;
use crate::routed_request::RoutedRequest;
use crate::slices::{SliceResult, TimeSlice};

/// The maximum number of rows that [`find_by_age`] reads from the index. If the page is not full then, [`find_sorted`]
/// scans all servers that the filter may accept.
const INDEX_ROWS_MAX: usize = 8000;

/// The approximate time after which the writing of a page pauses, so that other requests get on.
const TURN: Duration = Duration::from_millis(1);

pub(crate) async fn brief(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let rules = (Rule::ServersIndex, Rule::ServersIndexAllProjects);
    list_response(request, "/servers", rules, |request, server, _| {
        show::brief_json(request, server)
    })
    .await
}

pub(crate) async fn detail(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let rules = (Rule::ServersDetail, Rule::ServersDetailAllProjects);
    list_response(request, "/servers/detail", rules, show::detailed_json).await
}

async fn list_response(
    request: &RoutedRequest<'_>,
    path: &str,
    (rule, all_projects_rule): (Rule, Rule),
    to_json: fn(&RoutedRequest<'_>, &ServerView<'_>, Visibility) -> Value,
) -> ApiResult<Reply> {
    request.authorize(rule)?;
    let filter = Filter::parse(request, all_projects_rule)?;
    let order = Order::parse(request)?;
    let limit = page::limit(request)?;
    let marker = match request.query.get("marker") {
        None => None,
        Some(text) => {
            let id = Uuid::try_parse(text).map_err(|_| page::unknown_marker(text))?;
            Some(InstanceId(id))
        }
    };
    let ids = find_page(request, &filter, &order, marker, limit).await?;
    let visibility = Visibility::of_caller(request);
    let written = write_page(request, &ids, |server| to_json(request, server, visibility)).await?;
    let last_id = written
        .last_id
        .map(|last_id| last_id.to_string())
        .unwrap_or_default();
    let links = if written.is_cut {
        Some(page::link_after(request, path, &last_id))
    } else {
        page::next_link(request, path, ids.len(), &last_id)?
    };
    let mut text = written.text;
    text.push(b"]");
    if let Some(links) = links {
        text.push(b",\"servers_links\":");
        text.write(&links)?;
    }
    text.push(b"}");
    // The response counts against the memory budget of its project until it is sent.
    let permit = match written.permit {
        Some(mut permit) => {
            permit.shrink(text.len);
            Some(permit)
        }
        None => request
            .api_state
            .gateway
            .reserve_response_memory(request.identity, text.len)?,
    };
    Ok(Reply::ready_pieces(text.finish(), permit))
}

/// A long text in pieces of about the same length, so that the allocator can use the memory of freed pieces
/// for new ones.
#[derive(Default)]
struct TextPieces {
    full_pieces: Vec<Bytes>,
    /// The piece that is being written.
    current: Vec<u8>,
    /// The length of all pieces together.
    len: usize,
}

impl TextPieces {
    const PIECE_BYTES: usize = 64 << 10;

    fn push(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        self.current.extend_from_slice(bytes);
    }

    fn write(&mut self, value: &Value) -> ApiResult<()> {
        let before = self.current.len();
        serde_json::to_writer(&mut self.current, value).map_err(|error| {
            ApiError::new(500, format!("The answer cannot be written: {error}"))
        })?;
        self.len += self.current.len() - before;
        if self.current.len() >= Self::PIECE_BYTES {
            let empty = Vec::with_capacity(Self::PIECE_BYTES);
            let full = std::mem::replace(&mut self.current, empty);
            self.full_pieces.push(full.into());
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<Bytes> {
        if !self.current.is_empty() {
            self.full_pieces.push(self.current.into());
        }
        self.full_pieces
    }
}

/// The beginning of the response's body.
const OPENING: &[u8] = b"{\"servers\":[";

/// A page of servers, as it is written.
#[derive(Default)]
struct Page {
    /// The body of the response as far as it is written. It is sent without being copied.
    text: TextPieces,
    /// The reservation of memory for a page of the maximum length. `None` while the page is shorter than
    /// [`SMALL_RESPONSE_BYTES`], because such responses count against no budget.
    permit: Option<MemoryPermit>,
    /// The last server of the page; as long as the page is empty, the first server that was left out.
    last_id: Option<InstanceId>,
    /// Whether the page was cut because of its size, and more servers follow.
    is_cut: bool,
}

/// Writes servers until the page has reached its maximum length in bytes.
///
/// As soon as the page has [`SMALL_RESPONSE_BYTES`], memory for a page of the maximum length is reserved. So a project
/// whose memory budget is used up is refused before a whole page was written.
async fn write_page(
    request: &RoutedRequest<'_>,
    ids: &[InstanceId],
    to_json: impl Fn(&ServerView<'_>) -> Value + Send + Sync,
) -> ApiResult<Page> {
    let mut page = Page::default();
    page.text.push(OPENING);
    let bytes_max = request.api_state.limits().page_bytes_max + OPENING.len();
    let mut remaining = ids;
    while !remaining.is_empty() {
        if page.text.len >= bytes_max {
            page.is_cut = true;
            break;
        }
        let part = request.read(|control, views| {
            let rows = remaining.iter().enumerate();
            SliceResult::collect(rows, |_, id| {
                let server = ServerView::find(control, views, *id);
                Some((*id, server.map(|server| to_json(&server))))
            })
        });
        let part = part.await.items;
        let mut written_count = 0;
        let mut turn_began = Instant::now();
        for (id, value) in part {
            if page.text.len >= bytes_max {
                break;
            }
            written_count += 1;
            // A server that was deleted after it was found is left out. It is a marker only as long as the page is
            // empty, because a request with the marker of a deleted server is refused.
            let Some(value) = value else {
                page.last_id.get_or_insert(id);
                continue;
            };
            page.last_id = Some(id);
            if page.text.len > OPENING.len() {
                page.text.push(b",");
            }
            page.text.write(&value)?;
            if page.permit.is_none() && page.text.len >= SMALL_RESPONSE_BYTES {
                let gateway = &request.api_state.gateway;
                page.permit = gateway.reserve_response_memory(request.identity, bytes_max)?;
            }
            // Writing takes longer than reading, so other requests get their turn in between.
            if turn_began.elapsed() >= TURN {
                tokio::task::yield_now().await;
                turn_began = Instant::now();
            }
        }
        remaining = remaining.get(written_count..).unwrap_or_default();
        tokio::task::yield_now().await;
    }
    Ok(page)
}

/// Finds the servers of the page, in order.
async fn find_page(
    request: &RoutedRequest<'_>,
    filter: &Filter,
    order: &Order,
    marker: Option<InstanceId>,
    limit: usize,
) -> ApiResult<Vec<InstanceId>> {
    // The keys of the marker in the requested order, and in the index.
    let (sort_key, list_key) = match marker {
        None => (None, None),
        Some(id) => {
            let reading = request.try_read(|control, views| {
                let server = ServerView::find(control, views, id);
                // A server that the caller may not see is treated as missing.
                let server = server.filter(|server| {
                    server.mapping.project == request.project() || request.sees_all_projects()
                });
                let server = server.ok_or_else(|| page::unknown_marker(&id.to_string()))?;
                Ok((order.key(&server), (server.mapping.created_at, id)))
            });
            let (sort_key, list_key) = reading.await?;
            (Some(sort_key), Some(list_key))
        }
    };
    if filter.matches_nothing() || limit == 0 {
        return Ok(Vec::new());
    }
    let mut budget = MatchBudget::new(request);
    if let Some(youngest_first) = order.is_youngest_first() {
        let start = ScanPosition::Age {
            after: list_key,
            youngest_first,
        };
        let ids = find_by_age(request, filter, start, limit, &mut budget).await?;
        if let Some(ids) = ids {
            return Ok(ids);
        }
    }
    find_sorted(
        request,
        filter,
        order,
        sort_key.as_ref(),
        limit,
        &mut budget,
    )
    .await
}

/// A position after which a scan of servers continues.
#[derive(Clone, Copy)]
enum ScanPosition {
    /// A position in order of age. `after` is `None` before the first server.
    Age {
        after: Option<ListKey>,
        youngest_first: bool,
    },
    /// A position in order of id. Listings have no such order, but rows with near ids are near in
    /// memory, too.
    Id(Option<InstanceId>),
}

impl ScanPosition {
    /// The servers after this position, each with its own position. `None` stands for a server of another
    /// project.
    fn servers<'s>(
        self,
        control: &'s ControlState,
        views: &'s Views,
        project: Option<&'s str>,
    ) -> Box<dyn Iterator<Item = (Self, Option<ServerView<'s>>)> + 's> {
        let conductor = &control.conductor;
        match self {
            Self::Age {
                after,
                youngest_first,
            } => {
                let list_keys = conductor.listing().after(project, after, youngest_first);
                Box::new(list_keys.map(move |list_key| {
                    let (_, id) = list_key;
                    let server = ServerView::find(control, views, id);
                    let position = Self::Age {
                        after: Some(list_key),
                        youngest_first,
                    };
                    (position, server)
                }))
            }
            Self::Id(after) => {
                let after = after.map_or(Bound::Unbounded, Bound::Excluded);
                let mappings = conductor.mappings().range((after, Bound::Unbounded));
                Box::new(mappings.map(move |(id, mapping)| {
                    let is_wanted = project.is_none_or(|project| project == mapping.project);
                    let server =
                        is_wanted.then(|| ServerView::from_mapping(control, views, *id, mapping));
                    (Self::Id(Some(*id)), server.flatten())
                }))
            }
        }
    }
}

/// The result of one time slice of a scan.
struct ScanPart<T> {
    /// What `select` returned for the servers that satisfy all of the filter but its patterns, each with the texts of
    /// the server that the patterns still have to match.
    values_with_texts: Vec<(T, Vec<String>)>,
    rows_read: usize,
    /// The position after which the scan continues; `None` at the end of the scan.
    continue_after: Option<ScanPosition>,
}

impl<T> ScanPart<T> {
    /// Scans servers until `count_max` are found or the time slice is over.
    fn scan(
        (control, views): (&ControlState, &Views),
        filter: &Filter,
        start: ScanPosition,
        count_max: usize,
        select: impl Fn(&ServerView<'_>) -> Option<T>,
    ) -> Self {
        let mut part = Self {
            values_with_texts: Vec::new(),
            rows_read: 0,
            continue_after: None,
        };
        let mut slice = TimeSlice::begin();
        let mut last_position = None;
        for (position, server) in start.servers(control, views, filter.project()) {
            if part.values_with_texts.len() == count_max || slice.ends_before_next_row() {
                part.continue_after = last_position;
                return part;
            }
            last_position = Some(position);
            part.rows_read += 1;
            if let Some(server) = server.filter(|server| filter.accepts(server))
                && let Some(selected) = select(&server)
            {
                part.values_with_texts
                    .push((selected, filter.pattern_texts(&server)));
            }
        }
        part
    }

    /// The values whose texts match the patterns. The patterns are matched while no lock is held.
    async fn retain_matching(self, filter: &Filter, budget: &mut MatchBudget) -> ApiResult<Vec<T>> {
        if !filter.has_patterns() {
            return Ok(self
                .values_with_texts
                .into_iter()
                .map(|(value, _)| value)
                .collect());
        }
        budget
            .retain(self.values_with_texts, |texts| filter.patterns_match(texts))
            .await
    }
}

/// Finds the servers of a page in order of age. `None` if the filter skips so many servers that
/// scanning all of them is faster.
async fn find_by_age(
    request: &RoutedRequest<'_>,
    filter: &Filter,
    mut position: ScanPosition,
    limit: usize,
    budget: &mut MatchBudget,
) -> ApiResult<Option<Vec<InstanceId>>> {
    let mut ids = Vec::new();
    let mut rows_read = 0;
    while rows_read < INDEX_ROWS_MAX {
        let count_max = limit - ids.len();
        let part = request.read(|control, views| {
            ScanPart::scan((control, views), filter, position, count_max, |server| {
                Some(server.id)
            })
        });
        let part = part.await;
        rows_read += part.rows_read;
        let continue_after = part.continue_after;
        ids.append(&mut part.retain_matching(filter, budget).await?);
        match continue_after {
            Some(last_read) if ids.len() < limit => position = last_read,
            _ => return Ok(Some(ids)),
        }
        tokio::task::yield_now().await;
    }
    Ok(None)
}

/// Finds the servers of a page, whichever order was requested.
async fn find_sorted(
    request: &RoutedRequest<'_>,
    filter: &Filter,
    order: &Order,
    marker: Option<&SortKey>,
    limit: usize,
    budget: &mut MatchBudget,
) -> ApiResult<Vec<InstanceId>> {
    let is_after_marker =
        |key: &SortKey| marker.is_none_or(|marker| order.compare(marker, key).is_lt());
    let key = |server: &ServerView<'_>| Some(order.key(server)).filter(is_after_marker);
    // The index has the servers of each project by age. The project's part of the index is scanned if the project has
    // less than a quarter of all servers. Otherwise all servers are scanned in order of id, which takes less time for
    // each server.
    let mut position = request
        .read(|control, _| {
            let listing = control.conductor.listing();
            let is_small_project =
                listing.instance_count(filter.project()) < listing.instance_count(None) / 4;
            if is_small_project {
                ScanPosition::Age {
                    after: None,
                    youngest_first: false,
                }
            } else {
                ScanPosition::Id(None)
            }
        })
        .await;
    let mut keys = Vec::new();
    loop {
        let part = request.read(|control, views| {
            ScanPart::scan((control, views), filter, position, usize::MAX, key)
        });
        let part = part.await;
        let continue_after = part.continue_after;
        keys.append(&mut part.retain_matching(filter, budget).await?);
        if keys.len() > limit.saturating_mul(2) {
            // A server that comes after the first `limit` ones is not on the page, whatever is read later.
            keys.select_nth_unstable_by(limit, |left, right| order.compare(left, right));
            keys.truncate(limit);
        }
        match continue_after {
            Some(last_read) => position = last_read,
            None => break,
        }
        tokio::task::yield_now().await;
    }
    keys.sort_unstable_by(|left, right| order.compare(left, right));
    keys.truncate(limit);
    Ok(keys.into_iter().map(|key| key.id).collect())
}
