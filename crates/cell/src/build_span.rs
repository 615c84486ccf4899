//! The spans of builds in a cell: from the acceptance of the server to its first running guest, or to the last failure.

use std::time::{Duration, SystemTime};

use placewright_conductor::cell_conductor::{Change, State};
use placewright_conductor::{Action, InstanceId};
use placewright_placement::Timestamp;
use placewright_records::server::traceparent;
use placewright_spans::{Kind, Span, SpanContext, Tracer, Value};

/// The name of the action of a first build.
const CREATE: &str = "create";

/// The spans of the builds that ended with these changes.
pub(crate) fn of_changes(state: &State, entries: &[Vec<Change>]) -> Vec<Span> {
    let changes = entries.iter().flatten();
    let ended = changes.filter_map(|change| match change {
        Change::Action((instance, _), Some(action)) if action.name == CREATE => {
            span(state, *instance, action)
        }
        _ => None,
    });
    ended.collect()
}

/// The span of one build; `None` if it has not ended, or if the request that created the server is not traced.
fn span(state: &State, instance: InstanceId, action: &Action) -> Option<Span> {
    let finished_at = action.finished_at?;
    let spec = state.specs().get(&instance)?;
    let request = SpanContext::parse(&traceparent(&spec.body)?)?;
    let host = action
        .attempts
        .last()
        .map(|attempt| attempt.host.to_string());
    // A server that is deleted or given up while it is built has no fault, and no attempt that succeeded.
    let last = action.attempts.last();
    let is_built = last.is_some_and(|attempt| attempt.failure.is_none());
    let status = match action.fault {
        Some(_) => "ERROR",
        None if is_built => "ACTIVE",
        None => "GIVEN_UP",
    };
    let mut attributes = vec![
        ("placewright.server", instance.to_string().into()),
        ("placewright.status", status.into()),
        ("placewright.attempts", action.attempts.len().into()),
    ];
    let code = action.fault.as_ref().map(|fault| usize::from(fault.code));
    attributes.extend(code.map(|code| ("placewright.fault_code", code.into())));
    attributes.extend(host.map(|host| ("placewright.host_uuid", Value::from(host))));
    Some(Span {
        context: request.build_span_of(instance.0),
        parent: Some(request.span),
        name: "build in the cell".to_owned(),
        kind: Kind::Consumer,
        start: time(action.started_at),
        end: time(finished_at),
        attributes,
        // The fault's message is not recorded, because it may contain the output of a driver, which may be long or have
        // secrets. The compute API shows the message with the server.
        error: (status != "ACTIVE").then(|| "the server was not built".to_owned()),
    })
}

fn time(timestamp: Timestamp) -> SystemTime {
    let since = u64::try_from(timestamp.0).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_micros(since)
}

/// Queues spans for the collector.
pub(crate) fn record(tracer: &Tracer, spans: Vec<Span>) {
    spans.into_iter().for_each(|span| tracer.record(span));
}
