//! Parsers of the values of query parameters: amounts of resources, traits, aggregates.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use placewright_http::{ApiError, ApiResult, Query};

use crate::microversion::Microversion;
use crate::python;
use crate::uuids::is_uuid_like;

/// Amounts by resource class, in the order of the query.
pub(crate) type Amounts = Vec<(String, i64)>;

/// Required and forbidden traits.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Sets of traits: at least one trait of each set is required.
    pub(crate) required: Vec<Vec<String>>,
    /// Traits of which none may be present.
    pub(crate) forbidden: Vec<String>,
}

/// Which forms of a `required` parameter the microversion has.
#[derive(Clone, Copy)]
pub(crate) struct TraitForms {
    /// Whether `!TRAIT` may forbid a trait.
    pub(crate) allows_forbidden: bool,
    /// Whether `in:TRAIT,TRAIT` may require any one of several traits.
    pub(crate) allows_any_of: bool,
}

/// The aggregates of which a provider must be, or must not be, a member.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Aggregates {
    /// Sets of aggregates: membership of at least one of each set is required.
    pub(crate) member_of: Vec<Vec<String>>,
    /// Aggregates of which the provider may not be a member.
    pub(crate) forbidden: Vec<String>,
}

/// Parses `VCPU:2,MEMORY_MB:1024`. The last amount of a repeated class is used.
///
/// # Errors
///
/// 400 when the form or an amount is wrong.
pub(crate) fn amounts(text: &str) -> ApiResult<Amounts> {
    let badly_formed = |text: &str| {
        ApiError::bad_request(format!(
            "Badly formed resources parameter. Expected resources query string parameter in form: \
             ?resources=VCPU:2,MEMORY_MB:1024. Got: {text}."
        ))
    };
    if python::strip(text).is_empty() {
        return Err(badly_formed("empty string"));
    }
    let mut amounts = Amounts::new();
    let mut indexes: HashMap<&str, usize> = HashMap::new();
    for pair in text.split(',') {
        let mut parts = pair.split(':');
        let (Some(class), Some(amount), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(badly_formed(pair));
        };
        let amount = parse_amount(class, amount)?;
        match indexes.entry(class) {
            Entry::Occupied(index) => amounts[*index.get()].1 = amount,
            Entry::Vacant(index) => {
                index.insert(amounts.len());
                amounts.push((class.to_owned(), amount));
            }
        }
    }
    Ok(amounts)
}

fn parse_amount(class: &str, text: &str) -> ApiResult<i64> {
    let Some(amount) = python::int(text) else {
        return Err(ApiError::bad_request(format!(
            "Requested resource {class} expected positive integer amount. Got: {text}."
        )));
    };
    if amount < 1 {
        return Err(ApiError::bad_request(format!(
            "Requested resource {class} requires amount >= 1. Got: {amount}."
        )));
    }
    i64::try_from(amount).map_err(|_| {
        ApiError::bad_request(format!(
            "Requested resource {class} requires amount <= {}. Got: {amount}.",
            i64::MAX
        ))
    })
}

/// Parses all `required` parameters of one request group.
///
/// # Errors
///
/// 400 when a form is wrong, or newer than the microversion.
pub(crate) fn traits(query: &Query<'_>, key: &str, version: Microversion) -> ApiResult<Traits> {
    let forms = TraitForms {
        allows_forbidden: version.since(22),
        allows_any_of: version.since(39),
    };
    let mut traits = Traits::default();
    let mut values: Vec<&str> = query.all(key).collect();
    if !forms.allows_any_of && values.len() > 1 {
        // As in the reference, of a repeated parameter the last value is used before microversion 1.39.
        values.drain(..values.len() - 1);
    }
    for value in values {
        let parsed = traits_of_value(value, forms)?;
        traits.required.extend(parsed.required);
        traits.forbidden.extend(parsed.forbidden);
    }
    traits.forbidden.sort_unstable();
    traits.forbidden.dedup();
    Ok(traits)
}

