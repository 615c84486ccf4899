//! `/placewright/v1/explain?...`: why a query for candidates finds what it finds.
//!
//! It takes the query of `GET /allocation_candidates`, in the microversion of the header or else
//! the newest, and reports for every constraint how many roots it removed.

use hyper::HeaderMap;
use placewright_placement::explain::{Constraint, Lack, Scope};
use placewright_placement::{CandidateQuery, Explanation, RequestGroup, State, explain};
use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Reply};

use crate::clock::now;
use crate::http::call::Call;
use crate::http::microversion::{self, Microversion};
use crate::http::placement::candidates;
use crate::http::service::{Service, checks};

/// The microversion of the query: that of the header, or the newest.
pub(super) fn version(headers: &HeaderMap) -> ApiResult<Microversion> {
    if headers.contains_key(microversion::HEADER) {
        checks::negotiate(headers)
    } else {
        Ok(Microversion::MAX)
    }
}

pub(super) async fn show(
    service: &Service,
    version: Microversion,
    query: &str,
) -> ApiResult<Reply> {
    let call = Call {
        service,
        version,
        parameters: ["", ""],
        query,
        body: &[],
        at: now(),
    };
    let query = candidates::parse(&call)?;
    let parts = parts_of(&query);
    if parts > PARTS_MAX {
        return Err(ApiError::bad_request(format!(
            "The query has {parts} constraints; at most {PARTS_MAX} are explained."
        )));
    }
    let writer = call
        .read(|state| {
            let found = explain(state, &query).map_err(|refusal| candidates::refused(&refusal))?;
            Ok(write(state, &found))
        })
        .await?;
    Ok(Reply::json(writer).modified(true, Some(call.now())))
}

/// The most constraints of an explained query: each is compared with others, for every host.
const PARTS_MAX: usize = 500;

/// The number of constraints in a query.
fn parts_of(query: &CandidateQuery) -> usize {
    let of_group = |group: &RequestGroup| {
        group.resources.len()
            + group.required.len()
            + group.forbidden.len()
            + group.member_of.len()
            + group.forbidden_aggregates.len()
            + usize::from(group.in_tree.is_some())
    };
    query.groups.iter().map(of_group).sum::<usize>()
        + query.root_required.len()
        + query.root_forbidden.len()
        + query.same_subtree.len()
}

/// An explanation as JSON.
pub(crate) fn write(state: &State, found: &Explanation) -> Writer {
    let mut writer = Writer::with_capacity(1024);
    writer.open_object();
    writer.key("roots");
    writer.integer(count(found.roots));
    writer.key("left");
    writer.integer(count(found.left));
    writer.key("exact");
    writer.raw(if found.is_exact { b"true" } else { b"false" });
    writer.key("unsearched");
    writer.integer(count(found.unsearched));
    writer.key("constraints");
    writer.open_array();
    for effect in &found.effects {
        writer.open_object();
        writer.key("constraint");
        writer.text(&effect.constraint.to_string());
        writer.key("group");
        writer.optional_text(group(&effect.constraint));
        writer.key("removed");
        writer.integer(count(effect.removed));
        writer.key("removed_alone");
        writer.integer(count(effect.removed_alone));
        writer.close_object();
    }
    writer.close_array();
    writer.key("smallest_impossible_set");
    match &found.smallest {
        Some(places) => {
            writer.open_array();
            places
                .iter()
                .for_each(|place| write_constraint(&mut writer, found, *place));
            writer.close_array();
        }
        None => writer.raw(b"null"),
    }
    write_near_misses(&mut writer, state, found);
    writer.close_object();
    writer
}

fn write_near_misses(writer: &mut Writer, state: &State, found: &Explanation) {
    writer.key("near_misses");
    writer.open_array();
    for miss in &found.near_misses {
        writer.open_object();
        writer.key("roots");
        writer.integer(count(miss.roots));
        writer.key("example");
        match state.provider(miss.example) {
            Some(provider) => {
                writer.open_object();
                writer.key("uuid");
                writer.text(provider.uuid.hyphenated().encode_lower(&mut [0; 36]));
                writer.key("name");
                writer.text(&provider.name);
                writer.close_object();
            }
            None => writer.raw(b"null"),
        }
        writer.key("lacks");
        writer.open_array();
        for (place, lack) in &miss.lacks {
            writer.open_object();
            writer.key("constraint");
            write_constraint(writer, found, *place);
            let (reason, missing) = match lack {
                Lack::Amount(amount) => ("amount", Some(*amount)),
                Lack::Condition => ("condition", None),
                Lack::Units => ("units", None),
                Lack::Inventory => ("inventory", None),
            };
            writer.key("reason");
            writer.text(reason);
            writer.key("missing");
            match missing {
                Some(amount) => writer.integer(amount),
                None => writer.raw(b"null"),
            }
            writer.close_object();
        }
        writer.close_array();
        writer.close_object();
    }
    writer.close_array();
}

fn write_constraint(writer: &mut Writer, found: &Explanation, place: usize) {
    match found.effects.get(place) {
        Some(effect) => writer.text(&effect.constraint.to_string()),
        None => writer.raw(b"null"),
    }
}

/// The suffix of the group that a constraint belongs to; none for constraints of the root or of
/// several groups.
fn group(constraint: &Constraint) -> Option<&str> {
    let scope = match constraint {
        Constraint::Required(scope, _)
        | Constraint::Forbidden(scope, _)
        | Constraint::MemberOf(scope, _)
        | Constraint::NotMemberOf(scope, _)
        | Constraint::InTree(scope, _)
        | Constraint::AsksForNothing(scope)
        | Constraint::Resource { scope, .. } => scope,
        Constraint::Together { .. }
        | Constraint::Isolate
        | Constraint::SameSubtree(_)
        | Constraint::OneProviderOfTree => return None,
    };
    match scope {
        Scope::Root => None,
        Scope::Group(suffix) => Some(suffix),
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
