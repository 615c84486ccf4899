//! The line of an event, with the fields of the CADF standard where it has them.

use std::net::SocketAddr;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::Serialize;

use crate::event::{Caller, Event, Outcome};
use crate::note::HeldAllocations;

/// The most bytes of one text of a client; the rest of the text is left out of the line.
const TEXT_BYTES_MAX: usize = 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    event_time: Time,
    event_type: &'static str,
    action: String,
    outcome: &'static str,
    reason: ReasonField<'a>,
    initiator: Initiator<'a>,
    target: Target<'a>,
    observer: Observer,
    request: Request<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    #[serde(skip_serializing_if = "<[HeldAllocations]>::is_empty")]
    held: &'a [HeldAllocations],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReasonField<'a> {
    reason_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

#[derive(Serialize)]
struct Initiator<'a> {
    #[serde(rename = "typeURI")]
    type_uri: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_scope: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    roles: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    service_user_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<Credential<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<Host>,
}

#[derive(Serialize)]
struct Credential<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<&'a str>,
}

#[derive(Serialize)]
struct Host {
    address: SocketAddr,
}

#[derive(Serialize)]
struct Target<'a> {
    #[serde(rename = "typeURI")]
    type_uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    ids: &'a [String],
}

#[derive(Serialize)]
struct Observer {
    #[serde(rename = "typeURI")]
    type_uri: String,
    id: &'static str,
}

#[derive(Serialize)]
struct Request<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    global_id: Option<&'a str>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    path: &'a str,
}

/// The line that tells how many lines are missing before it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LeftOut {
    event_time: Time,
    event_type: &'static str,
    action: &'static str,
    outcome: &'static str,
    observer: Observer,
    left_out: u64,
}

/// A time in UTC, to the microsecond.
struct Time(SystemTime);

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = Timestamp::try_from(self.0).unwrap_or_default();
        serializer.collect_str(&format_args!("{time:.6}"))
    }
}

/// Appends the line of an event, with a line end.
pub(crate) fn write(event: &Event, output: &mut Vec<u8>) {
    let notes = &event.noted;
    let parameter = event
        .route
        .and_then(|route| first_parameter(route, &event.path));
    let created_id = || event.location.as_deref()?.rsplit('/').next();
    let id = parameter.or_else(created_id).map(truncated);
    let id = id.or_else(|| notes.ids.first().map(String::as_str));
    let line = Line {
        event_time: Time(event.at),
        event_type: "activity",
        action: action(event),
        outcome: match event.outcome {
            Outcome::Success => "success",
            Outcome::Failure => "failure",
            Outcome::Unknown => "unknown",
        },
        reason: ReasonField {
            reason_type: event.reason.kind,
            reason_code: event.reason.code.as_deref(),
            text: event.reason.text.as_deref().map(truncated),
        },
        initiator: initiator(&event.caller),
        target: Target {
            type_uri: target_type_uri(event),
            id,
            ids: if notes.ids.len() > 1 { &notes.ids } else { &[] },
        },
        observer: observer(event.service),
        request: Request {
            id: event.request_id.as_deref(),
            global_id: event.global_request_id.as_deref(),
            method: truncated(&event.method),
            route: event.route,
            path: truncated(&event.path),
        },
        sequence: notes.sequence,
        held: &notes.held,
    };
    append_line(&line, output);
}

/// Appends a line with the number of lines that are missing before it.
pub(crate) fn write_left_out(left_out: u64, time: SystemTime, output: &mut Vec<u8>) {
    let line = LeftOut {
        event_time: Time(time),
        event_type: "monitor",
        action: "leave out",
        outcome: "failure",
        observer: observer("audit"),
        left_out,
    };
    append_line(&line, output);
}

fn append_line(line: &impl Serialize, output: &mut Vec<u8>) {
    let start = output.len();
    match serde_json::to_writer(&mut *output, line) {
        Ok(()) => output.push(b'\n'),
        // No value of a line fails to serialize. Part of a line would make the next line invalid.
        Err(_) => output.truncate(start),
    }
}

fn initiator(caller: &Caller) -> Initiator<'_> {
    let has_credential = caller.issuer.is_some() || caller.certificate.is_some();
    Initiator {
        type_uri: "service/security/account/user",
        id: caller.user.as_deref().map(truncated),
        project_id: caller.project.as_deref().map(truncated),
        domain_id: caller.domain.as_deref().map(truncated),
        system_scope: caller.system.as_deref().map(truncated),
        roles: &caller.roles,
        service_user_id: caller.service_user.as_deref().map(truncated),
        credential: has_credential.then_some(Credential {
            issuer: caller.issuer,
            certificate: caller.certificate.as_deref(),
        }),
        host: caller.address.map(|address| Host { address }),
    }
}

