//! Topology rules in requests: an extension that OpenStack's compute API does not have.
//!
//! A rule is an object with the fields of the scheduler API. Because command lines can only pass
//! texts, a text with the same fields is accepted too: `relation=different,level=rack`.

use placewright_conductor::{ControlState, HardRule, InstanceId};
use placewright_http::{ApiError, ApiResult};
use placewright_scheduler::request::TopologyRule;
use placewright_scheduler::request::group::check_rule;
use placewright_scheduler::select::rules::hard_rule;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// The name of the scheduler hint with topology rules, and of the key in the rules of a server group.
pub(crate) const NAME: &str = "placewright:topology";

/// The maximum number of rules of a request or a server group.
const RULES_MAX: usize = 16;

/// The maximum number of servers that a rule may name. Every claim looks up each of them.
pub(crate) const RULE_SERVERS_MAX: usize = 100;

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
        for text in rule_texts.split(';') {
            let path = format!("{path}[{}]", rules.len());
            rules.push(parse_rule(&path, &rule_from_text(&path, text)?)?);
        }
    }
    if rules.len() > RULES_MAX {
        let message = format!("there are at most {RULES_MAX} rules, not {}", rules.len());
        return Err(ApiError::field(path, message));
    }
    Ok(rules)
}

/// Converts the text form of a rule into its object form.
fn rule_from_text(path: &str, text: &str) -> ApiResult<Value> {
    let mut rule = Map::new();
    for field in text.split(',') {
        let Some((key, value)) = field.split_once('=') else {
            let message = format!(
                "{field:?} is not a field with its value, as in relation=different,level=rack"
            );
            return Err(ApiError::field(path, message));
        };
        let (key, value) = (key.trim(), Value::from(value.trim()));
        if key == "to" {
            let servers = rule.entry(key).or_insert_with(|| Value::Array(Vec::new()));
            servers
                .as_array_mut()
                .into_iter()
                .for_each(|servers| servers.push(value.clone()));
        } else if rule.insert(key.to_owned(), value).is_some() {
            return Err(ApiError::field(path, format!("{key} is there twice")));
        }
    }
    Ok(Value::Object(rule))
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

fn parse_servers(parser: &mut ObjectParser<'_>) -> ApiResult<std::collections::BTreeSet<Uuid>> {
    let Some(value) = parser.take("to") else {
        return Ok(std::collections::BTreeSet::new());
    };
    let items = match value {
        Value::Array(items) => items.as_slice(),
        item => std::slice::from_ref(item),
    };
    if items.is_empty() || items.len() > RULE_SERVERS_MAX {
        let message = format!("it must name 1 to {RULE_SERVERS_MAX} servers");
        return Err(parser.field_error("to", message));
    }
    let servers = items.iter().enumerate().map(|(index, item)| {
        let uuid = item.as_str().and_then(|text| Uuid::try_parse(text).ok());
        let path = || format!("{}[{index}]", parser.path_of("to"));
        uuid.ok_or_else(|| fields::type_error(&path(), "the UUID of a server", item))
    });
    servers.collect()
}

/// Rejects rules that contradict themselves, that name a level that the topology does not have, or
/// that name a server that the caller may not see.
pub(crate) fn check_rules(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    path: &str,
    rules: &[TopologyRule],
) -> ApiResult<()> {
    let levels = control.placement.levels();
    let is_level = |name: &str| levels.iter().any(|level| level.name == name);
    let mappings = control.conductor.mappings();
    for (index, rule) in rules.iter().enumerate() {
        let path = || format!("{path}[{index}]");
        check_rule(rule, &path, &is_level)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
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
             relation=spread,level=room,max_skew=2"
        );
        let objects = json!([
            {"relation": "same", "level": "row", "strength": "soft", "weight": 3, "to": [SERVER_1, SERVER_2]},
            {"relation": "spread", "level": "room", "max_skew": 2},
        ]);
        let parse = |value: &Value| parse_rules("t", value).unwrap();
        assert_eq!(parse(&json!(text)), parse(&objects));
        assert_eq!(parse(&json!([text, text])).len(), 4);
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
