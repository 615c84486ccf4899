//! The span of the work that makes a guest, for traces.

use placewright_conductor::Spec;
use placewright_records::server::traceparent;
use placewright_spans::{Kind, OpenSpan, SpanContext, Tracer, tracer};

use crate::host::{Outcome, Work};

/// The open span of a piece of work that is being carried out; `None` if no span is recorded for the work.
pub(super) struct BuildSpan(Option<(OpenSpan, &'static Tracer)>);

impl BuildSpan {
    /// Begins a span if the work makes the first guest of a server, and the API request that created the server is
    /// recorded. The order is parsed only if this process records traces.
    pub(super) fn begin(work: &Work, host: &str) -> Self {
        let Some(tracer) = tracer().filter(|_| work.makes_guest) else {
            return Self(None);
        };
        let order = work.order.as_ref();
        let request_span = order.and_then(|order| request_span(&order.spec));
        Self(request_span.map(|request_span| {
            let (instance, number) = work.guest;
            let build_span = request_span.build_span_of(instance.0);
            let mut span = OpenSpan::below(build_span, Kind::Consumer, "build on the host");
            span.add("placewright.server", instance.to_string());
            span.add("placewright.host", host);
            span.add("placewright.guest", number as usize);
            (span, tracer)
        }))
    }

    pub(super) fn end(self, outcome: &Outcome) {
        let Some((mut span, tracer)) = self.0 else {
            return;
        };
        match outcome {
            Outcome::Done => {}
            // The driver's message is left out, because it may contain secrets of the guest and may be long. The
            // owner finds the message in the server's fault.
            Outcome::Failed { .. } => span.fail("the driver failed"),
            Outcome::Cancelled => span.fail("the work was cancelled"),
        }
        span.end(tracer);
    }
}

/// The span of the API request that created the server; `None` if that request is not recorded. A move removes the span
/// from the specification: a guest that a move makes is no work of the request that created the server.
fn request_span(spec: &Spec) -> Option<SpanContext> {
    SpanContext::parse(&traceparent(&spec.body)?)
}
