//! The line of an event, in CADF's words where they fit.

use std::net::SocketAddr;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::Serialize;

use crate::event::{Caller, Event, Outcome};
use crate::note::Held;

/// The most bytes of a text that a client chose.
const TEXT_BYTES_MAX: usize = 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "eventTime")]
    at: Time,
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
    #[serde(skip_serializing_if = "<[Held]>::is_empty")]
    held: &'a [Held],
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
    kind: &'static str,
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
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    ids: &'a [String],
}

#[derive(Serialize)]
struct Observer {
    #[serde(rename = "typeURI")]
    kind: String,
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
        let at = Timestamp::try_from(self.0).unwrap_or_default();
        serializer.collect_str(&format_args!("{at:.6}"))
    }
}

/// Adds the line of an event, with its end.
pub(crate) fn write(event: &Event, out: &mut Vec<u8>) {
    let noted = &event.noted;
    let parameter = event.route.and_then(|route| parameter(route, &event.path));
    let created = || event.location.as_deref()?.rsplit('/').next();
    let id = parameter.or_else(created).map(cut);
    let id = id.or_else(|| noted.ids.first().map(String::as_str));
    let line = Line {
        at: Time(event.at),
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
            text: event.reason.text.as_deref().map(cut),
        },
        initiator: initiator(&event.caller),
        target: Target {
            kind: kind_of_target(event),
            id,
            ids: if noted.ids.len() > 1 { &noted.ids } else { &[] },
        },
        observer: observer(event.service),
        request: Request {
            id: event.request_id.as_deref(),
            global_id: event.global_request_id.as_deref(),
            method: cut(&event.method),
            route: event.route,
            path: cut(&event.path),
        },
        sequence: noted.sequence,
        held: &noted.held,
    };
    append(&line, out);
}

/// Adds a line that tells how many lines are missing before it.
pub(crate) fn write_left_out(left_out: u64, at: SystemTime, out: &mut Vec<u8>) {
    let line = LeftOut {
        event_time: Time(at),
        event_type: "monitor",
        action: "leave out",
        outcome: "failure",
        observer: observer("audit"),
        left_out,
    };
    append(&line, out);
}

fn append(line: &impl Serialize, out: &mut Vec<u8>) {
    let start = out.len();
    match serde_json::to_writer(&mut *out, line) {
        Ok(()) => out.push(b'\n'),
        // Nothing in a line can fail to be written; half a line would spoil the next.
        Err(_) => out.truncate(start),
    }
}

fn initiator(caller: &Caller) -> Initiator<'_> {
    let has_credential = caller.issuer.is_some() || caller.certificate.is_some();
    Initiator {
        kind: "service/security/account/user",
        id: caller.user.as_deref().map(cut),
        project_id: caller.project.as_deref().map(cut),
        domain_id: caller.domain.as_deref().map(cut),
        system_scope: caller.system.as_deref().map(cut),
        roles: &caller.roles,
        service_user_id: caller.service_user.as_deref().map(cut),
        credential: has_credential.then_some(Credential {
            issuer: caller.issuer,
            certificate: caller.certificate.as_deref(),
        }),
        host: caller.address.map(|address| Host { address }),
    }
}

fn observer(service: &str) -> Observer {
    Observer {
        kind: format!("service/{service}"),
        id: "placewright",
    }
}

/// CADF's word for what the method does; with the name of the action, if the body had one.
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
        Some(name) => format!("update/{}", cut(name)),
        None => verb.to_owned(),
    }
}

/// The kind of what a route is about: its service and the words of its path.
fn kind_of_target(event: &Event) -> String {
    let mut kind = format!("service/{}", event.service);
    let words = event.route.unwrap_or("").split('/');
    for word in words.filter(|word| !word.is_empty() && !word.starts_with('{') && *word != "v1") {
        kind.push('/');
        kind.push_str(word);
    }
    kind
}

/// The first parameter of a route in a path. They are matched from the end, because paths of the
/// compute API begin with a version and maybe a project, of which its routes know nothing.
fn parameter<'p>(route: &str, path: &'p str) -> Option<&'p str> {
    let mut found = None;
    for (name, value) in route.rsplit('/').zip(path.rsplit('/')) {
        if name.starts_with('{') {
            found = Some(value);
        }
    }
    found
}

/// A text up to the most bytes that a line has of it.
fn cut(text: &str) -> &str {
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
    use crate::{Noted, Reason};

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
            noted: Noted {
                sequence: Some(9),
                action: Some("resize".to_owned()),
                ..Noted::default()
            },
        }
    }

    fn text(event: &Event) -> String {
        let mut out = Vec::new();
        write(event, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_tells_who_did_what() {
        assert_eq!(
            text(&event()),
            r#"{"eventTime":"1970-01-01T00:00:00.000000Z","eventType":"activity","action":"update/resize","outcome":"success","reason":{"reasonType":"HTTP","reasonCode":"202"},"initiator":{"typeURI":"service/security/account/user","id":"anna\"\n","credential":{"issuer":"keystone"},"host":{"address":"[::1]:7"}},"target":{"typeURI":"service/compute/servers/action","id":"5a0e"},"observer":{"typeURI":"service/compute","id":"placewright"},"request":{"id":"req-1","method":"POST","route":"/servers/{server_id}/action","path":"/v2.1/servers/5a0e/action"},"sequence":9}"#
                .to_owned()
                + "\n"
        );
    }

    #[test]
    fn lines_are_one_line_and_bounded() {
        let mut long = event();
        long.path = "ä\n".repeat(100_000);
        long.reason.text = Some("\u{2028}\r\n".repeat(100_000));
        let text = text(&long);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.len() < 8 << 10, "{}", text.len());
    }

    #[test]
    fn parameters_are_found_behind_any_prefix() {
        let route = "/servers/{server_id}/tags/{tag}";
        let path = "/v2.1/project/servers/one/tags/two";
        assert_eq!(parameter(route, path), Some("one"));
        assert_eq!(parameter("/servers", "/v2.1/servers"), None);
    }
}
