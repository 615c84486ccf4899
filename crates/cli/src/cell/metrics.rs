//! What Prometheus can ask a cell.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use placewright_cell::Cell;
use placewright_tasks::{Contained, spawn_contained};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::control::panics;

/// Registers a cell's figures.
pub(super) fn register(registry: &mut Registry, cell: &Arc<Cell>) {
    panics::register(registry);
    let registry = registry.sub_registry_with_prefix("placewright_cell");
    registry.register_collector(Box::new(Figures(Arc::downgrade(cell))));
}

#[derive(Debug)]
struct Figures(Weak<Cell>);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(cell) = self.0.upgrade() else {
            return Ok(());
        };
        let figures = cell.figures();
        for (name, help, value) in [
            (
                "instances",
                "Instances that the cell has",
                figures.instances,
            ),
            ("hosts", "Hosts that were ever heard of", figures.hosts),
            (
                "hosts_up",
                "Hosts whose agents are heard of",
                figures.hosts_up,
            ),
            ("followers", "Followers", figures.followers),
            (
                "queued_events",
                "Events that wait to be decided",
                figures.queued,
            ),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        for (name, help, value) in [
            ("connections", "Connections of agents", figures.connections),
            ("orders", "Orders sent to agents", figures.orders),
            (
                "orders_dropped",
                "Orders that found no connection or a full one, and are repeated",
                figures.orders_dropped,
            ),
            ("asks", "Asks that placement answered", figures.asks),
            (
                "asks_failed",
                "Asks that placement did not answer, and are repeated",
                figures.asks_failed,
            ),
            (
                "repeated",
                "Orders and asks that were repeated because nothing was heard",
                figures.repeated,
            ),
            (
                "followers_cut_off",
                "Followers that took nothing for too long",
                figures.followers_cut_off,
            ),
        ] {
            let counter = ConstCounter::new(value);
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        Ok(())
    }
}

/// Answers `GET /metrics` until the process ends.
pub(super) async fn serve(listener: TcpListener, registry: Registry) {
    let registry = Arc::new(registry);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No file descriptors left, say.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let registry = Arc::clone(&registry);
        spawn_contained(Contained::HttpConnection, async move {
            let answer = service_fn(|request| {
                let answer = answer(&request, &registry);
                async { Ok::<_, Infallible>(answer) }
            });
            // A client that goes away, or speaks no HTTP, does not matter.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(75))
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

fn answer(request: &Request<Incoming>, registry: &Registry) -> Response<Full<Bytes>> {
    let mut text = String::new();
    let status = if request.uri().path() != "/metrics" {
        text.push_str("there is nothing but /metrics here\n");
        StatusCode::NOT_FOUND
    } else if ![Method::GET, Method::HEAD].contains(request.method()) {
        StatusCode::METHOD_NOT_ALLOWED
    } else if prometheus_client::encoding::text::encode(&mut text, registry).is_err() {
        StatusCode::INTERNAL_SERVER_ERROR
    } else {
        StatusCode::OK
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response
        .headers_mut()
        .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}
