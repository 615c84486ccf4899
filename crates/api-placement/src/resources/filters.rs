//! Parsers of the small languages in query values: amounts of resources, traits, aggregates.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use placewright_http::{ApiError, ApiResult, Query};

use crate::microversion::Microversion;
use crate::{python, uuids};

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

/// The aggregates of which a provider must be, or must not be, a member.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Aggregates {
    /// Sets of aggregates: membership of at least one of each set is required.
    pub(crate) member_of: Vec<Vec<String>>,
    /// Aggregates of which the provider may not be a member.
    pub(crate) forbidden: Vec<String>,
}

/// Parses `VCPU:2,MEMORY_MB:1024`. Of a repeated class the last amount counts.
///
/// # Errors
///
/// 400 when the form or an amount is wrong.
pub(crate) fn amounts(text: &str) -> ApiResult<Amounts> {
    let badly_formed = |got: &str| {
        ApiError::bad_request(format!(
            "Badly formed resources parameter. Expected resources query string parameter in form: \
             ?resources=VCPU:2,MEMORY_MB:1024. Got: {got}."
        ))
    };
    if python::strip(text).is_empty() {
        return Err(badly_formed("empty string"));
    }
    let mut amounts = Amounts::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for pair in text.split(',') {
        let mut parts = pair.split(':');
        let (Some(class), Some(amount), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(badly_formed(pair));
        };
        let amount = amount_of(class, amount)?;
        match places.entry(class) {
            Entry::Occupied(place) => amounts[*place.get()].1 = amount,
            Entry::Vacant(place) => {
                place.insert(amounts.len());
                amounts.push((class.to_owned(), amount));
            }
        }
    }
    Ok(amounts)
}

fn amount_of(class: &str, text: &str) -> ApiResult<i64> {
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
    let may_forbid = version.since(22);
    let may_choose = version.since(39);
    let mut traits = Traits::default();
    let mut values: Vec<&str> = query.all(key).collect();
    if !may_choose && values.len() > 1 {
        values.drain(..values.len() - 1);
    }
    for value in values {
        let one = traits_of_value(value, may_forbid, may_choose)?;
        traits.required.extend(one.required);
        traits.forbidden.extend(one.forbidden);
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
pub(crate) fn traits_of_value(
    value: &str,
    may_forbid: bool,
    may_choose: bool,
) -> ApiResult<Traits> {
    let refuse = |what: String| {
        Err(ApiError::bad_request(format!(
            "Invalid query string parameters: {what}"
        )))
    };
    if let Some(choice) = value.strip_prefix("in:") {
        if !may_choose {
            return refuse(format!(
                "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion \
                 1.39. Got: {value}"
            ));
        }
        let mut names: Vec<String> = choice
            .split(',')
            .map(|name| python::strip(name).to_owned())
            .collect();
        if names.iter().any(String::is_empty) {
            return refuse(format!(
                "Expected 'required' parameter value of the form: in:HW_CPU_X86_VMX,CUSTOM_MAGIC. \
                 Got an empty trait in: {value}"
            ));
        }
        if names.iter().any(|name| name.starts_with('!')) {
            return refuse(format!(
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
        let plain = name.trim_start_matches('!');
        if plain.is_empty() {
            let form = if may_forbid { "!" } else { "" };
            return refuse(format!(
                "Expected 'required' parameter value of the form: \
                 HW_CPU_X86_VMX,{form}CUSTOM_MAGIC. Got an empty trait in: {value}"
            ));
        }
        // Any number of exclamation marks means one, as in the reference.
        if name.starts_with('!') {
            traits.forbidden.push(plain.to_owned());
        } else {
            traits.required.push(vec![name.to_owned()]);
        }
    }
    if !traits.forbidden.is_empty() && !may_forbid {
        return refuse(format!(
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
        let (negated, list) = aggregates_of_value(value)?;
        if !negated {
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

/// Parses `[!]UUID` or `[!]in:UUID,UUID`; true for the negated forms.
fn aggregates_of_value(value: &str) -> ApiResult<(bool, Vec<String>)> {
    let (negated, rest) = match value.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let list = rest.strip_prefix("in:");
    if list.is_none() && value.contains(',') {
        return Err(ApiError::bad_request(format!(
            "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword \
             using the valid microversion. Got: {value}"
        )));
    }
    let mut names: Vec<String> = match list {
        Some(list) => list.split(',').map(str::to_owned).collect(),
        None => vec![rest.to_owned()],
    };
    names.sort_unstable();
    names.dedup();
    if let Some(bad) = names.iter().find(|name| !uuids::is_uuid_like(name)) {
        return Err(ApiError::bad_request(format!(
            "Invalid query string parameters: Expected 'member_of' parameter to contain valid \
             UUID(s). Got: {bad}"
        )));
    }
    Ok((negated, names))
}

/// Parses an `in_tree` parameter.
///
/// # Errors
///
/// 400 when it is not a UUID in any form.
pub(crate) fn in_tree(value: &str) -> ApiResult<String> {
    let uuid = python::strip(value);
    if uuids::is_uuid_like(uuid) {
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

    fn at(minor: u8) -> Microversion {
        Microversion::from_minor(minor).unwrap()
    }

    #[test]
    fn amounts_are_read_as_by_python() {
        let read = |text| amounts(text).map_err(|error| error.detail().to_owned());
        assert_eq!(
            read("VCPU: 1,DISK_GB:1_0,VCPU:+3").unwrap(),
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
            assert!(read(text).unwrap_err().contains(part), "{text}");
        }
    }

    #[test]
    fn forms_of_traits_depend_on_the_version() {
        let read = |text: &str, minor| {
            let query = query::parse(text).unwrap();
            let read = traits(&query, "required", at(minor));
            read.map(|traits| {
                (
                    traits.required.concat().join(" "),
                    traits.forbidden.join(" "),
                )
            })
            .map_err(|error| error.detail().to_owned())
        };
        let pair =
            |required: &str, forbidden: &str| Ok((required.to_owned(), forbidden.to_owned()));
        assert_eq!(read("required=A,B", 18), pair("A B", ""));
        assert_eq!(read("required=A,!!!B", 22), pair("A", "B"));
        assert_eq!(read("required=A&required=B", 38), pair("B", ""));
        assert_eq!(read("required=A&required=in:C,B", 39), pair("A B C", ""));
        assert!(read("required=!A", 21).unwrap_err().contains("Got: !A"));
        assert!(
            read("required=in:A", 38)
                .unwrap_err()
                .contains("only supported since")
        );
        assert!(
            read("required=in:A,!B", 39)
                .unwrap_err()
                .contains("forbidden traits")
        );
        for text in ["required=", "required=A,", "required=!", "required=in:"] {
            assert!(
                read(text, 39).unwrap_err().contains("empty trait"),
                "{text}"
            );
        }
    }

    #[test]
    fn forms_of_aggregates_depend_on_the_version() {
        const A: &str = "11111111-1111-1111-1111-111111111111";
        let read = |text: &str, minor| {
            let query = query::parse(text).unwrap();
            let read = aggregates(&query, "", at(minor));
            read.map(|found| (found.member_of.len(), found.forbidden.len()))
                .map_err(|error| error.detail().to_owned())
        };
        assert_eq!(read(&format!("member_of={A}"), 3), Ok((1, 0)));
        assert_eq!(
            read(&format!("member_of=in:{A},{A}&member_of={A}"), 24),
            Ok((2, 0))
        );
        assert_eq!(
            read(&format!("member_of=!in:{A}&member_of=!{A}"), 32),
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
            assert!(read(&text, minor).unwrap_err().contains(part), "{text}");
        }
    }
}
