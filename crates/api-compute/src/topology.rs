//! Topology rules in requests: an extension that OpenStack's compute API does not have.
//!
//! A rule is an object with the fields of the scheduler API. Because command lines and extra specs can only have
//! texts, a text with the same fields is accepted too: `relation=different,level=rack`.

use std::collections::BTreeSet;

use placewright_conductor::{ControlState, HardRule, InstanceId};
use placewright_http::{ApiError, ApiResult};
use placewright_scheduler::error::BadRequest;
use placewright_scheduler::request::TopologyRule;
use placewright_scheduler::request::group::{RULE_PLACES_MAX, check_rule};
use placewright_scheduler::request::rule_text::{self, RULE_SERVERS_MAX};
use placewright_scheduler::select::rules::{check_places, hard_rule};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

pub(crate) mod flavor_rules;
pub(crate) mod levels;

use levels::VisibleLevels;
pub(crate) use placewright_scheduler::request::rule_text::TOPOLOGY_KEY as NAME;

/// A 400 about a rule.
fn refused(error: BadRequest) -> ApiError {
    ApiError::bad_request(error.to_string())
}

/// Parses rules: an object, a text, or a list of objects and texts. A text may have several rules,
/// separated by `;`.
pub(crate) fn parse_rules(path: &str, value: &Value) -> ApiResult<Vec<TopologyRule>> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        item => std::slice::from_ref(item),
    };
    let mut rules = Vec::new();
    for item in items {
        let Some(rule_texts) = item.as_str() else {
            let path = format!("{path}[{}]", rules.len());
            rules.push(parse_rule(&path, item)?);
            continue;
        };
        rules.extend(rule_text::parse_rules(path, rules.len(), rule_texts).map_err(refused)?);
    }
    rule_text::check_count(path, rules.len()).map_err(refused)?;
    Ok(rules)
}

fn parse_rule(path: &str, value: &Value) -> ApiResult<TopologyRule> {
    let mut parser = ObjectParser::new(path, value)?;
    let relation = parse_enum(&mut parser, "relation")?;
    let relation = relation.ok_or_else(|| parser.field_error("relation", "it is missing"))?;
    let rule = TopologyRule {
        level: parser.text("level", 1..=255)?.map(str::to_owned),
        relation,
        strength: parse_enum(&mut parser, "strength")?.unwrap_or_default(),
        to: parse_servers(&mut parser)?,
        max_skew: parse_positive(&mut parser, "max_skew")?,
        weight: parse_positive(&mut parser, "weight")?,
        place: parse_places(&mut parser)?,
    };
    parser.finish()?;
    Ok(rule)
}

/// Takes a field whose value is the name of a variant of an enumeration.
fn parse_enum<'a, T: DeserializeOwned>(
    parser: &mut ObjectParser<'a>,
    key: &'a str,
) -> ApiResult<Option<T>> {
    let Some(text) = parser.text(key, 1..=64)? else {
        return Ok(None);
    };
    let parsed = serde_json::from_value(Value::from(text));
    parsed
        .map(Some)
        .map_err(|error| parser.field_error(key, error))
}

fn parse_positive<'a>(parser: &mut ObjectParser<'a>, key: &'a str) -> ApiResult<Option<u32>> {
    let number = parser.integer(key, 1..=i64::from(i32::MAX))?;
    Ok(number.and_then(|number| u32::try_from(number).ok()))
}

fn parse_servers(parser: &mut ObjectParser<'_>) -> ApiResult<BTreeSet<Uuid>> {
    let Some(value) = parser.take("to") else {
        return Ok(BTreeSet::new());
    };
    let items = parse_items(parser, "to", value, (RULE_SERVERS_MAX, "servers"))?;
    let servers = items.iter().enumerate().map(|(index, item)| {
        let uuid = item.as_str().and_then(|text| Uuid::try_parse(text).ok());
        let path = || format!("{}[{index}]", parser.path_of("to"));
        uuid.ok_or_else(|| fields::type_error(&path(), "the UUID of a server", item))
    });
    servers.collect()
}

fn parse_places(parser: &mut ObjectParser<'_>) -> ApiResult<BTreeSet<String>> {
    let Some(value) = parser.take("place") else {
        return Ok(BTreeSet::new());
    };
    let items = parse_items(parser, "place", value, (RULE_PLACES_MAX, "places"))?;
    let places = items.iter().enumerate().map(|(index, item)| {
        let name = item.as_str().filter(|name| (1..=255).contains(&name.len()));
        let path = || format!("{}[{index}]", parser.path_of("place"));
        let name = name.ok_or_else(|| fields::type_error(&path(), "the name of a place", item))?;
        Ok(name.to_owned())
    });
    places.collect()
}

