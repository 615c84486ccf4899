//! `/allocation_candidates`

mod collect;

use std::collections::HashSet;

use placewright_http::{ApiError, ApiResult, Query, Reply, WorkLength};
use placewright_placement::{CandidateQuery, GroupPolicy, QueryRefusal, RequestGroup};

use self::collect::{CollectResult, Collector, FEWER_CANDIDATES_ADVICE, SearchRequest};
use super::filters::{self, TraitForms};
use crate::microversion::Microversion;
use crate::pattern::{group_number, group_suffix};
use crate::render::code;
use crate::routed_request::RoutedRequest;
use crate::{python, schemas};

/// A query for at most this many candidates is expected to be short. Nova's schedulers ask for 1000.
const SHORT_LIMIT_MAX: usize = 1_000;

/// How long a query is expected to run, judged by its limit: the search ends when it has found that many candidates,
/// and in a fleet with room it finds them at once.
///
/// The query is not parsed for this. A query whose limit cannot be found without parsing counts as long: one with
/// several limits, with encoded keys, or with `;` between its parameters.
pub(crate) fn work_length(query: &str) -> WorkLength {
    if query.contains(';') {
        return WorkLength::Long;
    }
    let mut limits = 0;
    let mut length = WorkLength::Long;
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key.contains(['%', '+']) {
            return WorkLength::Long;
        }
        if key == "limit" {
            limits += 1;
            let limit = value.parse::<usize>();
            if limit.is_ok_and(|limit| limit <= SHORT_LIMIT_MAX) {
                length = WorkLength::Short;
            }
        }
    }
    if limits == 1 {
        length
    } else {
        WorkLength::Long
    }
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let query = parse(request)?;
    let caches = &request.service.candidate_caches;
    // A random sample differs from response to response, so a response with such a sample is not cached.
    let cache_key = (query.options.seed.is_none()).then_some((request.version, request.query));
    let search_request = SearchRequest {
        query: &query,
        version: request.version,
        cache_key,
        caches,
        bytes_max: request.service.gateway.options().answer_bytes_max,
    };
    let collected = request.read_in_slices(
        || Collector::new(&query),
        |state, collector| collector.run_slice(state, &search_request),
    );
    let reply = match collected.await? {
        CollectResult::Written(response) => Reply::text(200, "application/json", response),
        CollectResult::Large(large) => {
            let permit = request.check_and_reserve_response(
                large.bytes(),
                large.memory_bytes(),
                FEWER_CANDIDATES_ADVICE,
            )?;
            let mut encoder = large.into_encoder(query, request.version);
            Reply::json_in_pieces(move || encoder.next_piece(), permit)
        }
    };
    Ok(reply.with_cache_headers(request.has_cache_headers(), Some(request.received_s())))
}

