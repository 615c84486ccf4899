//! The body of a server's specification: the request for the scheduler, and the fields of the create request that the
//! API shows in responses.

use placewright_conductor::Spec;
use placewright_http::{ApiError, ApiResult};
use placewright_records::server as server_forms;
use placewright_types::server::ServerBody;

/// Decodes the body of a specification.
///
/// # Errors
///
/// 500 when the body was not written by this API.
pub(crate) fn decode(spec: &Spec) -> ApiResult<ServerBody> {
    server_forms::read(&spec.body).map_err(|error| {
        ApiError::new(
            500,
            format!("The record of the server cannot be read: {error}"),
        )
    })
}

/// Decodes the body of a specification; empty values if the body was not written by this API.
pub(crate) fn decode_or_default(spec: &Spec) -> ServerBody {
    server_forms::read(&spec.body).unwrap_or_default()
}

/// The body for a move, without the restrictions that applied only to the first placement.
pub(crate) fn for_move(mut body: ServerBody) -> ServerBody {
    body.request.num_instances = 1;
    body.min_count = None;
    body.request.force_hosts.clear();
    body.request.force_nodes.clear();
    body.request.ignore_hosts.clear();
    body.request.requested_destination = None;
    // A move is not part of the request that created the server.
    body.server.traceparent = None;
    body
}

/// The maximum length of a host name without dots: that of a DNS label.
const LABEL_CHARS_MAX: usize = 63;

/// Makes a valid host name of a server's name; `None` if the name has no valid character.
pub(crate) fn hostname_of_name(name: &str) -> Option<String> {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            ' ' | '_' | '.' => text.push('-'),
            _ if character.is_ascii_alphanumeric() || character == '-' => {
                text.push(character.to_ascii_lowercase());
            }
            _ => {}
        }
    }
    let text: String = text
        .trim_matches('-')
        .chars()
        .take(LABEL_CHARS_MAX)
        .collect();
    let text = text.trim_end_matches('-');
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_made_of_names() {
        for (name, expected) in [
            ("My_Server.1", Some("my-server-1")),
            ("-a-", Some("a")),
            ("☃", None),
        ] {
            assert_eq!(hostname_of_name(name).as_deref(), expected, "{name}");
        }
        assert_eq!(
            hostname_of_name(&"x".repeat(99)).map(|text| text.len()),
            Some(LABEL_CHARS_MAX)
        );
    }
}
