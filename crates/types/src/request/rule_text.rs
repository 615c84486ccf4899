//! Topology rules as texts: `relation=different,level=rack`, with `;` between several.
//!
//! Scheduler hints, server groups and the extra specs of flavors have the same rules. Hints and groups may have them as
//! objects; command lines and extra specs only have texts.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};
use uuid::Uuid;

use super::TopologyRule;
use super::group::RULE_PLACES_MAX;
use crate::error::BadRequest;
use crate::flavor::{Flavor, extra_spec_field};

/// The name of the scheduler hint with topology rules, of the key in the rules of a server group, and of the extra spec
/// of a flavor.
pub const TOPOLOGY_KEY: &str = "placewright:topology";

/// The maximum number of rules of a request, a server group or a flavor.
pub const RULES_MAX: usize = 16;

/// The maximum number of instances that a rule may name. Every claim looks up each of them.
pub const RULE_SERVERS_MAX: usize = 100;

/// The longest name of a level or a place, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Parses the rules of a text. `path` is the position of the text, and the first rule has the number `first` there.
///
/// # Errors
///
/// [`BadRequest`] names the rule and its field.
pub fn parse_rules(path: &str, first: usize, text: &str) -> Result<Vec<TopologyRule>, BadRequest> {
    let rules = text.split(';').enumerate();
    let rules = rules.map(|(index, text)| parse_rule(&format!("{path}[{}]", first + index), text));
    rules.collect()
}

/// The topology rules in a flavor's extra specs.
///
/// # Errors
///
/// [`BadRequest`] if they cannot be parsed, or are more than [`RULES_MAX`].
pub fn rules_of_flavor(flavor: &Flavor) -> Result<Vec<TopologyRule>, BadRequest> {
    let Some(text) = flavor.extra_spec(TOPOLOGY_KEY) else {
        return Ok(Vec::new());
    };
    let path = flavor_path();
    let rules = parse_rules(&path, 0, text)?;
    check_count(&path, rules.len())?;
    Ok(rules)
}

/// The position of a flavor's rules in a request, for errors.
#[must_use]
pub fn flavor_path() -> String {
    extra_spec_field(TOPOLOGY_KEY)
}

/// Refuses more than [`RULES_MAX`] rules.
///
/// # Errors
///
/// [`BadRequest`] names the field `path`.
pub fn check_count(path: &str, count: usize) -> Result<(), BadRequest> {
    if count <= RULES_MAX {
        return Ok(());
    }
    let reason = format!("there are at most {RULES_MAX} rules, not {count}");
    Err(BadRequest::invalid(path, reason))
}

fn parse_rule(path: &str, text: &str) -> Result<TopologyRule, BadRequest> {
    let mut relation = None;
    let mut strength = None;
    let (mut level, mut max_skew, mut weight) = (None, None, None);
    let (mut to, mut place) = (Vec::new(), Vec::new());
    for field in text.split(',') {
        let Some((key, value)) = field.split_once('=') else {
            let reason = format!(
                "{field:?} is not a field with its value, as in relation=different,level=rack"
            );
            return Err(BadRequest::invalid(path, reason));
        };
        let (key, value) = (key.trim(), value.trim());
        let path_of_key = || format!("{path}.{key}");
        let is_twice = match key {
            "relation" => relation.replace(parse_word(path_of_key, value)?).is_some(),
            "strength" => strength.replace(parse_word(path_of_key, value)?).is_some(),
            "level" => level.replace(parse_name(path_of_key, value)?).is_some(),
            "max_skew" => max_skew
                .replace(parse_number(path_of_key, value)?)
                .is_some(),
            "weight" => weight.replace(parse_number(path_of_key, value)?).is_some(),
            "to" => {
                let server = Uuid::try_parse(value).map_err(|_| {
                    let field = format!("{path}.to[{}]", to.len());
                    BadRequest::malformed(field, value, "the UUID of a server")
                })?;
                to.push(server);
                check_length(path_of_key, to.len(), RULE_SERVERS_MAX, "servers")?;
                false
            }
            "place" => {
                let field = || format!("{path}.place[{}]", place.len());
                place.push(parse_name(field, value)?);
                check_length(path_of_key, place.len(), RULE_PLACES_MAX, "places")?;
                false
            }
            _ => {
                let reason = "a rule has no such field";
                return Err(BadRequest::invalid(path_of_key(), reason));
            }
        };
        if is_twice {
            let reason = format!("{key} is there twice");
            return Err(BadRequest::invalid(path, reason));
        }
    }
    Ok(TopologyRule {
        level,
        relation: relation
            .ok_or_else(|| BadRequest::invalid(format!("{path}.relation"), "it is missing"))?,
        strength: strength.unwrap_or_default(),
        to: to.into_iter().collect(),
        max_skew,
        weight,
        place: place.into_iter().collect(),
    })
}

