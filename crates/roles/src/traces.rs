//! Traces: the tracer of a role's process, and the sending of its spans.

use std::future::Future;
use std::time::Duration;

use crate::options::TraceOptions;

mod export;

use export::Exporter;

/// How long a process that ends waits until the collector has the last spans.
const LAST_SPANS_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs a role. If a collector is configured, requests are recorded, and their spans are sent meanwhile.
pub(crate) async fn exporting<T>(options: &TraceOptions, role: impl Future<Output = T>) -> T {
    let Some(url) = &options.otlp_url else {
        return role.await;
    };
    placewright_spans::install(placewright_spans::TraceOptions {
        url: url.0.clone(),
        service: options.service.clone(),
        share: options.share.0,
    });
    let Some(tracer) = placewright_spans::tracer() else {
        return role.await;
    };
    let mut exporting = std::pin::pin!(Exporter::new(tracer).run());
    let ended = tokio::select! {
        ended = role => ended,
        never = &mut exporting => match never {},
    };
    tokio::select! {
        never = exporting => match never {},
        () = placewright_spans::all_sent() => {}
        () = tokio::time::sleep(LAST_SPANS_TIMEOUT) => {}
    }
    ended
}