/// Parses `TRAIT,!TRAIT` or `in:TRAIT,TRAIT`.
///
/// # Errors
///
/// As [`traits`].
pub(crate) fn traits_of_value(value: &str, forms: TraitForms) -> ApiResult<Traits> {
    let TraitForms {
        allows_forbidden,
        allows_any_of,
    } = forms;
    let reject = |problem: String| {
        Err(ApiError::bad_request(format!(
            "Invalid query string parameters: {problem}"
        )))
    };
    if let Some(any_of) = value.strip_prefix("in:") {
        if !allows_any_of {
            return reject(format!(
                "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion \
                 1.39. Got: {value}"
            ));
        }
        let mut names: Vec<String> = any_of
            .split(',')
            .map(|name| python::strip(name).to_owned())
            .collect();
        if names.iter().any(String::is_empty) {
            return reject(format!(
                "Expected 'required' parameter value of the form: in:HW_CPU_X86_VMX,CUSTOM_MAGIC. \
                 Got an empty trait in: {value}"
            ));
        }
        if names.iter().any(|name| name.starts_with('!')) {
            return reject(format!(
                "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' does not support forbidden traits. \
                 Got: {value}"
            ));
        }
        names.sort_unstable();
        names.dedup();
        return Ok(Traits {
            required: vec![names],
            forbidden: Vec::new(),
        });
    }
    let mut traits = Traits::default();
    for name in value.split(',').map(python::strip) {
        let name_without_marks = name.trim_start_matches('!');
        if name_without_marks.is_empty() {
            let exclamation_mark = if allows_forbidden { "!" } else { "" };
            return reject(format!(
                "Expected 'required' parameter value of the form: \
                 HW_CPU_X86_VMX,{exclamation_mark}CUSTOM_MAGIC. Got an empty trait in: {value}"
            ));
        }
        // As in the reference, several exclamation marks mean the same as a single one.
        if name.starts_with('!') {
            traits.forbidden.push(name_without_marks.to_owned());
        } else {
            traits.required.push(vec![name.to_owned()]);
        }
    }
    if !traits.forbidden.is_empty() && !allows_forbidden {
        return reject(format!(
            "Expected 'required' parameter value of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: \
             {value}"
        ));
    }
    Ok(traits)
}

/// Parses all `member_of` parameters of one request group.
///
/// # Errors
///
/// As [`traits`].
pub(crate) fn aggregates(
    query: &Query<'_>,
    suffix: &str,
    version: Microversion,
) -> ApiResult<Aggregates> {
    let key = format!("member_of{suffix}");
    if !version.since(24) && query.all(&key).nth(1).is_some() {
        return Err(ApiError::bad_request(format!(
            "Multiple member_of{suffix} parameters are not supported"
        )));
    }
    let mut aggregates = Aggregates::default();
    for value in query.all(&key) {
        let (is_forbidden, list) = aggregates_of_value(value)?;
        if !is_forbidden {
            aggregates.member_of.push(list);
        } else if version.since(32) {
            aggregates.forbidden.extend(list);
        } else {
            return Err(ApiError::bad_request(format!(
                "Forbidden member_of{suffix} parameters are not supported in the specified \
                 microversion"
            )));
        }
    }
    aggregates.forbidden.sort_unstable();
    aggregates.forbidden.dedup();
    Ok(aggregates)
}

/// Parses `[!]UUID` or `[!]in:UUID,UUID`: whether the membership is forbidden, and the aggregates.
fn aggregates_of_value(value: &str) -> ApiResult<(bool, Vec<String>)> {
    let (is_forbidden, list_or_uuid) = match value.strip_prefix('!') {
        Some(negated_value) => (true, negated_value),
        None => (false, value),
    };
    let list = list_or_uuid.strip_prefix("in:");
    if list.is_none() && value.contains(',') {
        return Err(ApiError::bad_request(format!(
            "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword \
             using the valid microversion. Got: {value}"
        )));
    }
    let mut uuids: Vec<String> = match list {
        Some(list) => list.split(',').map(str::to_owned).collect(),
        None => vec![list_or_uuid.to_owned()],
    };
    uuids.sort_unstable();
    uuids.dedup();
    if let Some(invalid) = uuids.iter().find(|uuid| !is_uuid_like(uuid)) {
        return Err(ApiError::bad_request(format!(
            "Invalid query string parameters: Expected 'member_of' parameter to contain valid \
             UUID(s). Got: {invalid}"
        )));
    }
    Ok((is_forbidden, uuids))
}