/// The items of a list, which must have 1 to `max` of them. A value that is not a list counts as a list of one item.
fn parse_items<'a>(
    parser: &ObjectParser<'_>,
    key: &str,
    value: &'a Value,
    (max, what): (usize, &str),
) -> ApiResult<&'a [Value]> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        item => std::slice::from_ref(item),
    };
    if items.is_empty() || items.len() > max {
        let message = format!("it must name 1 to {max} {what}");
        return Err(parser.field_error(key, message));
    }
    Ok(items)
}

/// Rejects rules that contradict themselves, that name a level or a place that the topology does not have or the caller
/// may not see, or that name a server that the caller may not see.
pub(crate) fn check_rules(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    path: &str,
    rules: &[TopologyRule],
) -> ApiResult<()> {
    let levels = control.placement.levels();
    let visible = VisibleLevels::of(request);
    let is_level = |name: &str| levels.iter().any(|level| level.name == name);
    let mappings = control.conductor.mappings();
    for (index, rule) in rules.iter().enumerate() {
        let path = || format!("{path}[{index}]");
        visible.check(rule, &path)?;
        check_rule(rule, &path, &is_level).map_err(refused)?;
        check_places(&control.placement, rule, &path).map_err(refused)?;
        for server in &rule.to {
            let mapping = mappings.get(&InstanceId(*server));
            let is_visible = mapping.is_some_and(|mapping| {
                let may_see = mapping.project == request.project() || request.sees_all_projects();
                may_see && !mapping.is_deleting
            });
            if !is_visible {
                let field = format!("{}.to", path());
                return Err(ApiError::field(
                    &field,
                    format!("there is no server {server}"),
                ));
            }
        }
    }
    Ok(())
}

/// The hard rules, which a claim has to satisfy.
pub(crate) fn hard_rules(rules: &[TopologyRule]) -> impl Iterator<Item = HardRule> + '_ {
    rules.iter().filter_map(|rule| {
        Some(HardRule {
            rule: hard_rule(rule)?,
            others: rule.to.iter().copied().collect(),
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SERVER_1: &str = "7d1e5f0a-2b3c-4d5e-8f60-718293a4b5c6";
    const SERVER_2: &str = "7d1e5f0a-2b3c-4d5e-8f60-718293a4b5c7";

    #[test]
    fn texts_and_objects_with_the_same_fields_are_equal_rules() {
        let text = format!(
            "relation=same, level=row, strength=soft, weight=3, to={SERVER_1}, to={SERVER_2};\
             relation=spread,level=room,max_skew=2;relation=same,level=row,strength=soft,place=a,place=b"
        );
        let objects = json!([
            {"relation": "same", "level": "row", "strength": "soft", "weight": 3, "to": [SERVER_1, SERVER_2]},
            {"relation": "spread", "level": "room", "max_skew": 2},
            {"relation": "same", "level": "row", "strength": "soft", "place": ["a", "b"]},
        ]);
        let parse = |value: &Value| parse_rules("t", value).unwrap();
        assert_eq!(parse(&json!(text)), parse(&objects));
        assert_eq!(parse(&json!([text, text])).len(), 6);
        assert_eq!(parse(&objects[1]).len(), 1);
    }

    #[test]
    fn errors_name_the_field() {
        for (value, expected) in [
            (json!("rack"), "t[0]: "),
            (json!(""), "t[0]: "),
            (json!(7), "t[0]: "),
            (json!("relation=same;relation=apart"), "t[1].relation: "),
            (json!("relation=same,relation=same"), "t[0]: "),
            (json!("level=rack"), "t[0].relation: "),
            (json!({"relation": 7}), "t[0].relation: "),
            (
                json!({"relation": "same", "strength": "firm"}),
                "t[0].strength: ",
            ),
            (json!({"relation": "same", "to": "x"}), "t[0].to[0]: "),
            (json!({"relation": "same", "to": []}), "t[0].to: "),
            (json!({"relation": "same", "place": [7]}), "t[0].place[0]: "),
            (json!({"relation": "same", "place": []}), "t[0].place: "),
            (json!({"relation": "same", "weight": 0}), "t[0].weight: "),
            (
                json!({"relation": "same", "max_skew": "x"}),
                "t[0].max_skew: ",
            ),
            (
                json!({"relation": "same", "distance": 1}),
                "t[0].distance: ",
            ),
            (json!(vec![json!("relation=same"); 17]), "t: "),
        ] {
            let message = parse_rules("t", &value).unwrap_err().detail().to_owned();
            assert!(message.starts_with(expected), "{value}: {message}");
        }
    }
}
