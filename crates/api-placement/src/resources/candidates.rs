//! `/allocation_candidates`

mod collect;

use std::collections::HashSet;

use placewright_http::{ApiError, ApiResult, Query, Reply};
use placewright_placement::{CandidateQuery, GroupPolicy, QueryRefusal, RequestGroup};

use self::collect::{CollectResult, Collector, LIMIT, SearchRequest};
use super::filters;
use crate::call::RoutedRequest;
use crate::microversion::Microversion;
use crate::pattern::{group_number, group_suffix};
use crate::render::code;
use crate::{python, schemas};

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let query = parse(call)?;
    let kept = &call.service.candidates;
    // A random sample is a new one each time, so it is not cached.
    let asked = (query.options.seed.is_none()).then_some((call.version, call.query));
    let question = SearchRequest {
        query: &query,
        version: call.version,
        asked,
        kept,
        bytes_max: call.service.gateway.options().answer_bytes_max,
    };
    let begin = || Collector::new(&query);
    let found = call.read_in_slices(begin, |state, gathered| gathered.go_on(state, &question));
    let reply = match found.await? {
        CollectResult::Whole(answer) => Reply::text(200, "application/json", answer),
        CollectResult::Large(large) => {
            let permit = call.admit_answer(large.bytes(), large.held(), LIMIT)?;
            let mut encoder = large.encoder(query, call.version);
            Reply::json_in_pieces(move || encoder.piece(), permit)
        }
    };
    Ok(reply.modified(call.has_cache_headers(), Some(call.now())))
}

/// Parses the query of a request.
///
/// # Errors
///
/// 400 when any part of it is wrong.
pub(crate) fn parse(call: &RoutedRequest<'_>) -> ApiResult<CandidateQuery> {
    let version = call.version;
    let query = call.query(schemas::candidates::list(version))?;
    let wide = RequestWide::of(&query)?;
    let groups_max = call.service.options.groups_max;
    let groups = groups(&query, version, groups_max)?;
    check_size(&groups, &wide.same_subtree, groups_max)?;
    if version.since(36) {
        check_subtrees(&groups, &wide.same_subtree)?;
    } else {
        check_orphans(&groups)?;
    }
    if version.since(22) {
        check_conflicts(&groups)?;
    }
    let suffixed = groups
        .iter()
        .filter(|group| !group.suffix.is_empty())
        .count();
    if suffixed > 1 && wide.group_policy.is_none() {
        return Err(ApiError::bad_request(
            "The \"group_policy\" parameter is required when specifying more than one \
             \"resources{N}\" parameter.",
        ));
    }
    Ok(CandidateQuery {
        groups,
        group_policy: wide.group_policy,
        same_subtree: wide.same_subtree,
        root_required: wide.root.required.concat(),
        root_forbidden: wide.root.forbidden,
        limit: wide.limit,
        nested: version.since(29),
        options: call.service.search_options(),
    })
}

/// The parameters that concern the request as a whole.
struct RequestWide {
    limit: Option<usize>,
    group_policy: Option<GroupPolicy>,
    root: filters::Traits,
    same_subtree: Vec<Vec<String>>,
}

impl RequestWide {
    fn of(query: &Query<'_>) -> ApiResult<Self> {
        // Of repeated parameters the last was validated, but the first counts.
        let limit = query.all("limit").next().map(limit_of).transpose()?;
        let group_policy = query.all("group_policy").next().map(|policy| match policy {
            "isolate" => GroupPolicy::Isolate,
            _ => GroupPolicy::None,
        });
        let root = root_required(query)?;
        let mut same_subtree = Vec::new();
        for value in query.all("same_subtree") {
            let mut suffixes: Vec<String> = value
                .split(',')
                .map(|suffix| python::strip(suffix).to_owned())
                .collect();
            suffixes.sort_unstable();
            suffixes.dedup();
            if suffixes.iter().any(String::is_empty) {
                return Err(ApiError::bad_request(
                    "Empty string (unsuffixed group) can not be specified in `same_subtree` ",
                )
                .with_code(code::BAD_VALUE));
            }
            same_subtree.push(suffixes);
        }
        // Repeated entries have no further effect.
        let mut known = HashSet::with_capacity(same_subtree.len());
        same_subtree.retain(|suffixes| known.insert(suffixes.clone()));
        Ok(Self {
            limit,
            group_policy,
            root,
            same_subtree,
        })
    }
}

