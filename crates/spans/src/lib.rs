//! Spans of requests for OpenTelemetry: what was done for a request, where and how long, from the API call to the
//! running server.
//!
//! Without a collector there is no [`Tracer`], and each place that could make a span only reads one atomic pointer.
//! With a collector, a span is put into a bounded queue, from which the role sends it
//! (`crates/roles/src/traces/export.rs`): this crate knows nothing of HTTP. Nothing ever waits for the queue or for the
//! collector: a span for which there is no room is dropped and counted.
//!
//! Between roles the context of a request goes with the specification of its servers (`traceparent` of
//! `placewright-types`), so that it needs no messages of its own, and outlives restarts and changes of the leader.
//! Releases that do not know `traceparent` pass it on. If another role has to name a span, the span's id is
//! [derived](SpanContext::build_span_of) from the trace and the server, so it need not be sent.

mod context;
mod span;
mod tracer;

pub use context::{SpanContext, current, with_context};
pub use span::{Kind, OpenSpan, Span, Value};
pub use tracer::{TraceOptions, Tracer, all_sent, install, register, tracer};
