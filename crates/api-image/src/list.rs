//! `GET /v2/images`: the images that the caller sees, filtered, in order, a page at a time.

use std::cmp::Ordering;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use placewright_auth::Rule;
use placewright_conductor::ControlState;
use placewright_conductor::super_conductor::Image;
use placewright_http::{ApiError, ApiResult, Query, Reply};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::access::Viewer;
use crate::filter::{self, Filter};
use crate::request::RoutedRequest;
use crate::view;

/// Images of a page, if the caller does not say how many.
const PAGE_DEFAULT: usize = 25;
/// Images of a page at most.
const PAGE_MAX: usize = 1000;
/// The most keys by which a list may be sorted.
const SORT_KEYS_MAX: usize = 8;

/// The attributes by which images can be sorted.
const SORT_KEYS: [&str; 10] = [
    "name",
    "status",
    "container_format",
    "disk_format",
    "size",
    "id",
    "created_at",
    "updated_at",
    "min_disk",
    "min_ram",
];

/// One key of an order.
#[derive(Clone, Copy, Debug)]
struct SortKey {
    key: &'static str,
    descends: bool,
}

/// An image with its UUID.
type Entry<'s> = (Uuid, &'s Image);

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ImagesIndex, request.project())?;
    let query = request.query()?;
    let filter = Filter::parse(&query)?;
    let order = parse_order(&query)?;
    let limit = match query.get("limit") {
        None => PAGE_DEFAULT,
        Some(text) => {
            let limit = filter::parse_number("limit", text)?;
            usize::try_from(limit).unwrap_or(PAGE_MAX).min(PAGE_MAX)
        }
    };
    let marker = query.get("marker").map(|text| {
        Uuid::try_parse(text)
            .map_err(|_| ApiError::field("marker", format!("it must be an image, not {text:?}")))
    });
    let marker = marker.transpose()?;
    let viewer = Viewer::of(request);
    let page = request
        .read(|state| page(state, viewer, (&filter, &order), marker, limit))
        .await?;
    let mut answer = json!({"images": page.images, "schema": "/v2/schemas/images"});
    answer["first"] = json!(link(&query, None));
    if let Some(marker) = page.next_marker {
        answer["next"] = json!(link(&query, Some(marker)));
    }
    Reply::value(200, &answer)
}

struct Page {
    images: Vec<Value>,
    /// The marker of the next page: the last image of this one. `None` if no images follow.
    next_marker: Option<Uuid>,
}

fn page(
    state: &ControlState,
    viewer: Viewer<'_>,
    (filter, order): (&Filter, &[SortKey]),
    marker: Option<Uuid>,
    limit: usize,
) -> ApiResult<Page> {
    let images = state.conductor.images();
    let after = marker.map(|marker| {
        let image = images.get(&marker).filter(|image| viewer.sees(image));
        image
            .map(|image| (marker, image))
            .ok_or_else(|| ApiError::field("marker", format!("there is no image {marker}")))
    });
    let after = after.transpose()?;
    let all = images.iter().map(|(id, image)| (*id, image));
    let mut entries: Vec<Entry<'_>> = all
        .filter(|(id, image)| filter.has(viewer, *id, image))
        .filter(|entry| after.is_none_or(|after| compare(order, *entry, after).is_gt()))
        .collect();
    let has_more = entries.len() > limit;
    if has_more && limit > 0 {
        // This brings the images of the page to the front without sorting the other ones.
        entries.select_nth_unstable_by(limit, |a, b| compare(order, *a, *b));
    }
    entries.truncate(limit);
    entries.sort_unstable_by(|a, b| compare(order, *a, *b));
    let next_marker = entries.last().filter(|_| has_more).map(|(id, _)| *id);
    let images = entries.iter().map(|(id, image)| view::image(*id, image));
    Ok(Page {
        images: images.collect(),
        next_marker,
    })
}