fn limit_of(text: &str) -> ApiResult<usize> {
    let limit = python::int(text)
        .filter(|limit| *limit >= 1)
        .ok_or_else(|| {
            ApiError::bad_request(format!(
                "Invalid query string parameters: 'limit' expects a positive integer. Got: {text}"
            ))
        })?;
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

fn root_required(query: &Query<'_>) -> ApiResult<filters::Traits> {
    let mut values = query.all("root_required");
    let Some(value) = values.next() else {
        return Ok(filters::Traits::default());
    };
    if values.next().is_some() {
        return Err(ApiError::bad_request(
            "Query parameter 'root_required' may be specified only once.",
        )
        .with_code(code::DUPLICATE_KEY));
    }
    let mut traits = filters::traits_of_value(value, true, false)?;
    traits.required.sort_unstable();
    traits.required.dedup();
    traits.forbidden.sort_unstable();
    traits.forbidden.dedup();
    let required: HashSet<&String> = traits.required.iter().flatten().collect();
    let conflicts: Vec<&str> = (traits.forbidden.iter())
        .filter(|name| required.contains(name))
        .map(String::as_str)
        .collect();
    if !conflicts.is_empty() {
        return Err(ApiError::bad_request(format!(
            "Conflicting required and forbidden traits found in root_required: {}",
            conflicts.join(", ")
        ))
        .with_code(code::BAD_VALUE));
    }
    Ok(traits)
}

/// The most amounts of resources of one query, in all its groups.
const AMOUNTS_MAX: usize = 1_000;

/// Rejects a query that is too large for a search while others wait.
fn check_size(
    groups: &[RequestGroup],
    same_subtree: &[Vec<String>],
    groups_max: usize,
) -> ApiResult<()> {
    let plain = groups.iter().find(|group| group.suffix.is_empty());
    let classes = plain.map_or(0, |group| group.resources.len());
    let amounts: usize = groups.iter().map(|group| group.resources.len()).sum();
    let detail = if groups.len() > groups_max {
        too_many_groups(groups_max)
    } else if classes > groups_max {
        format!(
            "The query asks for {classes} resource classes in one group; placement.groups_max \
             allows {groups_max}."
        )
    } else if same_subtree.len() > groups_max {
        format!(
            "The query has {} same_subtree parameters; placement.groups_max allows {groups_max}.",
            same_subtree.len()
        )
    } else if amounts > AMOUNTS_MAX {
        format!("The query asks for {amounts} amounts of resources; at most {AMOUNTS_MAX} can be.")
    } else {
        return Ok(());
    };
    Err(ApiError::bad_request(detail))
}

fn too_many_groups(groups_max: usize) -> String {
    format!("The query has too many request groups; placement.groups_max allows {groups_max}.")
}

/// The request groups in the order in which the query first names them.
fn groups(
    query: &Query<'_>,
    version: Microversion,
    groups_max: usize,
) -> ApiResult<Vec<RequestGroup>> {
    let suffix_of = if version.since(33) {
        group_suffix
    } else {
        group_number
    };
    let mut groups: Vec<RequestGroup> = Vec::new();
    // All values of these parameters are parsed at the first one.
    let mut are_read: HashSet<(&str, &str)> = HashSet::new();
    for (key, value) in query.iter() {
        let parts = ["resources", "required", "member_of", "in_tree"]
            .into_iter()
            .find_map(|prefix| suffix_of(key, prefix).map(|suffix| (prefix, suffix)));
        let Some((prefix, suffix)) = parts else {
            continue;
        };
        let known = groups.iter().position(|group| group.suffix == suffix);
        if known.is_none() && groups.len() == groups_max {
            return Err(ApiError::bad_request(too_many_groups(groups_max)));
        }
        let place = known.unwrap_or_else(|| {
            groups.push(RequestGroup {
                suffix: suffix.to_owned(),
                ..RequestGroup::default()
            });
            groups.len() - 1
        });
        let group = &mut groups[place];
        match prefix {
            "required" | "member_of" if !are_read.insert((prefix, suffix)) => {}
            "resources" => group.resources = filters::amounts(value)?,
            "required" => {
                let traits = filters::traits(query, &format!("required{suffix}"), version)?;
                group.required = traits.required;
                group.forbidden = traits.forbidden;
            }
            "member_of" => {
                let aggregates = filters::aggregates(query, suffix, version)?;
                group.member_of = aggregates.member_of;
                group.forbidden_aggregates = aggregates.forbidden;
            }
            _ => group.in_tree = Some(filters::in_tree(value)?),
        }
    }
    Ok(groups)
}

/// A Python list of strings, as the reference's messages show suffixes.
fn shown(suffixes: &[&str]) -> String {
    let listed: Vec<String> = suffixes
        .iter()
        .map(|suffix| python::repr_str(suffix))
        .collect();
    format!("[{}]", listed.join(", "))
}

/// From microversion 1.36 on, a group without resources has to be part of a `same_subtree`.
fn check_subtrees(groups: &[RequestGroup], same_subtree: &[Vec<String>]) -> ApiResult<()> {
    let suffixes = |wanted: &dyn Fn(&RequestGroup) -> bool| -> Vec<&str> {
        groups
            .iter()
            .filter(|group| wanted(group))
            .map(|group| group.suffix.as_str())
            .collect()
    };
    let all = suffixes(&|_| true);
    let without = suffixes(&|group| group.resources.is_empty());
    if without.len() == all.len() {
        return Err(ApiError::bad_request(
            "There must be at least one resources or resources[$S] parameter.",
        )
        .with_code(code::MISSING_VALUE));
    }
    let named: HashSet<&str> = same_subtree.iter().flatten().map(String::as_str).collect();
    let alone: Vec<&str> = without
        .into_iter()
        .filter(|suffix| !named.contains(*suffix))
        .collect();
    if !alone.is_empty() {
        return Err(ApiError::bad_request(format!(
            "Resourceless suffixed group request should be specified in `same_subtree` query \
             param: bad group(s) - {}.",
            shown(&alone)
        ))
        .with_code(code::BAD_VALUE));
    }
    let mut unreal: Vec<&str> = named
        .into_iter()
        .filter(|suffix| !all.contains(suffix))
        .collect();
    if !unreal.is_empty() {
        unreal.sort_unstable();
        return Err(ApiError::bad_request(format!(
            "Real suffixes should be specified in `same_subtree`: {} not found in {}.",
            shown(&unreal),
            shown(&all)
        ))
        .with_code(code::BAD_VALUE));
    }
    Ok(())
}

/// Before microversion 1.36, each group needs resources.
fn check_orphans(groups: &[RequestGroup]) -> ApiResult<()> {
    let orphans = |key: &str, has: &dyn Fn(&RequestGroup) -> bool| -> Vec<String> {
        let orphans = groups
            .iter()
            .filter(|group| group.resources.is_empty() && has(group));
        orphans
            .map(|group| format!("{key}{}", group.suffix))
            .collect()
    };
    let traits = orphans("required", &|group| !group.required.is_empty());
    if !traits.is_empty() {
        return Err(ApiError::bad_request(format!(
            "All traits parameters must be associated with resources.  Found the following \
             orphaned traits keys: {}",
            traits.join(", ")
        )));
    }
    let aggregates = orphans("member_of", &|group| {
        !group.member_of.is_empty() || !group.forbidden_aggregates.is_empty()
    });
    if !aggregates.is_empty() {
        return Err(ApiError::bad_request(format!(
            "All member_of parameters must be associated with resources. Found the following \
             orphaned member_of keys: {}",
            aggregates.join(", ")
        )));
    }
    if groups.iter().any(|group| group.resources.is_empty()) {
        return Err(ApiError::bad_request(
            "All request groups must specify resources.",
        ));
    }
    if groups.is_empty() {
        return Err(ApiError::bad_request(
            "At least one request group (`resources` or `resources{$S}`) is required.",
        ));
    }
    Ok(())
}

fn check_conflicts(groups: &[RequestGroup]) -> ApiResult<()> {
    let mut conflicts = Vec::new();
    for group in groups {
        for any in &group.required {
            // The forbidden ones are sorted.
            if (any.iter()).all(|name| group.forbidden.binary_search(name).is_ok()) {
                conflicts.push(format!("required{}: ({})", group.suffix, any.join(", ")));
            }
        }
    }
    if conflicts.is_empty() {
        return Ok(());
    }
    conflicts.sort_unstable();
    Err(ApiError::bad_request(format!(
        "Conflicting required and forbidden traits found in the following traits keys: {}",
        conflicts.join(", ")
    )))
}

/// The error response for a name in a query that does not exist.
pub(crate) fn refused(refusal: &QueryRefusal) -> ApiError {
    match refusal {
        QueryRefusal::UnknownClass { .. } => ApiError::bad_request(format!(
            "Invalid resource class in resources parameter: {refusal}"
        )),
        QueryRefusal::UnknownTrait { .. } => ApiError::bad_request(refusal.to_string()),
    }
}
