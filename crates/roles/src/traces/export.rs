//! Sends spans to the collector: OTLP over HTTP, as JSON, which every receiver of OTLP over HTTP takes.

use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use placewright_errors::chain;
use placewright_spans::{Span, Tracer, Value};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value as Json, json};

/// The most spans in one request.
const BATCH_MAX: usize = 512;
/// How long further spans are gathered after the first one of a batch.
const GATHER_TIME: Duration = Duration::from_millis(500);
/// The time-out of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many times a batch is sent at most before it is dropped.
const TRIES_MAX: u32 = 4;
/// The wait after the first failure of a batch; each further wait is twice as long.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The statuses after which, by the specification of OTLP, a client may send a batch again. After any other status the
/// batch is dropped.
const RETRIED_STATUSES: [StatusCode; 4] = [
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

/// The task that sends.
pub(crate) struct Exporter {
    tracer: &'static Tracer,
    url: String,
    /// Whether the last attempt to send succeeded; true before the first one. With it, the log says once that the
    /// collector is away, and once that it is back.
    is_well: bool,
}

impl Exporter {
    pub(crate) fn new(tracer: &'static Tracer) -> Self {
        Self {
            tracer,
            url: format!("{}/v1/traces", tracer.options().url.trim_end_matches('/')),
            is_well: true,
        }
    }

    pub(crate) async fn run(mut self) -> Infallible {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // The installation fails only if another provider was installed meanwhile, which serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            // Spans go to the configured address only: not to a proxy that the environment names, and not to the target
            // of a redirect.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build();
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                tracing::error!(error = chain(&error), "spans cannot be sent");
                return std::future::pending().await;
            }
        };
        loop {
            let spans = self.tracer.take(BATCH_MAX);
            if spans.is_empty() {
                self.tracer.wait_for_spans().await;
                tokio::time::sleep(GATHER_TIME).await;
                continue;
            }
            self.send(&client, &spans).await;
        }
    }

    /// Sends a batch, if necessary several times. Counts its spans as sent or as dropped.
    async fn send(&mut self, client: &reqwest::Client, spans: &[Span]) {
        let body = request(&self.tracer.options().service, spans).to_string();
        let mut wait = RETRY_PAUSE;
        for tries in 1..=TRIES_MAX {
            let json = HeaderValue::from_static("application/json");
            let request = client.post(&self.url).header(CONTENT_TYPE, json);
            let mut may_retry = true;
            let why = match request.body(body.clone()).send().await {
                Ok(answer) if answer.status().is_success() => {
                    let were_sent = true;
                    self.tracer.count_ended(spans.len(), were_sent);
                    if !std::mem::replace(&mut self.is_well, true) {
                        tracing::info!(url = self.url, "the collector of traces takes spans again");
                    }
                    return;
                }
                Ok(answer) => {
                    may_retry = RETRIED_STATUSES.contains(&answer.status());
                    format!("it answered {}", answer.status())
                }
                Err(error) => chain(&error),
            };
            if std::mem::replace(&mut self.is_well, false) {
                tracing::warn!(
                    url = self.url,
                    why,
                    "the collector of traces takes no spans"
                );
            }
            if !may_retry {
                break;
            }
            if tries < TRIES_MAX {
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
        }
        let were_sent = false;
        self.tracer.count_ended(spans.len(), were_sent);
    }
}

/// The body of a request: `ExportTraceServiceRequest` in JSON.
fn request(service: &str, spans: &[Span]) -> Json {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        ("service.name", Value::from(service)),
        ("service.version", Value::from(version)),
        ("process.pid", Value::Number(i64::from(std::process::id()))),
    ];
    let resource = resource.map(|(name, value)| attribute(name, &value));
    let spans: Vec<Json> = spans.iter().map(span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": "placewright", "version": version}, "spans": spans}],
    }]})
}

fn span(span: &Span) -> Json {
    let attributes = span.attributes.iter();
    let attributes: Vec<Json> = attributes
        .map(|(name, value)| attribute(name, value))
        .collect();
    let status = match &span.error {
        // `STATUS_CODE_ERROR`.
        Some(why) => json!({"code": 2, "message": why}),
        None => json!({}),
    };
    let mut json = json!({
        "traceId": format!("{:032x}", span.context.trace),
        "spanId": format!("{:016x}", span.context.span),
        "name": span.name,
        "kind": span.kind as u8,
        // Numbers of 64 bits are texts in the JSON of protocol buffers.
        "startTimeUnixNano": nanoseconds(span.start).to_string(),
        "endTimeUnixNano": nanoseconds(span.end).to_string(),
        "attributes": attributes,
        "status": status,
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    json
}

fn attribute(name: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({"stringValue": text}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
    };
    json!({"key": name, "value": value})
}

/// Nanoseconds since the beginning of 1970, as OTLP counts them.
fn nanoseconds(time: SystemTime) -> u128 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_nanos()
}
