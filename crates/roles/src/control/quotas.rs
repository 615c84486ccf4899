//! Quotas: applies the configured limits, and reads Keystone's limits periodically.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use placewright_auth::{LimitsReader, NamedLimits, ServiceLimits};
use placewright_conductor::quota::{Limits, Resource};
use placewright_control::{ControlHandle, LimitSource, Runtime, UnifiedLimits};
use placewright_errors::chain;
use placewright_tasks::Task;

use super::option_conversion;
use crate::config::ConfigErrors;
use crate::options::{Options, QuotaDriver};

/// The type of this service in Keystone's catalog.
const SERVICE_TYPE: &str = "compute";

/// Creates the reader of Keystone's limits, if the options select these. Keystone is not contacted yet.
///
/// # Errors
///
/// Keystone is not configured.
pub(super) fn create_reader(options: &Options) -> Result<Option<LimitsReader>, ConfigErrors> {
    let compute = &options.compute;
    if compute.quota_driver != QuotaDriver::Unified {
        return Ok(None);
    }
    let keystone = option_conversion::keystone(options);
    let reader = LimitsReader::new(&keystone, SERVICE_TYPE, compute.quota_region.clone());
    let reader = reader.map_err(|error| {
        ConfigErrors(vec![format!(
            "compute.quota_driver is unified: {}",
            chain(&error)
        )])
    })?;
    Ok(Some(reader))
}

/// Applies the configured quotas, and starts the task that reads Keystone's limits.
///
/// # Errors
///
/// Keystone is not configured although its limits are to be used, or the store cannot be written.
pub(super) async fn start(options: &Options, runtime: &Arc<Runtime>) -> anyhow::Result<()> {
    let compute = &options.compute;
    let reader = create_reader(options)?;
    let control = runtime.control().clone();
    let defaults = compute.quota_defaults.0.clone();
    let source = match reader {
        Some(_) => LimitSource::Keystone,
        None => LimitSource::Configuration,
    };
    let configured = control.configure_quotas(defaults, source);
    let configured = configured.await;
    configured.context("the quotas cannot be put in force")?;
    let seconds = u64::try_from(compute.quota_refresh_s.get()).unwrap_or(1);
    let interval = Duration::from_secs(seconds);
    let run = run(Arc::clone(runtime), control, reader, interval);
    placewright_tasks::spawn(Task::ControlQuotas, run);
    Ok(())
}

/// Counts the instances that a release without quotas accepted. Then reads Keystone's limits at each `interval`, if
/// there is a `reader`.
async fn run(
    runtime: Arc<Runtime>,
    control: ControlHandle,
    reader: Option<LimitsReader>,
    interval: Duration,
) {
    let options = runtime
        .scheduler()
        .with_state(|scheduler, _| scheduler.translate_options());
    match control.count_uncounted_instances(&options).await {
        Ok(0) => {}
        Ok(instances) => tracing::info!(instances, "counted for quotas for the first time"),
        Err(error) => tracing::warn!(%error, "old instances are not counted for quotas"),
    }
    // The task must not keep the runtime alive.
    drop(runtime);
    let Some(reader) = reader else {
        return std::future::pending().await;
    };
    let mut has_failed = false;
    loop {
        let result = match reader.read().await {
            Ok(limits) => {
                let applied = control.set_unified_limits(unified_limits(limits)).await;
                applied.map_err(|error| chain(&error))
            }
            Err(error) => Err(error.to_string()),
        };
        match &result {
            Ok(()) if has_failed => tracing::info!("the limits are read from Keystone again"),
            Err(error) if !has_failed => {
                tracing::warn!(
                    error,
                    "the limits known last hold: Keystone's cannot be read"
                );
            }
            _ => {}
        }
        has_failed = result.is_err();
        tokio::time::sleep(interval).await;
    }
}

/// Converts Keystone's limits. Limits of resources that this service does not limit are left out.
fn unified_limits(limits: ServiceLimits) -> UnifiedLimits {
    let known_limits = |named: NamedLimits| -> Limits {
        let named_limits = named.into_iter();
        named_limits
            .filter_map(|(name, limit)| Some((Resource::parse_unified(&name)?, limit)))
            .collect()
    };
    UnifiedLimits {
        registered: known_limits(limits.registered),
        projects: BTreeMap::from_iter(
            limits
                .projects
                .into_iter()
                .map(|(project, limits)| (project, known_limits(limits))),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_in_keystone_have_the_names_that_nova_uses() {
        let named_limits = |limits: &[(&str, i64)]| -> NamedLimits {
            let limits = limits.iter();
            limits
                .map(|(name, limit)| ((*name).to_owned(), *limit))
                .collect()
        };
        let limits = unified_limits(ServiceLimits {
            registered: named_limits(&[
                ("servers", 10),
                ("server_key_pairs", 3),
                ("server_groups", 4),
                ("server_metadata_items", 128),
                ("class:VCPU", 20),
                ("cores", 1),
            ]),
            projects: BTreeMap::new(),
        });
        let expected = [
            (Resource::Instances, 10),
            (Resource::KeyPairs, 3),
            (Resource::ServerGroups, 4),
            (Resource::Class("VCPU".into()), 20),
        ];
        assert_eq!(limits.registered, expected.into());
    }
}