/// Parses the query of a request.
///
/// # Errors
///
/// 400 when any part of the query is wrong.
pub(crate) fn parse(request: &RoutedRequest<'_>) -> ApiResult<CandidateQuery> {
    let version = request.version;
    let query = request.query(schemas::candidates::list(version))?;
    let request_wide = RequestWideParameters::of(&query)?;
    let groups_max = request.service.options.groups_max;
    let groups = parse_groups(&query, version, groups_max)?;
    check_size(&groups, &request_wide.same_subtree, groups_max)?;
    if version.since(36) {
        check_subtrees(&groups, &request_wide.same_subtree)?;
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
    if suffixed > 1 && request_wide.group_policy.is_none() {
        return Err(ApiError::bad_request(
            "The \"group_policy\" parameter is required when specifying more than one \
             \"resources{N}\" parameter.",
        ));
    }
    Ok(CandidateQuery {
        groups,
        group_policy: request_wide.group_policy,
        same_subtree: request_wide.same_subtree,
        root_required: request_wide.root.required.concat(),
        root_forbidden: request_wide.root.forbidden,
        limit: request_wide.limit,
        nested: version.since(29),
        options: request.service.search_options(),
    })
}

/// The parameters that concern the request as a whole.
struct RequestWideParameters {
    limit: Option<usize>,
    group_policy: Option<GroupPolicy>,
    root: filters::Traits,
    same_subtree: Vec<Vec<String>>,
}

impl RequestWideParameters {
    fn of(query: &Query<'_>) -> ApiResult<Self> {
        // As in the reference, the schema validates the last value of a repeated parameter, but the
        // first value is used.
        let limit = query.all("limit").next().map(parse_limit).transpose()?;
        let group_policy = query.all("group_policy").next().map(|policy| match policy {
            "isolate" => GroupPolicy::Isolate,
            _ => GroupPolicy::None,
        });
        let root = parse_root_required(query)?;
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
        // Repeated sets have no effect.
        let mut distinct = HashSet::with_capacity(same_subtree.len());
        same_subtree.retain(|suffixes| distinct.insert(suffixes.clone()));
        Ok(Self {
            limit,
            group_policy,
            root,
            same_subtree,
        })
    }
}

fn parse_limit(text: &str) -> ApiResult<usize> {
    let limit = python::int(text)
        .filter(|limit| *limit >= 1)
        .ok_or_else(|| {
            ApiError::bad_request(format!(
                "Invalid query string parameters: 'limit' expects a positive integer. Got: {text}"
            ))
        })?;
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

fn parse_root_required(query: &Query<'_>) -> ApiResult<filters::Traits> {
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
    let forms = TraitForms {
        allows_forbidden: true,
        allows_any_of: false,
    };
    let mut traits = filters::traits_of_value(value, forms)?;
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

/// Rejects a query with too many groups, resource classes, `same_subtree` parameters or amounts: other requests wait
/// while a slice of its search runs.
fn check_size(
    groups: &[RequestGroup],
    same_subtree: &[Vec<String>],
    groups_max: usize,
) -> ApiResult<()> {
    let unsuffixed = groups.iter().find(|group| group.suffix.is_empty());
    let class_count = unsuffixed.map_or(0, |group| group.resources.len());
    let amount_count: usize = groups.iter().map(|group| group.resources.len()).sum();
    let detail = if groups.len() > groups_max {
        too_many_groups(groups_max)
    } else if class_count > groups_max {
        format!(
            "The query asks for {class_count} resource classes in one group; placement.groups_max \
             allows {groups_max}."
        )
    } else if same_subtree.len() > groups_max {
        format!(
            "The query has {} same_subtree parameters; placement.groups_max allows {groups_max}.",
            same_subtree.len()
        )
    } else if amount_count > AMOUNTS_MAX {
        format!(
            "The query asks for {amount_count} amounts of resources; at most {AMOUNTS_MAX} can be."
        )
    } else {
        return Ok(());
    };
    Err(ApiError::bad_request(detail))
}

fn too_many_groups(groups_max: usize) -> String {
    format!("The query has too many request groups; placement.groups_max allows {groups_max}.")
}

/// The request groups in the order in which the query first names them.
fn parse_groups(
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
    // `required` and `member_of` may be repeated; all values of a parameter are parsed with its first one.
    let mut parsed_parameters: HashSet<(&str, &str)> = HashSet::new();
    for (key, value) in query.iter() {
        let prefix_and_suffix = ["resources", "required", "member_of", "in_tree"]
            .into_iter()
            .find_map(|prefix| suffix_of(key, prefix).map(|suffix| (prefix, suffix)));
        let Some((prefix, suffix)) = prefix_and_suffix else {
            continue;
        };
        let existing = groups.iter().position(|group| group.suffix == suffix);
        if existing.is_none() && groups.len() == groups_max {
            return Err(ApiError::bad_request(too_many_groups(groups_max)));
        }
        let index = existing.unwrap_or_else(|| {
            groups.push(RequestGroup {
                suffix: suffix.to_owned(),
                ..RequestGroup::default()
            });
            groups.len() - 1
        });
        let group = &mut groups[index];
        match prefix {
            "required" | "member_of" if !parsed_parameters.insert((prefix, suffix)) => {}
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
fn python_list(suffixes: &[&str]) -> String {
    let listed: Vec<String> = suffixes
        .iter()
        .map(|suffix| python::repr_str(suffix))
        .collect();
    format!("[{}]", listed.join(", "))
}

/// From microversion 1.36 on, a group without resources has to be part of a `same_subtree`.
fn check_subtrees(groups: &[RequestGroup], same_subtree: &[Vec<String>]) -> ApiResult<()> {
    let suffixes_where = |predicate: &dyn Fn(&RequestGroup) -> bool| -> Vec<&str> {
        groups
            .iter()
            .filter(|group| predicate(group))
            .map(|group| group.suffix.as_str())
            .collect()
    };
    let all_suffixes = suffixes_where(&|_| true);
    let resourceless = suffixes_where(&|group| group.resources.is_empty());
    if resourceless.len() == all_suffixes.len() {
        return Err(ApiError::bad_request(
            "There must be at least one resources or resources[$S] parameter.",
        )
        .with_code(code::MISSING_VALUE));
    }
    let named_suffixes: HashSet<&str> = same_subtree.iter().flatten().map(String::as_str).collect();
    let outside_subtrees: Vec<&str> = resourceless
        .into_iter()
        .filter(|suffix| !named_suffixes.contains(*suffix))
        .collect();
    if !outside_subtrees.is_empty() {
        return Err(ApiError::bad_request(format!(
            "Resourceless suffixed group request should be specified in `same_subtree` query \
             param: bad group(s) - {}.",
            python_list(&outside_subtrees)
        ))
        .with_code(code::BAD_VALUE));
    }
    let mut unknown_suffixes: Vec<&str> = named_suffixes
        .into_iter()
        .filter(|suffix| !all_suffixes.contains(suffix))
        .collect();
    if !unknown_suffixes.is_empty() {
        unknown_suffixes.sort_unstable();
        return Err(ApiError::bad_request(format!(
            "Real suffixes should be specified in `same_subtree`: {} not found in {}.",
            python_list(&unknown_suffixes),
            python_list(&all_suffixes)
        ))
        .with_code(code::BAD_VALUE));
    }
    Ok(())
}

/// Before microversion 1.36, each group needs resources.
fn check_orphans(groups: &[RequestGroup]) -> ApiResult<()> {
    let orphaned_keys = |key: &str, has_parameter: &dyn Fn(&RequestGroup) -> bool| -> Vec<String> {
        let orphans = groups
            .iter()
            .filter(|group| group.resources.is_empty() && has_parameter(group));
        orphans
            .map(|group| format!("{key}{}", group.suffix))
            .collect()
    };
    let traits = orphaned_keys("required", &|group| !group.required.is_empty());
    if !traits.is_empty() {
        return Err(ApiError::bad_request(format!(
            "All traits parameters must be associated with resources.  Found the following \
             orphaned traits keys: {}",
            traits.join(", ")
        )));
    }
    let aggregates = orphaned_keys("member_of", &|group| {
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

/// Rejects a query with a group that forbids all traits of one of its required sets.
fn check_conflicts(groups: &[RequestGroup]) -> ApiResult<()> {
    let mut conflicts = Vec::new();
    for group in groups {
        for trait_set in &group.required {
            // Forbidden traits are sorted.
            if (trait_set.iter()).all(|name| group.forbidden.binary_search(name).is_ok()) {
                conflicts.push(format!(
                    "required{}: ({})",
                    group.suffix,
                    trait_set.join(", ")
                ));
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
pub(crate) fn refusal_error(refusal: &QueryRefusal) -> ApiError {
    match refusal {
        QueryRefusal::UnknownClass { .. } => ApiError::bad_request(format!(
            "Invalid resource class in resources parameter: {refusal}"
        )),
        QueryRefusal::UnknownTrait { .. } => ApiError::bad_request(refusal.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_query_that_says_plainly_how_few_candidates_it_wants_is_short() {
        for (query, is_short) in [
            ("limit=10&resources=VCPU:1", true),
            ("resources=VCPU%3A1&required=A%2CB&limit=1000", true),
            ("limit=1001&resources=VCPU:1", false),
            ("resources=VCPU:1", false),
            ("", false),
            ("limit=x", false),
            ("limit=", false),
            ("resources=VCPU:1;limit=100000&limit=1", false),
            ("%6Cimit=100000&limit=1", false),
            ("limit=1&limit=100000", false),
            ("limit=100000&limit=1", false),
        ] {
            let is_expected_short = work_length(query) == WorkLength::Short;
            assert_eq!(is_expected_short, is_short, "{query}");
        }
    }
}
