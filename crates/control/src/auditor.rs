//! Runs audits periodically and on request, with repairs where wanted.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Serialize;

use crate::audit::{Suspicions, search};
use crate::finding::{Finding, FindingKind};
use crate::options::RepairOptions;
use crate::repair::repair_all;
use crate::runtime_context::RuntimeContext;

/// The number of findings of each kind in the latest audit, for Prometheus.
#[derive(Clone, Debug, Default)]
pub struct AuditMetrics {
    findings: Family<KindLabel, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

impl AuditMetrics {
    /// Registers the metrics with Prometheus's registry.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.sub_registry_with_prefix("placewright").register(
            "audit_findings",
            "Inconsistencies that the latest audit found, by kind",
            metrics.findings.clone(),
        );
        metrics
    }

    fn set_counts(&self, findings: &[Finding]) {
        let mut counts: HashMap<FindingKind, i64> = HashMap::new();
        for finding in findings {
            *counts.entry(finding.kind).or_default() += 1;
        }
        for kind in FindingKind::ALL {
            let label = KindLabel { kind: kind.name() };
            let count = counts.get(&kind).copied().unwrap_or(0);
            self.findings.get_or_create(&label).set(count);
        }
    }
}

/// The result of an audit.
#[derive(Clone, Debug, Serialize)]
pub struct AuditReport {
    /// The inconsistencies that both searches found.
    pub findings: Vec<Finding>,
    /// The number of findings that were repaired.
    pub repaired: usize,
}

/// Audits instances, cells and hosts against each other and against placement. Runs repairs, and
/// updates the metrics.
pub struct Auditor {
    context: Arc<RuntimeContext>,
    metrics: AuditMetrics,
}

impl fmt::Debug for Auditor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Auditor").finish_non_exhaustive()
    }
}

impl Auditor {
    pub(crate) fn new(context: Arc<RuntimeContext>, metrics: AuditMetrics) -> Self {
        Self { context, metrics }
    }

    /// Searches twice, and returns the inconsistencies that both searches found. Updates the metrics.
    pub(crate) async fn check(&self) -> Vec<Finding> {
        let first = self.search().await;
        let mut findings = Vec::new();
        if !first.is_empty() {
            tokio::time::sleep(self.context.control.options().confirm_after).await;
            let again = self.search().await;
            let both = again.into_iter().filter(|(key, _)| first.contains_key(key));
            findings = both.map(|(_, finding)| finding).collect();
        }
        self.metrics.set_counts(&findings);
        findings
    }

    async fn search(&self) -> Suspicions {
        let context = Arc::clone(&self.context);
        // A search takes a while with many instances, so it must not block a thread of the runtime.
        let searched =
            tokio::task::spawn_blocking(move || search(&context.control, &context.scheduler));
        searched.await.unwrap_or_default()
    }

    /// Audits periodically, as long as the task lives.
    pub(crate) async fn run(self: Arc<Self>) {
        self.metrics.set_counts(&[]);
        let mut last_count = 0;
        loop {
            tokio::time::sleep(self.context.control.options().audit_every).await;
            if !self.context.leading.is_own() {
                // Another replica leads, so that one audits.
                self.metrics.set_counts(&[]);
                last_count = 0;
                continue;
            }
            let findings = self.check().await;
            if findings.len() != last_count {
                last_count = findings.len();
                if let Some(finding) = findings.first() {
                    tracing::warn!(
                        findings = findings.len(),
                        kind = finding.kind.name(),
                        id = %finding.id,
                        "something does not add up: see `placewright audit`"
                    );
                }
            }
        }
    }

    /// Audits once. With `repair`, the findings are repaired where possible.
    pub async fn audit(&self, repair: Option<RepairOptions>) -> AuditReport {
        let mut findings = self.check().await;
        let repaired = match repair {
            Some(options) => repair_all(&self.context, &mut findings, options).await,
            None => 0,
        };
        AuditReport { findings, repaired }
    }
}
