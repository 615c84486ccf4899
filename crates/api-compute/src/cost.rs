//! Which requests are costly: they may take milliseconds, and run on threads of their own.
//!
//! The threads that serve sockets call this module, before the request has a seat and before its project is charged. So
//! it must be fast even for large bodies. They are searched with SIMD instructions, which takes tens of microseconds
//! for the largest body; a search byte by byte would take a millisecond. A client could slow the search down with a
//! body in which it finds very many matches. So it gives up after a number of matches, and counts the body as costly.

use placewright_http::Cost;

/// Listings whose cost grows with the fleet, or with the number of servers, flavors, server groups or key pairs.
const LISTS: [&str; 19] = [
    "/servers",
    "/servers/detail",
    "/servers/{server_id}/os-instance-actions",
    "/servers/{server_id}/migrations",
    "/os-migrations",
    "/flavors",
    "/flavors/detail",
    "/os-server-groups",
    "/os-aggregates",
    "/os-availability-zone",
    "/os-availability-zone/detail",
    "/os-services",
    "/os-hypervisors",
    "/os-hypervisors/detail",
    "/os-hypervisors/statistics",
    "/os-hypervisors/{hypervisor_id}/search",
    "/os-hypervisors/{hypervisor_id}/servers",
    "/os-keypairs",
    "/placewright/topology",
];

/// The fields with which a body requests several servers.
const COUNT_FIELDS: [&[u8]; 2] = [b"\"min_count\"", b"\"max_count\""];

/// The beginning of the escape of a character below `U+0100` in a JSON text.
const ESCAPE: &[u8] = b"\\u00";

/// A body with more escapes is taken for one that hides names. The names and metadata of a server in a language with
/// accents have far fewer.
const ESCAPES_MAX: usize = 10_000;

/// If the names of [`COUNT_FIELDS`] occur in a body more often than this, the body is taken for one that requests the
/// maximum number of servers.
const COUNTS_MAX: usize = 100;

/// The maximum number of servers of one request; a larger number is refused when the body is parsed.
const INSTANCES_MAX: u32 = 1000;

/// Whether a request is costly: a long listing, a large body, or several servers to build.
pub(crate) fn is_costly(path: &str, method: &str, body: &[u8]) -> bool {
    match method {
        "GET" => LISTS.contains(&path),
        _ => {
            // A long body takes long to parse.
            Cost::OfBody.is_high(body.len())
                || path == "/servers"
                    && (hides_names(body) || count_field_ends(body).next().is_some())
        }
    }
}

/// Estimates how many servers a request creates, before its body is parsed.
pub(crate) fn instance_count(path: &str, method: &str, body: &[u8]) -> u32 {
    if (path, method) != ("/servers", "POST") {
        return 0;
    }
    if hides_names(body) {
        return INSTANCES_MAX;
    }
    let counts = count_field_ends(body).enumerate().map(|(index, end)| {
        if index < COUNTS_MAX {
            leading_number(&body[end..])
        } else {
            INSTANCES_MAX
        }
    });
    let counts = counts.take(COUNTS_MAX + 1);
    counts.max().unwrap_or(1).clamp(1, INSTANCES_MAX)
}

/// The positions in a body at which the names of [`COUNT_FIELDS`] end.
fn count_field_ends(body: &[u8]) -> impl Iterator<Item = usize> + '_ {
    COUNT_FIELDS.into_iter().flat_map(move |name| {
        let starts = memchr::memmem::find_iter(body, name);
        starts.map(move |start| start + name.len())
    })
}

/// Whether a JSON text has an escape such as `\u0063` for a small letter or an underscore. In a field's name it
/// would hide the field from the search in the undecoded text. Encoders escape other characters only; Go's, for
/// example, escapes `<` and `&`. A text with more than [`ESCAPES_MAX`] escapes counts as one that has such an escape.
fn hides_names(body: &[u8]) -> bool {
    let mut escapes = memchr::memmem::find_iter(body, ESCAPE).enumerate();
    escapes.any(|(index, start)| {
        let escaped = &body[start + ESCAPE.len()..];
        index >= ESCAPES_MAX || matches!(escaped, [b'6' | b'7', _, ..] | [b'5', b'f' | b'F', ..])
    })
}

