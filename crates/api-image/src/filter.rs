//! Which images a list has: the parameters of its query.

use placewright_conductor::super_conductor::{Image, MemberStatus, Visibility};
use placewright_http::{ApiError, ApiResult, Query};
use placewright_placement::Timestamp;
use uuid::Uuid;

use crate::access::Viewer;
use crate::{attributes, time, view};

/// Parameters that are about the page, not about the images.
const OF_PAGE: [&str; 5] = ["limit", "marker", "sort", "sort_key", "sort_dir"];

/// The conditions of a query, all of which an image has to meet.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    conditions: Vec<Condition>,
    /// `None` if the query names no visibility. [`VisibilityFilter::All`] is not the same: it adds community images.
    visibility: Option<VisibilityFilter>,
    /// Whether only hidden images are in the list; otherwise none of them is.
    is_hidden: bool,
    /// Which of the images that are shared with the viewer's project are in the list, by the status that the project
    /// gave its membership.
    member_status: MemberStatusFilter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VisibilityFilter {
    All,
    Only(Visibility),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberStatusFilter {
    All,
    Only(MemberStatus),
}

impl Default for MemberStatusFilter {
    fn default() -> Self {
        Self::Only(MemberStatus::Accepted)
    }
}

#[derive(Debug)]
enum Condition {
    Ids(Vec<String>),
    Names(Vec<String>),
    Statuses(Vec<String>),
    ContainerFormats(Vec<String>),
    DiskFormats(Vec<String>),
    Owner(String),
    Checksum(String),
    Hash(String),
    Tag(String),
    Protected(bool),
    MinDisk(u64),
    MinRam(u64),
    SizeMin(u64),
    SizeMax(u64),
    CreatedAt(Comparison),
    UpdatedAt(Comparison),
    Property(String, String),
}

/// A comparison with a time, in whole seconds, because clients see times in whole seconds.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    /// The operator: `gt`, `gte`, `lt`, `lte`, `eq` or `neq`.
    operator: &'static str,
    time: Timestamp,
}

impl Filter {
    /// Reads the conditions of a query.
    ///
    /// # Errors
    ///
    /// 400 that names the parameter.
    pub(crate) fn parse(query: &Query<'_>) -> ApiResult<Self> {
        let mut filter = Self::default();
        for (name, value) in query.iter().filter(|(name, _)| !OF_PAGE.contains(name)) {
            match name {
                "visibility" => {
                    filter.visibility = Some(match value {
                        "all" => VisibilityFilter::All,
                        value => VisibilityFilter::Only(attributes::parse_visibility(value)?),
                    });
                }
                "os_hidden" => filter.is_hidden = parse_boolean(name, value)?,
                "member_status" => filter.member_status = parse_member_status(value)?,
                name => filter.conditions.push(parse_condition(name, value)?),
            }
        }
        Ok(filter)
    }

    /// Whether an image is in the list of a viewer.
    pub(crate) fn has(&self, viewer: Viewer<'_>, id: Uuid, image: &Image) -> bool {
        image.is_hidden == self.is_hidden
            && viewer.sees(image)
            && self.is_listed(viewer, image)
            && self
                .conditions
                .iter()
                .all(|condition| condition.holds(id, image))
    }

    /// Whether an image that the viewer may know of belongs in the viewer's list, by its visibility and membership.
    fn is_listed(&self, viewer: Viewer<'_>, image: &Image) -> bool {
        if let Some(VisibilityFilter::Only(wanted)) = self.visibility
            && image.visibility != wanted
        {
            return false;
        }
        if image.is_owned_by(viewer.project) || image.visibility == Visibility::Public {
            return true;
        }
        if let Some(status) = image.membership(viewer.project) {
            return match self.member_status {
                MemberStatusFilter::All => true,
                MemberStatusFilter::Only(wanted) => status == wanted,
            };
        }
        // Any project may make community images for all others. They would clutter everybody's list, so they are in it
        // only if the query names a visibility.
        image.visibility != Visibility::Community && viewer.is_administrator
            || self.visibility.is_some()
    }
}

