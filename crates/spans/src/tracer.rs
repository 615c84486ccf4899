//! The queue of spans of this process.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::sync::Notify;

use crate::context::SpanContext;
use crate::span::{OpenSpan, Span};

/// How many spans may wait for the collector. Each takes half a kilobyte.
const QUEUED_MAX: usize = 16_384;

/// The interval at which [`all_sent`] checks whether spans are unsent.
const ALL_SENT_CHECK: Duration = Duration::from_millis(20);

/// The tracer of this process, once there is one.
static TRACER: OnceLock<Tracer> = OnceLock::new();

/// Which traces are recorded, and where they are sent.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// The address of the collector to which `/v1/traces` is appended, for OTLP over HTTP.
    pub url: String,
    /// The name of the service, by which collectors find its spans.
    pub service: String,
    /// Which share of the requests without the header `traceparent` is recorded, from 0 to 1.
    pub share: f64,
}

/// The spans of this process that are to be sent.
#[derive(Debug)]
pub struct Tracer {
    options: TraceOptions,
    queue: Mutex<VecDeque<Span>>,
    wake: Notify,
    /// How many spans are in the queue, or are being sent. `Relaxed` is enough, because nothing else is read on the
    /// strength of this number.
    unsent: AtomicUsize,
    /// Counts requests, so that a share of them can be recorded.
    requests: AtomicU64,
    sent: Counter,
    dropped: Counter,
}

/// The tracer of this process; none if no collector is configured.
#[must_use]
pub fn tracer() -> Option<&'static Tracer> {
    TRACER.get()
}

/// Makes the tracer of this process. A second call does nothing.
pub fn install(options: TraceOptions) {
    // Setting fails only if there is a tracer already.
    let _ = TRACER.set(Tracer::new(options));
}

/// Registers the metrics of the tracer, if there is one.
pub fn register(registry: &mut Registry) {
    let Some(tracer) = tracer() else { return };
    registry.register(
        "trace_spans_sent",
        "Spans that the collector of traces has accepted",
        tracer.sent.clone(),
    );
    registry.register(
        "trace_spans_dropped",
        "Spans that were dropped because the collector of traces is away or too slow",
        tracer.dropped.clone(),
    );
}

/// Waits until no span is left to be sent. If spans are left and no task sends them, this waits for ever.
pub async fn all_sent() {
    while tracer().is_some_and(|tracer| tracer.unsent.load(Ordering::Relaxed) > 0) {
        tokio::time::sleep(ALL_SENT_CHECK).await;
    }
}

impl Tracer {
    /// A tracer with an empty queue.
    #[must_use]
    pub fn new(options: TraceOptions) -> Self {
        Self {
            options,
            queue: Mutex::default(),
            wake: Notify::new(),
            unsent: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            sent: Counter::default(),
            dropped: Counter::default(),
        }
    }

    /// The span of a new request and the id of its parent. `parent` is the text of the header `traceparent`. `None` if
    /// the request is not recorded: the header says so, or there is no header and the request is not in the configured
    /// share.
    #[must_use]
    pub fn begin_request(&self, parent: Option<&str>) -> Option<(SpanContext, Option<u64>)> {
        match parent.and_then(SpanContext::parse) {
            Some(parent) => (parent.is_sampled).then(|| (parent.sibling(), Some(parent.span))),
            None => (self.is_in_share()).then(|| (SpanContext::new_trace(), None)),
        }
    }

    /// Whether the next request is one of the configured share. Recorded requests are spread evenly over all.
    fn is_in_share(&self) -> bool {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        #[allow(
            clippy::cast_precision_loss,
            reason = "exact for as many requests as there will ever be"
        )]
        let before = number as f64 * self.options.share;
        (before + self.options.share).floor() > before.floor()
    }

    /// Queues a span. If there is no room it is dropped and counted.
    pub fn record(&self, span: Span) {
        {
            let mut queue = self.queue.lock();
            if queue.len() >= QUEUED_MAX {
                self.dropped.inc();
                return;
            }
            queue.push_back(span);
            self.unsent.fetch_add(1, Ordering::Relaxed);
        }
        self.wake.notify_one();
    }

    /// Counts spans that were taken out of the queue, and then sent or, if not `were_sent`, given up.
    pub fn count_ended(&self, count: usize, were_sent: bool) {
        let counter = match were_sent {
            true => &self.sent,
            false => &self.dropped,
        };
        counter.inc_by(count as u64);
        self.unsent.fetch_sub(count, Ordering::Relaxed);
    }

    /// Waits until spans were queued since the last call.
    pub async fn wait_for_spans(&self) {
        self.wake.notified().await;
    }

    /// Takes the oldest spans, at most `count_max`, out of the queue. The caller has to report later whether they were
    /// sent, by [`Self::count_ended`].
    pub fn take(&self, count_max: usize) -> Vec<Span> {
        let mut queue = self.queue.lock();
        let count = count_max.min(queue.len());
        queue.drain(..count).collect()
    }

    /// Which traces are recorded, and where they are sent.
    #[must_use]
    pub fn options(&self) -> &TraceOptions {
        &self.options
    }
}

impl OpenSpan {
    /// Ends it now, and queues it to be sent.
    pub fn end(self, tracer: &Tracer) {
        tracer.record(self.ended());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;
    use crate::span::Kind;

    fn tracer(share: f64) -> Tracer {
        Tracer::new(TraceOptions {
            url: String::new(),
            service: String::new(),
            share,
        })
    }

    #[test]
    fn callers_decide_and_of_other_requests_a_share_is_recorded() {
        const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0";
        for (share, count) in [(0.0, 0), (0.25, 25), (1.0, 100)] {
            let tracer = tracer(share);
            let begun = (0..100).filter_map(|_| tracer.begin_request(None));
            assert_eq!(begun.count(), count);
            let (context, parent) = tracer.begin_request(Some(&format!("{PARENT}1"))).unwrap();
            assert_eq!(parent, Some(0x00f0_67aa_0ba9_02b7));
            assert_eq!(context.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
            assert_eq!(tracer.begin_request(Some(&format!("{PARENT}0"))), None);
        }
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let tracer = tracer(1.0);
        let context = SpanContext::new_trace();
        for _ in 0..QUEUED_MAX + 3 {
            OpenSpan::below(context, Kind::Internal, "x").end(&tracer);
        }
        assert_eq!(tracer.dropped.get(), 3);
        assert_eq!(tracer.take(usize::MAX).len(), QUEUED_MAX);
    }
}
