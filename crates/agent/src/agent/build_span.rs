//! The span of the work that makes a guest, for traces.

use placewright_conductor::Spec;
use placewright_records::server::traceparent;
use placewright_spans::{Kind, OpenSpan, SpanContext, Tracer, tracer};

use crate::host::{Outcome, Work};

/// The span of a piece of work while it is carried out; nothing if it is not recorded.
pub(super) struct BuildSpan(Option<(OpenSpan, &'static Tracer)>);

impl BuildSpan {
    /// Begins the span of work, if it makes the first guest of a server whose request is recorded. Nothing is read
    /// unless traces are recorded.
    pub(super) fn begin(work: &Work, host: &str) -> Self {
        let Some(tracer) = tracer().filter(|_| work.makes_guest) else {
            return Self(None);
        };
        let order = work.order.as_ref();
        let request = order.and_then(|order| request(&order.spec));
        Self(request.map(|request| {
            let (instance, number) = work.guest;
            let build = request.build_of(instance.0);
            let mut span = OpenSpan::below(build, Kind::Consumer, "build on the host");
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
            // What drivers say may have secrets of the guest, and any length. The server's fault has it.
            Outcome::Failed { .. } => span.fail("the driver failed"),
            Outcome::Cancelled => span.fail("the work was cancelled"),
        }
        span.end(tracer);
    }
}

/// The span of the API request that created the server, if it is recorded. Moves take it out of the specification, so that
/// guests that they make are not counted to that request.
fn request(spec: &Spec) -> Option<SpanContext> {
    SpanContext::parse(&traceparent(&spec.body)?)
}