/// Parses the name of a variant of an enumeration.
fn parse_word<'de, T: Deserialize<'de>>(
    path: impl Fn() -> String,
    value: &'de str,
) -> Result<T, BadRequest> {
    let deserializer: StrDeserializer<'de, ValueError> = value.into_deserializer();
    T::deserialize(deserializer).map_err(|error| BadRequest::invalid(path(), error.to_string()))
}

fn parse_name(path: impl Fn() -> String, value: &str) -> Result<String, BadRequest> {
    if (1..=NAME_BYTES_MAX).contains(&value.len()) {
        return Ok(value.to_owned());
    }
    let reason = format!("it has 1 to {NAME_BYTES_MAX} bytes");
    Err(BadRequest::invalid(path(), reason))
}

fn parse_number(path: impl Fn() -> String, value: &str) -> Result<u32, BadRequest> {
    let number: Option<i32> = value.parse().ok().filter(|number| *number > 0);
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| BadRequest::malformed(path(), value, "a whole number of at least 1"))
}

fn check_length(
    path: impl Fn() -> String,
    length: usize,
    max: usize,
    what: &str,
) -> Result<(), BadRequest> {
    if length <= max {
        return Ok(());
    }
    let reason = format!("it must name 1 to {max} {what}");
    Err(BadRequest::invalid(path(), reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_all_fields() {
        let text = "relation=same, level=row, strength=soft, weight=3, place=a/r1, place=r2;\
                    relation=spread,level=room,max_skew=2";
        let rules = parse_rules("t", 0, text).unwrap();
        let json = serde_json::json!([
            {"level": "row", "relation": "same", "strength": "soft", "weight": 3,
             "place": ["a/r1", "r2"]},
            {"level": "room", "relation": "spread", "strength": "hard", "max_skew": 2},
        ]);
        assert_eq!(serde_json::to_value(&rules).unwrap(), json);
    }

    #[test]
    fn errors_name_the_field() {
        for (text, field) in [
            ("", "t[3]"),
            ("rack", "t[3]"),
            ("relation=same;relation=apart", "t[4].relation"),
            ("relation=same,relation=same", "t[3]"),
            ("level=rack", "t[3].relation"),
            ("relation=same,strength=firm", "t[3].strength"),
            ("relation=same,to=x", "t[3].to[0]"),
            ("relation=same,place=", "t[3].place[0]"),
            ("relation=same,weight=0", "t[3].weight"),
            ("relation=same,max_skew=x", "t[3].max_skew"),
            ("relation=same,distance=1", "t[3].distance"),
        ] {
            let error = parse_rules("t", 3, text).unwrap_err();
            assert_eq!(error.field(), field, "{text}");
        }
    }

    #[test]
    fn a_flavor_names_its_extra_spec() {
        let mut flavor = Flavor::default();
        assert_eq!(rules_of_flavor(&flavor), Ok(Vec::new()));
        let key = TOPOLOGY_KEY.to_owned();
        let text = "relation=different,level=rack".to_owned();
        flavor.extra_specs.insert(key.clone(), text.clone());
        assert_eq!(rules_of_flavor(&flavor).unwrap().len(), 1);
        flavor.extra_specs.insert(key, vec![text; 17].join(";"));
        let error = rules_of_flavor(&flavor).unwrap_err();
        assert_eq!(
            error.field(),
            "flavor.extra_specs[\"placewright:topology\"]"
        );
    }
}