fn observer(service: &str) -> Observer {
    Observer {
        type_uri: format!("service/{service}"),
        id: "placewright",
    }
}

/// CADF's action for the method; `update/` and the name of the action, if the body of the request names one.
fn action(event: &Event) -> String {
    let verb = match event.method.as_str() {
        "POST" => "create",
        "PUT" | "PATCH" => "update",
        "DELETE" => "delete",
        "GET" | "HEAD" => "read",
        "connect" | "authenticate" => "authenticate",
        _ => "evaluate",
    };
    match &event.noted.action {
        Some(name) => format!("update/{}", truncated(name)),
        None => verb.to_owned(),
    }
}

/// CADF's type of the target of a route: the service and the fixed parts of the path, without the version `v1` with
/// which paths of Placewright's own API begin.
fn target_type_uri(event: &Event) -> String {
    let mut type_uri = format!("service/{}", event.service);
    let words = event.route.unwrap_or("").split('/');
    for word in words.filter(|word| !word.is_empty() && !word.starts_with('{') && *word != "v1") {
        type_uri.push('/');
        type_uri.push_str(word);
    }
    type_uri
}

/// The value of a route's first parameter in a path; none if the route has no parameter. Route and path are compared
/// from the end, because paths of the compute API begin with a version, and maybe a project, which its routes do not
/// have.
fn first_parameter<'p>(route: &str, path: &'p str) -> Option<&'p str> {
    let mut first_value = None;
    for (name, value) in route.rsplit('/').zip(path.rsplit('/')) {
        if name.starts_with('{') {
            first_value = Some(value);
        }
    }
    first_value
}

/// The text, truncated to [`TEXT_BYTES_MAX`].
fn truncated(text: &str) -> &str {
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    let mut end = TEXT_BYTES_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reason, RequestNotes};

    fn event() -> Event {
        Event {
            at: SystemTime::UNIX_EPOCH,
            service: "compute",
            method: "POST".to_owned(),
            route: Some("/servers/{server_id}/action"),
            path: "/v2.1/servers/5a0e/action".to_owned(),
            request_id: Some("req-1".to_owned()),
            global_request_id: None,
            caller: Caller {
                user: Some("anna\"\n".to_owned()),
                issuer: Some("keystone"),
                address: "[::1]:7".parse().ok(),
                ..Caller::default()
            },
            outcome: Outcome::Success,
            reason: Reason {
                kind: "HTTP",
                code: Some("202".to_owned()),
                text: None,
            },
            location: None,
            noted: RequestNotes {
                sequence: Some(9),
                action: Some("resize".to_owned()),
                ..RequestNotes::default()
            },
        }
    }

    fn text(event: &Event) -> String {
        let mut output = Vec::new();
        write(event, &mut output);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_line_has_the_request_the_caller_and_the_outcome() {
        assert_eq!(
            text(&event()),
            r#"{"eventTime":"1970-01-01T00:00:00.000000Z","eventType":"activity","action":"update/resize","outcome":"success","reason":{"reasonType":"HTTP","reasonCode":"202"},"initiator":{"typeURI":"service/security/account/user","id":"anna\"\n","credential":{"issuer":"keystone"},"host":{"address":"[::1]:7"}},"target":{"typeURI":"service/compute/servers/action","id":"5a0e"},"observer":{"typeURI":"service/compute","id":"placewright"},"request":{"id":"req-1","method":"POST","route":"/servers/{server_id}/action","path":"/v2.1/servers/5a0e/action"},"sequence":9}"#
                .to_owned()
                + "\n"
        );
    }

    #[test]
    fn events_have_one_line_of_bounded_length() {
        let mut long_event = event();
        long_event.path = "ä\n".repeat(100_000);
        long_event.reason.text = Some("\u{2028}\r\n".repeat(100_000));
        let text = text(&long_event);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.len() < 8 << 10, "{}", text.len());
    }

    #[test]
    fn parameters_are_found_behind_any_prefix() {
        let route = "/servers/{server_id}/tags/{tag}";
        let path = "/v2.1/project/servers/one/tags/two";
        assert_eq!(first_parameter(route, path), Some("one"));
        assert_eq!(first_parameter("/servers", "/v2.1/servers"), None);
    }
}
