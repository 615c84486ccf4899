//! Removes and adds the secret fields of a specification's body, which is a row, or JSON of an
//! earlier release.
//!
//! In messages between roles and to drivers, a body has its secret fields in the clear, as `server.user_data` and
//! `server.admin_pass`. In a state it has none of them. All other fields of the body keep their bytes and their order,
//! because roles compare specifications by their digests.

use placewright_conductor::{SharedText, SpecBody};
use placewright_records::server::{self, OpenSecrets};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::fields::{NAMES, SecretFields};
use crate::secret::Secret;

/// A JSON object whose values are not parsed.
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

/// Appends a JSON object with these members.
fn write_object<'a>(out: &mut String, members: impl Iterator<Item = (&'a str, &'a str)>) {
    out.push('{');
    for (index, (name, value)) in members.enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(out, name);
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
}

/// Appends a JSON string.
fn write_string(out: &mut String, text: &str) {
    // Every text can be written as a JSON string, so the empty one is never written in its place.
    let quoted = serde_json::to_string(text).map(zeroize::Zeroizing::new);
    out.push_str(quoted.as_ref().map_or("\"\"", |quoted| quoted.as_str()));
}

/// The body without its secret fields, and these fields; none if the body has no secret fields.
pub(crate) fn remove(body: &SpecBody) -> Option<(SpecBody, SecretFields)> {
    match body {
        SpecBody::Json(text) => {
            remove_from_json(&text.text()).map(|(rest, fields)| (rest.into(), fields))
        }
        SpecBody::Row(row) => {
            let (rest, open) = server::take_secrets(row)?;
            let fields = SecretFields {
                user_data: open.user_data.map(Secret::new),
                admin_pass: open.admin_pass.map(Secret::new),
            };
            Some((SpecBody::Row(rest), fields))
        }
    }
}

/// The body with secret fields, which `Debug` then does not show; none if the body is not that of a
/// server.
pub(crate) fn add(body: &SpecBody, fields: &SecretFields) -> Option<SpecBody> {
    match body {
        SpecBody::Json(text) => {
            let open = add_to_json(&text.text(), fields)?;
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

/// A fast check whether a body in JSON may have secret fields. It may be true for a body without
/// any.
fn may_have_secrets(body: &str) -> bool {
    NAMES.iter().any(|name| body.contains(name))
}

/// As [`remove`], for a body in JSON.
pub(crate) fn remove_from_json(body: &str) -> Option<(String, SecretFields)> {
    if !may_have_secrets(body) {
        return None;
    }
    let Object(whole) = serde_json::from_str(body).ok()?;
    let (_, server) = whole.iter().find(|(name, _)| name == "server")?;
    let Object(server) = serde_json::from_str(server.get()).ok()?;
    let mut fields = SecretFields::default();
    for (name, value) in &server {
        if let Some(field) = fields.field_mut(name) {
            let text: Option<String> = serde_json::from_str(value.get()).ok()?;
            *field = text.map(Secret::new);
        }
    }
    let has_secrets = server
        .iter()
        .any(|(name, _)| NAMES.contains(&name.as_str()));
    if !has_secrets {
        return None;
    }
    let mut server_rest = String::with_capacity(body.len());
    let server = server
        .iter()
        .map(|(name, value)| (name.as_str(), value.get()));
    write_object(
        &mut server_rest,
        server.filter(|(name, _)| !NAMES.contains(name)),
    );
    let members = whole.iter().map(|(name, value)| match name.as_str() {
        "server" => ("server", server_rest.as_str()),
        name => (name, value.get()),
    });
    let mut text = String::with_capacity(body.len());
    write_object(&mut text, members);
    Some((text, fields))
}

/// A body in JSON without its secret fields; none if it has no secret fields.
#[must_use]
pub fn without_secrets(body: &str) -> Option<String> {
    remove_from_json(body).map(|(rest, _)| rest)
}

/// As [`add`], for a body in JSON.
pub(crate) fn add_to_json(body: &str, fields: &SecretFields) -> Option<String> {
    let Object(whole) = serde_json::from_str(body).ok()?;
    let (_, server) = whole.iter().find(|(name, _)| name == "server")?;
    let unclosed_server = server.get().trim_end().strip_suffix('}')?;
    // With room for escapes: a reallocation would leave a copy of the secrets in memory. Only a text of mostly control
    // characters could need more.
    let capacity = unclosed_server.len() + fields.byte_len() * 2;
    let mut open = zeroize::Zeroizing::new(String::with_capacity(capacity));
    open.push_str(unclosed_server);
    let mut is_first = unclosed_server.trim_end().ends_with('{');
    for (name, value) in fields.iter() {
        if !std::mem::take(&mut is_first) {
            open.push(',');
        }
        write_string(&mut open, name);
        open.push(':');
        write_string(&mut open, value);
    }
    open.push('}');
    let members = whole.iter().map(|(name, value)| match name.as_str() {
        "server" => ("server", open.as_str()),
        name => (name, value.get()),
    });
    let mut text = String::with_capacity(body.len() + open.len());
    write_object(&mut text, members);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_added_to_a_body_can_be_removed_again() {
        let bodies = [
            r#"{"request":{"a":1.50},"server":{"b":"\u00e9 \" user_data","c":[1,2]},"z":null}"#,
            r#"{"server":{}}"#,
        ];
        let texts = ["", "aGk=", "a \"quoted\"\n\u{1}é"];
        for body in bodies {
            assert!(remove_from_json(body).is_none());
            for text in texts {
                let fields = SecretFields {
                    user_data: Some(Secret::new(text.to_owned())),
                    admin_pass: (!text.is_empty()).then(|| Secret::new("pw".to_owned())),
                };
                let open = add_to_json(body, &fields).unwrap();
                let value: serde_json::Value = serde_json::from_str(&open).unwrap();
                assert_eq!(value["server"]["user_data"], text);
                assert_eq!(remove_from_json(&open).unwrap(), (body.to_owned(), fields));
            }
        }
    }

    #[test]
    fn bodies_without_secrets_are_not_changed() {
        for body in [
            "",
            "[]",
            r#"{"user_data":"a"}"#,
            r#"{"server":"user_data"}"#,
        ] {
            assert!(remove_from_json(body).is_none(), "{body}");
        }
        assert!(add_to_json("{}", &SecretFields::default()).is_none());
    }
}
