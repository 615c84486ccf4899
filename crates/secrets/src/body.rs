//! Secret fields in the body of a specification, which is a row, or JSON of an earlier release.
//!
//! Between roles, and to drivers, a body has its secret fields in the clear, as `server.user_data`
//! and `server.admin_pass`. In a state it has none of them. Everything else of it stays byte by byte
//! as it is, because roles compare specifications by their digests.

use placewright_conductor::{SharedText, SpecBody};
use placewright_records::server::{self, OpenSecrets};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::fields::{Fields, NAMES};
use crate::hidden::Secret;

/// An object, with the text of each value.
struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        from.deserialize_map(Members)
    }
}

/// Appends members to an object's text, the first of them without a comma.
fn write<'a>(out: &mut String, members: impl Iterator<Item = (&'a str, &'a str)>) {
    out.push('{');
    for (index, (name, value)) in members.enumerate() {
        if index > 0 {
            out.push(',');
        }
        quote(out, name);
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
}

/// Appends a text as JSON.
fn quote(out: &mut String, text: &str) {
    // A text always has a form in JSON.
    let quoted = serde_json::to_string(text).map(zeroize::Zeroizing::new);
    out.push_str(quoted.as_ref().map_or("\"\"", |quoted| quoted.as_str()));
}

/// Takes the secret fields out of a body; none if it has none.
pub(crate) fn take(body: &SpecBody) -> Option<(SpecBody, Fields)> {
    match body {
        SpecBody::Json(text) => {
            take_fields(&text.text()).map(|(rest, fields)| (rest.into(), fields))
        }
        SpecBody::Row(row) => {
            let (rest, open) = server::take_secrets(row)?;
            let fields = Fields {
                user_data: open.user_data.map(Secret::new),
                admin_pass: open.admin_pass.map(Secret::new),
            };
            Some((SpecBody::Row(rest), fields))
        }
    }
}

/// Puts secret fields into a body, which is not shown then; none if the body has no server.
pub(crate) fn put(body: &SpecBody, fields: &Fields) -> Option<SpecBody> {
    match body {
        SpecBody::Json(text) => {
            let open = put_fields(&text.text(), fields)?;
            Some(SharedText::hidden(open).into())
        }
        SpecBody::Row(row) => {
            let text =
                |field: &Option<Secret<String>>| field.as_ref().map(|text| text.expose().clone());
            let open = OpenSecrets {
                user_data: text(&fields.user_data),
                admin_pass: text(&fields.admin_pass),
            };
            server::put_secrets(row, open).map(SpecBody::Row)
        }
    }
}

/// Whether a body may have secret fields: it may say so for a body that has none.
pub(crate) fn may_be_open(body: &str) -> bool {
    NAMES
        .iter()
        .any(|name| body.contains(&format!("\"{name}\"")))
}

/// Takes the secret fields out of a body; none if it has none.
pub(crate) fn take_fields(body: &str) -> Option<(String, Fields)> {
    if !may_be_open(body) {
        return None;
    }
    let Object(whole) = serde_json::from_str(body).ok()?;
    let (_, server) = whole.iter().find(|(name, _)| name == "server")?;
    let Object(server) = serde_json::from_str(server.get()).ok()?;
    let mut fields = Fields::default();
    for (name, value) in &server {
        if let Some(field) = fields.field(name) {
            let text: Option<String> = serde_json::from_str(value.get()).ok()?;
            *field = text.map(Secret::new);
        }
    }
    let is_open = server
        .iter()
        .any(|(name, _)| NAMES.contains(&name.as_str()));
    if !is_open {
        return None;
    }
    let mut rest = String::with_capacity(body.len());
    let open = server
        .iter()
        .map(|(name, value)| (name.as_str(), value.get()));
    write(&mut rest, open.filter(|(name, _)| !NAMES.contains(name)));
    let members = whole.iter().map(|(name, value)| match name.as_str() {
        "server" => ("server", rest.as_str()),
        name => (name, value.get()),
    });
    let mut text = String::with_capacity(body.len());
    write(&mut text, members);
    Some((text, fields))
}

/// A body without its secret fields; none if it has none.
#[must_use]
pub fn without_fields(body: &str) -> Option<String> {
    take_fields(body).map(|(rest, _)| rest)
}

/// Puts secret fields into a body; none if the body has no server.
pub(crate) fn put_fields(body: &str, fields: &Fields) -> Option<String> {
    let Object(whole) = serde_json::from_str(body).ok()?;
    let (_, server) = whole.iter().find(|(name, _)| name == "server")?;
    let before = server.get().trim_end().strip_suffix('}')?;
    let mut open = zeroize::Zeroizing::new(String::with_capacity(before.len() + fields.len() * 2));
    open.push_str(before);
    let mut is_first = before.trim_end().ends_with('{');
    for (name, value) in fields.each() {
        if !std::mem::take(&mut is_first) {
            open.push(',');
        }
        quote(&mut open, name);
        open.push(':');
        quote(&mut open, value);
    }
    open.push('}');
    let members = whole.iter().map(|(name, value)| match name.as_str() {
        "server" => ("server", open.as_str()),
        name => (name, value.get()),
    });
    let mut text = String::with_capacity(body.len() + open.len());
    write(&mut text, members);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_into_a_body_is_taken_out_again() {
        let bodies = [
            r#"{"request":{"a":1.50},"server":{"b":"\u00e9 \" user_data","c":[1,2]},"z":null}"#,
            r#"{"server":{}}"#,
        ];
        let texts = ["", "aGk=", "a \"quoted\"\n\u{1}é"];
        for body in bodies {
            assert!(take_fields(body).is_none());
            for text in texts {
                let fields = Fields {
                    user_data: Some(Secret::new(text.to_owned())),
                    admin_pass: (!text.is_empty()).then(|| Secret::new("pw".to_owned())),
                };
                let open = put_fields(body, &fields).unwrap();
                let value: serde_json::Value = serde_json::from_str(&open).unwrap();
                assert_eq!(value["server"]["user_data"], text);
                assert_eq!(take_fields(&open).unwrap(), (body.to_owned(), fields));
            }
        }
    }

    #[test]
    fn other_bodies_are_left_alone() {
        for body in [
            "",
            "[]",
            r#"{"user_data":"a"}"#,
            r#"{"server":"user_data"}"#,
        ] {
            assert!(take_fields(body).is_none(), "{body}");
        }
        assert!(put_fields("{}", &Fields::default()).is_none());
    }
}