/// The number with which a text begins, after blanks, a colon, quotation marks and a plus sign; 0 if there is none, and
/// [`INSTANCES_MAX`] if it has an escape, which may stand for a digit or a sign.
fn leading_number(text: &[u8]) -> u32 {
    let is_before = |byte: &&u8| byte.is_ascii_whitespace() || matches!(byte, b':' | b'"' | b'+');
    let mut number = 0_u32;
    for byte in text.iter().skip_while(is_before) {
        match byte {
            b'0'..=b'9' => {
                let digit = u32::from(byte - b'0');
                number = number.saturating_mul(10).saturating_add(digit);
            }
            b'\\' => return INSTANCES_MAX,
            _ => break,
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::TABLE;

    #[test]
    fn an_escaped_field_name_hides_no_servers() {
        let hidden = br#"{"server": {"max_coun\u0074": 1000}}"#;
        assert!(is_costly("/servers", "POST", hidden));
        assert_eq!(instance_count("/servers", "POST", hidden), INSTANCES_MAX);
        let many = format!(
            r#"{{"server": {{"name": "{}"}}}}"#,
            r"\u00e9".repeat(10_001)
        );
        assert_eq!(
            instance_count("/servers", "POST", many.as_bytes()),
            INSTANCES_MAX
        );
        let plain = br#"{"server": {"name": "caf\u00e9 \u0026 \n"}}"#;
        assert!(!is_costly("/servers", "POST", plain));
        assert_eq!(instance_count("/servers", "POST", plain), 1);
    }

    #[test]
    fn only_the_fields_for_counts_count() {
        let metadata = br#"{"server": {"metadata": {"core_count": "64"}}}"#;
        assert!(!is_costly("/servers", "POST", metadata));
        assert_eq!(instance_count("/servers", "POST", metadata), 1);
        let several = br#"{"server": {"min_count": 2, "max_count" : "30"}}"#;
        assert!(is_costly("/servers", "POST", several));
        assert_eq!(instance_count("/servers", "POST", several), 30);
    }

    #[test]
    fn the_lists_are_paths_of_the_table() {
        for path in LISTS {
            let route = TABLE.iter().find(|route| route.path == path);
            let has_get = |route: &crate::routes::Route| {
                let mut operations = route.operations.iter();
                operations.any(|operation| operation.method == "GET")
            };
            assert!(route.is_some_and(has_get), "{path}");
        }
    }

    #[test]
    fn requests_for_several_servers_and_large_bodies_are_costly() {
        for (path, method, body, expected) in [
            ("/servers/detail", "GET", "", true),
            ("/servers/{server_id}", "GET", "", false),
            ("/servers", "POST", r#"{"server": {"name": "a"}}"#, false),
            ("/servers", "POST", r#"{"server": {"max_count": 9}}"#, true),
            ("/os-keypairs", "POST", r#"{"max_count": 9}"#, false),
            ("/os-keypairs", "POST", &" ".repeat(20_000), true),
        ] {
            assert_eq!(is_costly(path, method, body.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn the_number_of_servers_is_read_before_the_body_is_parsed() {
        for (body, expected) in [
            (r#"{"server": {"name": "a"}}"#, 1),
            (r#"{"server": {"min_count": 3, "max_count" : "20"}}"#, 20),
            (r#"{"server": {"max_count": 100000000000}}"#, 1000),
            (r#"{"server": {"max_count": null}}"#, 1),
            (r#"{"server": {"max_count""#, 1),
            (r#"{"server": {"max_count": "+900"}}"#, 900),
            (r#"{"server": {"max_count": "\u0031000"}}"#, 1000),
            (r#"{"server": {"max_count": "1\u0030\u0030\u0030"}}"#, 1000),
        ] {
            assert_eq!(
                instance_count("/servers", "POST", body.as_bytes()),
                expected,
                "{body}"
            );
        }
        for (names, expected) in [(100, 1), (101, INSTANCES_MAX)] {
            let names = r#""min_count": 1, "#.repeat(names);
            let body = format!(r#"{{"server": {{{names}"name": "a"}}}}"#);
            assert_eq!(
                instance_count("/servers", "POST", body.as_bytes()),
                expected
            );
        }
        assert_eq!(instance_count("/servers", "GET", b""), 0);
        assert_eq!(instance_count("/os-keypairs", "POST", b""), 0);
    }
}
