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

/// The name of the scheduler hint, and of the rule in a server group.
pub(crate) const NAME: &str = "placewright:topology";

/// The most rules of a request or a server group.
const RULES_MAX: usize = 16;

/// The most servers that a rule may name. Each is looked up with every claim.
pub(crate) const OTHERS_MAX: usize = 100;

/// Parses rules: an object, a text, or a list of these. A text may have several, separated by `;`.
pub(crate) fn read(path: &str, value: &Value) -> ApiResult<Vec<TopologyRule>> {
    let all = match value {
        Value::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut rules = Vec::new();
    for one in all {
        let texts = one.as_str().map(|text| text.split(';'));
        for text in texts.into_iter().flatten() {
            let path = format!("{path}[{}]", rules.len());
            rules.push(read_rule(&path, &of_text(&path, text)?)?);
        }
        if !one.is_string() {
            let path = format!("{path}[{}]", rules.len());
            rules.push(read_rule(&path, one)?);
        }
    }
    if rules.len() > RULES_MAX {
        let message = format!("there are at most {RULES_MAX} rules, not {}", rules.len());
        return Err(ApiError::field(path, message));
    }
    Ok(rules)
}

/// Converts a rule's text form into its object form.
fn of_text(path: &str, text: &str) -> ApiResult<Value> {
    let mut rule = Map::new();
    for part in text.split(',') {
        let Some((key, value)) = part.split_once('=') else {
            let message = format!(
                "{part:?} is not a field with its value, as in relation=different,level=rack"
            );
            return Err(ApiError::field(path, message));
        };
        let (key, value) = (key.trim(), Value::from(value.trim()));
        if key == "to" {
            let to = rule.entry(key).or_insert_with(|| Value::Array(Vec::new()));
            to.as_array_mut()
                .into_iter()
                .for_each(|to| to.push(value.clone()));
        } else if rule.insert(key.to_owned(), value).is_some() {
            return Err(ApiError::field(path, format!("{key} is there twice")));
        }
    }
    Ok(Value::Object(rule))
}

fn read_rule(path: &str, value: &Value) -> ApiResult<TopologyRule> {
    let mut fields = ObjectParser::new(path, value)?;
    let relation = word(&mut fields, "relation")?;
    let relation = relation.ok_or_else(|| fields.wrong("relation", "it is missing"))?;
    let rule = TopologyRule {
        level: fields.text("level", 1..=255)?.map(str::to_owned),
        relation,
        strength: word(&mut fields, "strength")?.unwrap_or_default(),
        to: read_others(&mut fields)?,
        max_skew: number(&mut fields, "max_skew")?,
        weight: number(&mut fields, "weight")?,
    };
    fields.finish()?;
    Ok(rule)
}

/// Takes a field whose value is one of an enumeration's names.
fn word<'a, T: DeserializeOwned>(
    fields: &mut ObjectParser<'a>,
    key: &'a str,
) -> ApiResult<Option<T>> {
    let Some(text) = fields.text(key, 1..=64)? else {
        return Ok(None);
    };
    let known = serde_json::from_value(Value::from(text));
    known.map(Some).map_err(|error| fields.wrong(key, error))
}

fn number<'a>(fields: &mut ObjectParser<'a>, key: &'a str) -> ApiResult<Option<u32>> {
    let number = fields.integer(key, 1..=i64::from(i32::MAX))?;
    Ok(number.and_then(|number| u32::try_from(number).ok()))
}

fn read_others(fields: &mut ObjectParser<'_>) -> ApiResult<std::collections::BTreeSet<Uuid>> {
    let Some(value) = fields.take("to") else {
        return Ok(std::collections::BTreeSet::new());
    };
    let all = match value {
        Value::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    if all.is_empty() || all.len() > OTHERS_MAX {
        let message = format!("it must name 1 to {OTHERS_MAX} servers");
        return Err(fields.wrong("to", message));
    }
    let others = all.iter().enumerate().map(|(place, one)| {
        let uuid = one.as_str().and_then(|text| Uuid::try_parse(text).ok());
        let path = || format!("{}[{place}]", fields.path_of("to"));
        uuid.ok_or_else(|| fields::wrong(&path(), "the UUID of a server", one))
    });
    others.collect()
}

/// Rejects rules that contradict themselves, levels that the topology does not have, and servers
/// that the caller may not see.
pub(crate) fn check(
    call: &RoutedRequest<'_>,
    control: &ControlState,
    path: &str,
    rules: &[TopologyRule],
) -> ApiResult<()> {
    let levels = control.placement.levels();
    let is_level = |name: &str| levels.iter().any(|level| level.name == name);
    let mappings = control.conductor.mappings();
    for (place, rule) in rules.iter().enumerate() {
        let path = || format!("{path}[{place}]");
        check_rule(rule, &path, &is_level)
            .map_err(|wrong| ApiError::bad_request(wrong.to_string()))?;
        for other in &rule.to {
            let mapping = mappings.get(&InstanceId(*other));
            let is_there = mapping.is_some_and(|one| {
                let is_seen = one.project == call.project() || call.sees_all_projects();
                is_seen && !one.is_deleting
            });
            if !is_there {
                let field = format!("{}.to", path());
                return Err(ApiError::field(
                    &field,
                    format!("there is no server {other}"),
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

    const ONE: &str = "7d1e5f0a-2b3c-4d5e-8f60-718293a4b5c6";
    const TWO: &str = "7d1e5f0a-2b3c-4d5e-8f60-718293a4b5c7";

    #[test]
    fn a_text_says_what_an_object_says() {
        let text = format!(
            "relation=same, level=row, strength=soft, weight=3, to={ONE}, to={TWO};\
             relation=spread,level=room,max_skew=2"
        );
        let objects = json!([
            {"relation": "same", "level": "row", "strength": "soft", "weight": 3, "to": [ONE, TWO]},
            {"relation": "spread", "level": "room", "max_skew": 2},
        ]);
        let read = |value: &Value| read("t", value).unwrap();
        assert_eq!(read(&json!(text)), read(&objects));
        assert_eq!(read(&json!([text, text])).len(), 4);
        assert_eq!(read(&objects[1]).len(), 1);
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
            let message = read("t", &value).unwrap_err().detail().to_owned();
            assert!(message.starts_with(expected), "{value}: {message}");
        }
    }
}
