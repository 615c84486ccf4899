//! Query strings of the Placement API.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use placewright_http::{Query, Syntax};

use crate::json::Json;

/// Splits and decodes a query string.
///
/// # Errors
///
/// The reason, worded as by the reference.
pub(crate) fn parse(text: &str) -> Result<Query<'_>, String> {
    Query::parse(text, Syntax::default()).map_err(|error| error.to_string())
}

/// A query as a JSON object of strings, for validation. The last value of a repeated key
/// is used.
pub(crate) fn as_json<'q>(query: &'q Query<'_>) -> Json<'q> {
    let mut members: Vec<(Cow<'_, str>, Json<'_>)> = Vec::with_capacity(query.len());
    let mut indexes: HashMap<&str, usize> = HashMap::with_capacity(query.len());
    for (key, value) in query.iter() {
        let value = Json::Text(Cow::Borrowed(value));
        match indexes.entry(key) {
            Entry::Occupied(index) => members[*index.get()].1 = value,
            Entry::Vacant(index) => {
                index.insert(members.len());
                members.push((Cow::Borrowed(key), value));
            }
        }
    }
    Json::Object(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_repeated_key_the_last_value_is_validated() {
        let query = parse("a=1&b=x%2Cy;c&&a=2+3&d=%zz%&e=a=b&%e2%98%83=%E2%98%83").unwrap();
        let json = as_json(&query);
        assert_eq!(json.members().len(), 6);
        assert_eq!(json.get("a").and_then(Json::text), Some("2 3"));
        assert_eq!(
            parse("a=%ff").unwrap_err(),
            "'utf-8' codec can't decode byte 0xff in position 0"
        );
        let too_many = "a&".repeat(1001);
        assert_eq!(
            parse(&too_many).unwrap_err(),
            "there are more than 1000 parameters"
        );
    }
}