/// Parses an `in_tree` parameter.
///
/// # Errors
///
/// 400 when it is not a UUID in any form.
pub(crate) fn in_tree(value: &str) -> ApiResult<String> {
    let uuid = python::strip(value);
    if is_uuid_like(uuid) {
        return Ok(uuid.to_owned());
    }
    Err(ApiError::bad_request(format!(
        "Invalid query string parameters: Expected 'in_tree' parameter to be a format of uuid. \
         Got: {value}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query;

    fn version(minor: u8) -> Microversion {
        Microversion::from_minor(minor).unwrap()
    }

    #[test]
    fn amounts_are_parsed_as_by_python() {
        let parse = |text| amounts(text).map_err(|error| error.detail().to_owned());
        assert_eq!(
            parse("VCPU: 1,DISK_GB:1_0,VCPU:+3").unwrap(),
            [("VCPU".to_owned(), 3), ("DISK_GB".to_owned(), 10)]
        );
        for (text, part) in [
            ("", "Got: empty string."),
            (" ", "Got: empty string."),
            ("VCPU", "Got: VCPU."),
            ("VCPU:1,", "Got: ."),
            ("VCPU:1:2", "Got: VCPU:1:2."),
            ("VCPU:fred", "expected positive integer amount. Got: fred."),
            ("VCPU:-2", "requires amount >= 1. Got: -2."),
            (
                "VCPU:9223372036854775808",
                "requires amount <= 9223372036854775807",
            ),
        ] {
            assert!(parse(text).unwrap_err().contains(part), "{text}");
        }
    }

    #[test]
    fn forms_of_traits_depend_on_the_version() {
        let parse = |text: &str, minor| {
            let query = query::parse(text).unwrap();
            let parsed = traits(&query, "required", version(minor));
            parsed
                .map(|traits| {
                    (
                        traits.required.concat().join(" "),
                        traits.forbidden.join(" "),
                    )
                })
                .map_err(|error| error.detail().to_owned())
        };
        let expected =
            |required: &str, forbidden: &str| Ok((required.to_owned(), forbidden.to_owned()));
        assert_eq!(parse("required=A,B", 18), expected("A B", ""));
        assert_eq!(parse("required=A,!!!B", 22), expected("A", "B"));
        assert_eq!(parse("required=A&required=B", 38), expected("B", ""));
        assert_eq!(
            parse("required=A&required=in:C,B", 39),
            expected("A B C", "")
        );
        assert!(parse("required=!A", 21).unwrap_err().contains("Got: !A"));
        assert!(
            parse("required=in:A", 38)
                .unwrap_err()
                .contains("only supported since")
        );
        assert!(
            parse("required=in:A,!B", 39)
                .unwrap_err()
                .contains("forbidden traits")
        );
        for text in ["required=", "required=A,", "required=!", "required=in:"] {
            assert!(
                parse(text, 39).unwrap_err().contains("empty trait"),
                "{text}"
            );
        }
    }

    #[test]
    fn forms_of_aggregates_depend_on_the_version() {
        const A: &str = "11111111-1111-1111-1111-111111111111";
        let parse = |text: &str, minor| {
            let query = query::parse(text).unwrap();
            let parsed = aggregates(&query, "", version(minor));
            parsed
                .map(|aggregates| (aggregates.member_of.len(), aggregates.forbidden.len()))
                .map_err(|error| error.detail().to_owned())
        };
        assert_eq!(parse(&format!("member_of={A}"), 3), Ok((1, 0)));
        assert_eq!(
            parse(&format!("member_of=in:{A},{A}&member_of={A}"), 24),
            Ok((2, 0))
        );
        assert_eq!(
            parse(&format!("member_of=!in:{A}&member_of=!{A}"), 32),
            Ok((0, 1))
        );
        for (text, minor, part) in [
            (
                format!("member_of={A}&member_of={A}"),
                23,
                "Multiple member_of",
            ),
            (format!("member_of=!{A}"), 31, "Forbidden member_of"),
            (format!("member_of={A},{A}"), 39, "must be prefixed"),
            ("member_of=x".to_owned(), 39, "Got: x"),
            ("member_of=in:".to_owned(), 39, "Got: "),
        ] {
            assert!(parse(&text, minor).unwrap_err().contains(part), "{text}");
        }
    }
}
