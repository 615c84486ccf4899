//! The span of a request, for traces.

use hyper::http::request::Parts;
use placewright_spans::{Kind, OpenSpan, SpanContext, tracer};

/// The header with the span of the caller (W3C Trace Context).
const TRACEPARENT: &str = "traceparent";

/// The span of a request while it is handled; nothing if it is not recorded.
#[derive(Debug, Default)]
pub(crate) struct RequestSpan(Option<OpenSpan>);

impl RequestSpan {
    /// Begins the span of a request, as a child of the caller's span. Does nothing unless traces are recorded. `method`
    /// is the label of the request's method.
    pub(crate) fn begin(parts: &Parts, method: &'static str) -> Self {
        let Some(tracer) = tracer() else {
            return Self(None);
        };
        // A caller may send only one such header; if there are several, none counts.
        let mut headers = parts.headers.get_all(TRACEPARENT).iter();
        let header = headers.next().filter(|_| headers.next().is_none());
        let header = header.and_then(|header| header.to_str().ok());
        let begun = tracer.begin_request(header);
        let span = begun.map(|(context, parent)| {
            let mut span = OpenSpan::begin(context, parent, Kind::Server, method);
            span.add("http.request.method", method);
            span
        });
        Self(span)
    }

    /// The span as the parent of others; none if the request is not recorded.
    pub(crate) fn context(&self) -> Option<SpanContext> {
        self.0.as_ref().map(OpenSpan::context)
    }

    /// Ends the span. `status` is that of the response; none if the client went away before.
    pub(crate) fn end(&mut self, route: &'static str, request_id: &str, status: Option<u16>) {
        let (Some(mut span), Some(tracer)) = (self.0.take(), tracer()) else {
            return;
        };
        span.extend_name(" ");
        span.extend_name(route);
        span.add("http.route", route);
        span.add("placewright.request_id", request_id);
        match status {
            Some(status) => {
                span.add("http.response.status_code", usize::from(status));
                if status >= 500 {
                    span.fail("the service failed");
                }
            }
            None => span.fail("the client went away"),
        }
        span.end(tracer);
    }

    /// Drops the span: the request is not worth one.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}