impl Condition {
    fn holds(&self, id: Uuid, image: &Image) -> bool {
        let is_one_of = |list: &[String], text: Option<&str>| {
            text.is_some_and(|text| list.iter().any(|one| one == text))
        };
        let content = image.content.as_ref();
        let size = content.map_or(0, |content| content.size);
        match self {
            Self::Ids(ids) => is_one_of(ids, Some(&id.to_string())),
            Self::Names(names) => is_one_of(names, image.name.as_deref()),
            Self::Statuses(statuses) => is_one_of(statuses, Some(view::status(image))),
            Self::ContainerFormats(list) => is_one_of(list, image.container_format.as_deref()),
            Self::DiskFormats(list) => is_one_of(list, image.disk_format.as_deref()),
            Self::Owner(owner) => image.owner == *owner,
            Self::Checksum(checksum) => content.is_some_and(|content| content.md5 == *checksum),
            Self::Hash(hash) => content.is_some_and(|content| content.sha512 == *hash),
            Self::Tag(tag) => image.tags.contains(tag),
            Self::Protected(is_protected) => image.is_protected == *is_protected,
            Self::MinDisk(min_disk) => u64::from(image.min_disk_gb) == *min_disk,
            Self::MinRam(min_ram) => u64::from(image.min_ram_mb) == *min_ram,
            Self::SizeMin(least) => size >= *least,
            Self::SizeMax(most) => size <= *most,
            Self::CreatedAt(comparison) => comparison.holds(image.created_at),
            Self::UpdatedAt(comparison) => comparison.holds(image.updated_at),
            Self::Property(name, value) => image.properties.get(name) == Some(value),
        }
    }
}

impl Comparison {
    fn holds(self, time: Timestamp) -> bool {
        let (time, other) = (time.seconds(), self.time.seconds());
        match self.operator {
            "gt" => time > other,
            "gte" => time >= other,
            "lt" => time < other,
            "lte" => time <= other,
            "neq" => time != other,
            _ => time == other,
        }
    }
}

fn parse_condition(name: &str, value: &str) -> ApiResult<Condition> {
    let text = || value.to_owned();
    Ok(match name {
        "id" => Condition::Ids(parse_list(value)),
        "name" => Condition::Names(parse_list(value)),
        "status" => Condition::Statuses(parse_list(value)),
        "container_format" => Condition::ContainerFormats(parse_list(value)),
        "disk_format" => Condition::DiskFormats(parse_list(value)),
        "owner" => Condition::Owner(text()),
        "checksum" => Condition::Checksum(text()),
        "os_hash_value" => Condition::Hash(text()),
        "tag" => Condition::Tag(text()),
        "protected" => Condition::Protected(parse_boolean(name, value)?),
        "min_disk" => Condition::MinDisk(parse_number(name, value)?),
        "min_ram" => Condition::MinRam(parse_number(name, value)?),
        "size_min" => Condition::SizeMin(parse_number(name, value)?),
        "size_max" => Condition::SizeMax(parse_number(name, value)?),
        "created_at" => Condition::CreatedAt(parse_comparison(name, value)?),
        "updated_at" => Condition::UpdatedAt(parse_comparison(name, value)?),
        property => Condition::Property(property.to_owned(), text()),
    })
}

/// A value, or several of them after `in:`.
fn parse_list(value: &str) -> Vec<String> {
    match value.strip_prefix("in:") {
        Some(list) => list
            .split(',')
            .map(|one| one.trim_matches('"').to_owned())
            .collect(),
        None => vec![value.to_owned()],
    }
}

fn parse_boolean(name: &str, value: &str) -> ApiResult<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(ApiError::field(
            name,
            format!("it must be true or false, not {value:?}"),
        )),
    }
}

/// The value of a parameter as a whole number.
///
/// # Errors
///
/// 400 that names the parameter.
pub(crate) fn parse_number(name: &str, value: &str) -> ApiResult<u64> {
    value.parse().map_err(|_| {
        let message = format!("it must be a whole number that is not negative, not {value:?}");
        ApiError::field(name, message)
    })
}

fn parse_member_status(value: &str) -> ApiResult<MemberStatusFilter> {
    match value {
        "all" => Ok(MemberStatusFilter::All),
        "pending" => Ok(MemberStatusFilter::Only(MemberStatus::Pending)),
        "accepted" => Ok(MemberStatusFilter::Only(MemberStatus::Accepted)),
        "rejected" => Ok(MemberStatusFilter::Only(MemberStatus::Rejected)),
        other => Err(ApiError::field(
            "member_status",
            format!("it must be all, pending, accepted or rejected, not {other:?}"),
        )),
    }
}

fn parse_comparison(name: &str, value: &str) -> ApiResult<Comparison> {
    let (operator, text) = ["gte", "gt", "lte", "lt", "neq", "eq"]
        .iter()
        .find_map(|operator| {
            let text = value.strip_prefix(operator)?.strip_prefix(':')?;
            Some((*operator, text))
        })
        .unwrap_or(("eq", value));
    let time = time::parse(text).ok_or_else(|| {
        let message = format!("it must be a time of ISO 8601, not {text:?}");
        ApiError::field(name, message)
    })?;
    Ok(Comparison { operator, time })
}