/// The order of two images by the keys, the first of which is the most important.
fn compare(order: &[SortKey], a: Entry<'_>, b: Entry<'_>) -> Ordering {
    let size = |image: &Image| image.content.as_ref().map(|content| content.size);
    let by_key = |sort: &SortKey| {
        let ordering = match sort.key {
            "name" => a.1.name.cmp(&b.1.name),
            "status" => view::status(a.1).cmp(view::status(b.1)),
            "container_format" => a.1.container_format.cmp(&b.1.container_format),
            "disk_format" => a.1.disk_format.cmp(&b.1.disk_format),
            "size" => size(a.1).cmp(&size(b.1)),
            "created_at" => a.1.created_at.cmp(&b.1.created_at),
            "updated_at" => a.1.updated_at.cmp(&b.1.updated_at),
            "min_disk" => a.1.min_disk_gb.cmp(&b.1.min_disk_gb),
            "min_ram" => a.1.min_ram_mb.cmp(&b.1.min_ram_mb),
            _ => a.0.cmp(&b.0),
        };
        if sort.descends {
            ordering.reverse()
        } else {
            ordering
        }
    };
    let ordering = order.iter().map(by_key).find(|ordering| ordering.is_ne());
    ordering.unwrap_or(Ordering::Equal)
}

/// The order that a query asks for, by default the newest first. Keys are appended so that no two images are equal by
/// all keys.
fn parse_order(query: &Query<'_>) -> ApiResult<Vec<SortKey>> {
    let mut order = match query.get("sort") {
        Some(text) => {
            if query.get("sort_key").is_some() || query.get("sort_dir").is_some() {
                let message = "it cannot be given together with sort_key or sort_dir";
                return Err(ApiError::field("sort", message));
            }
            let parts = text
                .split(',')
                .map(|part| part.split_once(':').unwrap_or((part, "desc")));
            parts
                .map(|(key, direction)| sort_key("sort", key, direction))
                .collect()
        }
        None => {
            let directions: Vec<&str> = query.all("sort_dir").collect();
            let common = directions.first().copied().unwrap_or("desc");
            let keys = query.all("sort_key").enumerate();
            let parsed = keys.map(|(index, key)| {
                let direction = directions.get(index).copied().unwrap_or(common);
                sort_key("sort_key", key, direction)
            });
            parsed.collect::<ApiResult<Vec<SortKey>>>()
        }
    }?;
    if order.len() > SORT_KEYS_MAX {
        let message = format!("there may be at most {SORT_KEYS_MAX} keys");
        return Err(ApiError::field("sort", message));
    }
    // The keys that break ties have the last `sort_dir` of the query, or else the direction of the last key.
    let descends = match query.get("sort_dir") {
        Some(direction) => descends("sort_dir", direction)?,
        None => order.last().is_none_or(|last| last.descends),
    };
    for key in ["created_at", "id"] {
        order.push(SortKey { key, descends });
    }
    Ok(order)
}

fn sort_key(parameter: &str, key: &str, direction: &str) -> ApiResult<SortKey> {
    let known = SORT_KEYS.iter().find(|known| **known == key);
    let key = known.ok_or_else(|| {
        let message = format!("it must be one of {}, not {key:?}", SORT_KEYS.join(", "));
        ApiError::field(parameter, message)
    })?;
    Ok(SortKey {
        key,
        descends: descends(parameter, direction)?,
    })
}

fn descends(parameter: &str, direction: &str) -> ApiResult<bool> {
    match direction {
        "asc" => Ok(false),
        "desc" => Ok(true),
        other => {
            let message = format!("the direction must be asc or desc, not {other:?}");
            Err(ApiError::field(parameter, message))
        }
    }
}

/// The characters that are percent-encoded in a query: all but letters, digits and a few signs.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The path of the list with the same query: of its first page, or of the page after the image `marker`.
fn link(query: &Query<'_>, marker: Option<Uuid>) -> String {
    let marker = marker.map(|marker| marker.to_string());
    let others = query.iter().filter(|(name, _)| *name != "marker");
    let mut path = String::from("/v2/images");
    let mut separator = '?';
    for (name, value) in others.chain(marker.iter().map(|marker| ("marker", marker.as_str()))) {
        path.push(separator);
        path.extend(utf8_percent_encode(name, ENCODED));
        path.push('=');
        path.extend(utf8_percent_encode(value, ENCODED));
        separator = '&';
    }
    path
}
