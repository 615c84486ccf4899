//! Prometheus metrics of TLS.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::tls::session::TlsSession;

/// Counters of all listeners that speak TLS.
#[derive(Debug, Clone, Default)]
pub struct TlsMetrics {
    handshakes: Family<HandshakeLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    under_way: Gauge,
    plain_refused: Family<ListenerLabels, Counter>,
    expiry: Family<ListenerLabels, Gauge>,
    reloads: Family<ReloadLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HandshakeLabels {
    listener: &'static str,
    version: &'static str,
    resumed: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    listener: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabels {
    listener: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    listener: &'static str,
    outcome: &'static str,
}

impl TlsMetrics {
    /// Creates the metrics at zero and registers them as `placewright_tls_*`.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("placewright");
        registry.register(
            "tls_handshakes",
            "TLS handshakes that succeeded, by listener, version and whether a session was resumed",
            metrics.handshakes.clone(),
        );
        registry.register(
            "tls_handshake_failures",
            "TLS handshakes that failed, by listener and reason",
            metrics.failures.clone(),
        );
        registry.register(
            "tls_handshakes_under_way",
            "TLS handshakes that have begun and not ended, with those that wait",
            metrics.under_way.clone(),
        );
        registry.register(
            "tls_plain_refused",
            "Connections without TLS to listeners that take TLS only",
            metrics.plain_refused.clone(),
        );
        registry.register_with_unit(
            "tls_certificate_expiry_timestamp",
            "The time at which the certificate that a listener shows expires, since 1970",
            Unit::Seconds,
            metrics.expiry.clone(),
        );
        registry.register(
            "tls_reloads",
            "How often files of certificates were read again, by listener and outcome",
            metrics.reloads.clone(),
        );
        metrics
    }

    /// The metrics of one listener, whose name is that of its section of the configuration.
    pub fn listener(&self, listener: &'static str) -> ListenerTlsMetrics {
        ListenerTlsMetrics {
            all: self.clone(),
            listener,
        }
    }
}

/// The metrics of one listener.
#[derive(Debug, Clone)]
pub struct ListenerTlsMetrics {
    all: TlsMetrics,
    listener: &'static str,
}

impl ListenerTlsMetrics {
    /// Sets when the listener's certificate expires, in seconds since 1970.
    pub fn set_expiry(&self, at_s: i64) {
        let listener = self.listener;
        self.all
            .expiry
            .get_or_create(&ListenerLabels { listener })
            .set(at_s);
    }

    /// Counts that the listener's files were read again. `is_replaced` is whether that replaced the certificate in
    /// force.
    pub fn count_reload(&self, is_replaced: bool) {
        let labels = ReloadLabels {
            listener: self.listener,
            outcome: if is_replaced { "replaced" } else { "kept" },
        };
        self.all.reloads.get_or_create(&labels).inc();
    }

    pub(crate) fn count_begun(&self) {
        self.all.under_way.inc();
    }

    pub(crate) fn count_ended(&self) {
        self.all.under_way.dec();
    }

    pub(crate) fn count_success(&self, session: &TlsSession) {
        let labels = HandshakeLabels {
            listener: self.listener,
            version: session.version,
            resumed: if session.is_resumed { "yes" } else { "no" },
        };
        self.all.handshakes.get_or_create(&labels).inc();
    }

    pub(crate) fn count_failure(&self, reason: &'static str) {
        let labels = FailureLabels {
            listener: self.listener,
            reason,
        };
        self.all.failures.get_or_create(&labels).inc();
    }

    pub(crate) fn count_plain_refused(&self) {
        let listener = self.listener;
        self.all
            .plain_refused
            .get_or_create(&ListenerLabels { listener })
            .inc();
    }
}
