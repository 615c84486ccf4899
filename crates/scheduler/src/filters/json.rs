//! `JsonFilter`: a condition in the hint `query`, such as `[">=", "$free_ram_mb", 1024]`.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::filter::Filter;
use super::host_attributes;
use crate::context::{Context, hint_field};
use crate::error::BadRequest;
use crate::hosts::table::HostTable;
use crate::hosts::verdict::Verdict;
use crate::values::{compare, equal, is_true};

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "JsonFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile,
};

fn compile<'a>(context: &Context<'a>) -> Result<Verdict<'a>, BadRequest> {
    let query = context.single_hint("query")?;
    let Some(text) = query.filter(|query| !query.is_empty()) else {
        return Ok(Verdict::All);
    };
    let malformed = |expected| BadRequest::malformed(hint_field("query"), text, expected);
    let query: Value = serde_json::from_str(text).map_err(|_| malformed("JSON"))?;
    if !is_true(&query) {
        return Ok(Verdict::All);
    }
    let condition = Condition::parse(query).map_err(malformed)?;
    let hosts = context.hosts;
    Ok(Verdict::Each(Box::new(move |slot| {
        // A host does not pass if the condition has no value for it.
        let result = condition.evaluate(hosts, slot);
        result.is_some_and(|result| match result {
            Value::Array(results) => results.iter().any(is_true),
            result => is_true(&result),
        })
    })))
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Equal,
    Less,
    Greater,
    In,
    AtMost,
    AtLeast,
    Not,
    Or,
    And,
}

/// An operator with its operands.
#[derive(Debug)]
struct Condition {
    operator: Operator,
    operands: Vec<Operand>,
}

#[derive(Debug)]
enum Operand {
    Constant(Value),
    /// The path of an attribute of the host.
    Attribute(Vec<String>),
    Condition(Condition),
}

impl Condition {
    /// Parses a condition. The error says what was expected in its place.
    fn parse(query: Value) -> Result<Self, &'static str> {
        let Value::Array(mut parts) = query else {
            return Err("a list that starts with an operator");
        };
        let operator = match parts.first().and_then(Value::as_str) {
            Some("=") => Operator::Equal,
            Some("<") => Operator::Less,
            Some(">") => Operator::Greater,
            Some("in") => Operator::In,
            Some("<=") => Operator::AtMost,
            Some(">=") => Operator::AtLeast,
            Some("not") => Operator::Not,
            Some("or") => Operator::Or,
            Some("and") => Operator::And,
            _ => return Err("a list that starts with =, <, >, in, <=, >=, not, or, and"),
        };
        let operands = parts
            .drain(1..)
            .filter_map(|part| Operand::parse(part).transpose());
        Ok(Self {
            operator,
            operands: operands.collect::<Result<_, _>>()?,
        })
    }

    /// The value of the condition for a host; `None` if an operand has no value, or if operands cannot be compared.
    fn evaluate(&self, hosts: &HostTable, slot: u32) -> Option<Value> {
        let mut values = Vec::with_capacity(self.operands.len());
        for operand in &self.operands {
            let value = operand.value(hosts, slot)?;
            if !value.is_null() {
                values.push(value);
            }
        }
        let compare_all = |holds: fn(Ordering) -> bool| compare_with_first(&values, holds);
        Some(Value::Bool(match self.operator {
            // As in the reference, `not` gives a list with one value for each operand.
            Operator::Not => {
                let negated = values.iter().map(|value| Value::Bool(!is_true(value)));
                return Some(Value::Array(negated.collect()));
            }
            Operator::Or => values.iter().any(is_true),
            Operator::And => values.iter().all(is_true),
            _ if values.len() < 2 => false,
            Operator::In => values[1..].iter().any(|value| equal(&values[0], value)),
            Operator::Equal => values[1..].iter().all(|value| equal(&values[0], value)),
            Operator::Less => compare_all(Ordering::is_lt)?,
            Operator::Greater => compare_all(Ordering::is_gt)?,
            Operator::AtMost => compare_all(Ordering::is_le)?,
            Operator::AtLeast => compare_all(Ordering::is_ge)?,
        }))
    }
}

/// Whether a relation holds between the first value and every other; `None` if two of them cannot
/// be compared.
fn compare_with_first(values: &[Value], holds: fn(Ordering) -> bool) -> Option<bool> {
    let mut all_hold = true;
    for value in &values[1..] {
        all_hold &= holds(compare(&values[0], value)?);
    }
    Some(all_hold)
}

impl Operand {
    /// Parses an operand; `None` if it counts as absent.
    fn parse(part: Value) -> Result<Option<Self>, &'static str> {
        Ok(Some(match part {
            Value::Null => return Ok(None),
            Value::String(text) if text.is_empty() => return Ok(None),
            Value::String(text) => match text.strip_prefix('$') {
                Some(path) => Self::Attribute(path.split('.').map(str::to_owned).collect()),
                None => Self::Constant(Value::String(text)),
            },
            // As in the reference, an empty condition holds for every host.
            Value::Array(parts) if parts.is_empty() => Self::Constant(Value::Bool(true)),
            Value::Array(parts) => Self::Condition(Condition::parse(Value::Array(parts))?),
            constant => Self::Constant(constant),
        }))
    }

    /// The operand's value for a host: null if the attribute is absent; `None` if the path leads into a
    /// scalar or an address, or if a condition has no value.
    fn value(&self, hosts: &HostTable, slot: u32) -> Option<Value> {
        match self {
            Self::Constant(value) => Some(value.clone()),
            Self::Condition(condition) => condition.evaluate(hosts, slot),
            Self::Attribute(path) => {
                let attribute = host_attributes::of_host(hosts, slot, &path[0]);
                let Some(mut value) = attribute else {
                    return Some(Value::Null);
                };
                if path[0] == "host_ip" {
                    // In the reference an address is not a text: it equals no text, and an address and
                    // a text cannot be ordered.
                    return (path.len() == 1).then(|| json!({ "address": value }));
                }
                for name in &path[1..] {
                    match value {
                        Value::Null => return Some(Value::Null),
                        Value::Object(mut fields) => {
                            value = fields.remove(name).unwrap_or_default();
                        }
                        _ => return None,
                    }
                }
                Some(value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use placewright_placement::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::config::SchedulerConfig;
    use crate::hosts::state::{HostReport, HostUpdate};

    fn passes(query: &Value) -> bool {
        let mut report = HostReport::default();
        report.facts.names.service_host = "one".to_owned();
        report.facts.names.ip = Some("10.0.0.1".to_owned());
        let mut hosts = HostTable::new(&SchedulerConfig::default());
        let (uuid, full) = (Uuid::from_u128(1), HostUpdate::Full(Box::new(report)));
        hosts.apply(uuid, Timestamp::default(), &full);
        hosts.bind_to_slot(uuid, 0);
        let result = Condition::parse(query.clone()).unwrap().evaluate(&hosts, 0);
        result.is_some_and(|result| is_true(&result))
    }

    #[test]
    fn an_address_is_no_text() {
        assert!(!passes(&json!(["=", "$host_ip", "10.0.0.1"])));
        assert!(!passes(&json!(["in", "$host_ip", "10.0.0.1", "10.0.0.2"])));
        assert!(!passes(&json!(["<", "$host_ip", "a"])));
        assert!(!passes(&json!([">=", "$host_ip", "1"])));
        assert!(!passes(&json!(["=", "$host_ip.version", 4])));
        assert!(passes(&json!(["=", "$host_ip", "$host_ip"])));
        assert!(passes(&json!(["=", "$host", "one"])));
    }
}
