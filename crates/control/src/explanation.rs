//! An explanation of placement as JSON: why a query for candidates finds just these hosts, or none.
//!
//! `/placewright/v1/explain` shows it, and so do refusals of the scheduler and faults of builds.

use std::io;

use placewright_placement::explain::{Constraint, NearMiss, Shortfall, Subject};
use placewright_placement::{Explanation, State};
use serde::Serialize;
use serde_json::ser::Formatter;
use uuid::Uuid;

/// An explanation in the form that is shown, with names instead of ids.
#[derive(Serialize)]
struct Shown<'a> {
    /// How many root providers there are.
    roots: usize,
    /// How many roots can serve the query; a lower bound if trees are unsearched.
    left: usize,
    /// Whether the allowed amount of work was enough for all trees, the near misses and the smallest impossible set.
    /// If not, the numbers are lower bounds.
    exact: bool,
    /// How many trees were not searched, because the allowed amount of work was used up.
    unsearched: usize,
    constraints: Vec<ShownEffect<'a>>,
    /// The smallest set of constraints that no root satisfies together. `None` if some root can serve the query, or if
    /// the set was not found within the allowed amount of work.
    smallest_impossible_set: Option<Vec<Option<String>>>,
    near_misses: Vec<ShownMiss<'a>>,
}

/// The effect of one constraint on all root providers.
#[derive(Serialize)]
struct ShownEffect<'a> {
    constraint: String,
    group: Option<&'a str>,
    /// How many roots pass all constraints before this one and fail this one.
    removed: usize,
    /// How many roots fail this constraint, whether or not they pass the others.
    removed_alone: usize,
}

/// A near miss: root providers that fail the same few constraints by the same amounts.
#[derive(Serialize)]
struct ShownMiss<'a> {
    /// How many root providers these are.
    roots: usize,
    /// One of these root providers.
    example: Option<ShownProvider<'a>>,
    lacks: Vec<ShownLack>,
}

/// A root provider as an example.
#[derive(Serialize)]
struct ShownProvider<'a> {
    uuid: Uuid,
    name: &'a str,
}

/// The amount or condition that the root providers of a near miss lack to satisfy a constraint.
#[derive(Serialize)]
struct ShownLack {
    constraint: Option<String>,
    /// `amount`, `condition`, `units` or `inventory`: see [`Shortfall`].
    reason: &'static str,
    /// The missing amount, if the reason is `amount`.
    missing: Option<i64>,
}

/// An explanation as JSON.
#[must_use]
pub fn to_json(state: &State, explanation: &Explanation) -> String {
    let constraint = |index: usize| {
        let effect = explanation.effects.get(index);
        effect.map(|effect| effect.constraint.to_string())
    };
    let smallest = explanation.smallest.as_ref();
    let shown = Shown {
        roots: explanation.roots,
        left: explanation.left,
        exact: explanation.is_exact,
        unsearched: explanation.unsearched,
        constraints: explanation
            .effects
            .iter()
            .map(|effect| ShownEffect {
                constraint: effect.constraint.to_string(),
                group: group_suffix(&effect.constraint),
                removed: effect.removed,
                removed_alone: effect.removed_alone,
            })
            .collect(),
        smallest_impossible_set: smallest
            .map(|indexes| indexes.iter().map(|index| constraint(*index)).collect()),
        near_misses: explanation
            .near_misses
            .iter()
            .map(|miss| shown_miss(state, miss, constraint))
            .collect(),
    };
    let mut json = Vec::with_capacity(1024);
    let mut serializer = serde_json::Serializer::with_formatter(&mut json, Spaced);
    // Cannot fail: all map keys are strings, and writing to a Vec does not fail.
    let _ = shown.serialize(&mut serializer);
    String::from_utf8(json).unwrap_or_default()
}

fn shown_miss<'a>(
    state: &'a State,
    miss: &NearMiss,
    constraint: impl Fn(usize) -> Option<String>,
) -> ShownMiss<'a> {
    let lacks = miss.shortfalls.iter().map(|(index, lack)| {
        let (reason, missing) = match lack {
            Shortfall::Amount(amount) => ("amount", Some(*amount)),
            Shortfall::Condition => ("condition", None),
            Shortfall::Units => ("units", None),
            Shortfall::Inventory => ("inventory", None),
        };
        ShownLack {
            constraint: constraint(*index),
            reason,
            missing,
        }
    });
    ShownMiss {
        roots: miss.roots,
        example: state.provider(miss.example).map(|provider| ShownProvider {
            uuid: provider.uuid,
            name: &provider.name,
        }),
        lacks: lacks.collect(),
    }
}

/// The suffix of the group that a constraint belongs to; `None` for constraints of the root or of
/// several groups.
fn group_suffix(constraint: &Constraint) -> Option<&str> {
    let subject = match constraint {
        Constraint::Required(subject, _)
        | Constraint::Forbidden(subject, _)
        | Constraint::MemberOf(subject, _)
        | Constraint::NotMemberOf(subject, _)
        | Constraint::InTree(subject, _)
        | Constraint::RequestsNothing(subject)
        | Constraint::Resource { subject, .. } => subject,
        Constraint::Together { .. }
        | Constraint::Isolate
        | Constraint::SameSubtree(_)
        | Constraint::OneProviderOfTree => return None,
    };
    match subject {
        Subject::Root => None,
        Subject::Group(suffix) => Some(suffix),
    }
}

/// Writes JSON as the Placement API does: a space after commas and colons, and only ASCII.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        is_first: bool,
    ) -> io::Result<()> {
        writer.write_all(if is_first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        is_first: bool,
    ) -> io::Result<()> {
        writer.write_all(if is_first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for character in fragment.chars() {
            let mut bytes = [0; 4];
            let text = character.encode_utf8(&mut bytes);
            if text.is_ascii() {
                writer.write_all(text.as_bytes())?;
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_spaced_and_ascii() {
        let mut json = Vec::new();
        let value = serde_json::json!({"a\"☃": [0, null, {}, "x\ny\u{1F600}"], "b": true});
        let mut serializer = serde_json::Serializer::with_formatter(&mut json, Spaced);
        value.serialize(&mut serializer).unwrap();
        assert_eq!(
            String::from_utf8(json).unwrap(),
            "{\"a\\\"\\u2603\": [0, null, {}, \"x\\ny\\ud83d\\ude00\"], \"b\": true}"
        );
    }
}
