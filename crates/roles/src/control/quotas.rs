//! Quotas: the configured limits, and Keystone's, which are read again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use placewright_auth::{LimitsReader, NamedLimits, ServiceLimits};
use placewright_conductor::quota::{Limits, Resource};
use placewright_control::{ControlHandle, Runtime, UnifiedLimits};
use placewright_errors::chain;
use placewright_tasks::Task;

use super::option_conversion;
use crate::config::ConfigErrors;
use crate::options::{Options, QuotaDriver};

/// The type of this service in Keystone's catalog.
const SERVICE_TYPE: &str = "compute";

/// The reader of Keystone's limits, if they are to hold. Does not contact Keystone yet.
///
/// # Errors
///
/// Keystone is not configured.
pub(super) fn reader(options: &Options) -> Result<Option<LimitsReader>, ConfigErrors> {
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

/// Puts the configured quotas in force, and starts the task that sees to them.
///
/// # Errors
///
/// Keystone is not configured although its limits are to hold, or the store does not accept them.
pub(super) async fn start(options: &Options, runtime: &Arc<Runtime>) -> anyhow::Result<()> {
    let compute = &options.compute;
    let reader = reader(options)?;
    let control = runtime.conductor().clone();
    let defaults = compute.quota_defaults.0.clone();
    let configured = control.configure_quotas(defaults, reader.is_some());
    let configured = configured.await;
    configured.context("the quotas cannot be put in force")?;
    let seconds = u64::try_from(compute.quota_refresh_s.get()).unwrap_or(1);
    let every = Duration::from_secs(seconds);
    let run = run(Arc::clone(runtime), control, reader, every);
    placewright_tasks::spawn(Task::ControlQuotas, run);
    Ok(())
}

/// Counts what a release without quotas accepted; then reads Keystone's limits for ever.
async fn run(
    runtime: Arc<Runtime>,
    control: ControlHandle,
    reader: Option<LimitsReader>,
    every: Duration,
) {
    let options = runtime
        .ranker()
        .decide(|scheduler, _| scheduler.translate_options());
    match control.count_old_instances(&options).await {
        Ok(0) => {}
        Ok(instances) => tracing::info!(instances, "counted for quotas for the first time"),
        Err(error) => tracing::warn!(%error, "old instances are not counted for quotas"),
    }
    drop(runtime);
    let Some(reader) = reader else {
        return std::future::pending().await;
    };
    let mut fails = false;
    loop {
        let told = match reader.read().await {
            Ok(limits) => {
                let taken = control.take_unified_limits(of_keystone(limits)).await;
                taken.map_err(|error| chain(&error))
            }
            Err(error) => Err(error.to_string()),
        };
        match &told {
            Ok(()) if fails => tracing::info!("the limits are read from Keystone again"),
            Err(error) if !fails => {
                tracing::warn!(
                    error,
                    "the limits known last hold: Keystone's cannot be read"
                );
            }
            _ => {}
        }
        fails = told.is_err();
        tokio::time::sleep(every).await;
    }
}

/// Keystone's limits, by our resources. Limits of what this service does not limit are left out.
fn of_keystone(limits: ServiceLimits) -> UnifiedLimits {
    let own = |named: NamedLimits| -> Limits {
        let known = named.into_iter();
        known
            .filter_map(|(name, limit)| Some((Resource::parse_unified(&name)?, limit)))
            .collect()
    };
    UnifiedLimits {
        registered: own(limits.registered),
        projects: BTreeMap::from_iter(
            limits
                .projects
                .into_iter()
                .map(|(project, limits)| (project, own(limits))),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keystone_s_names_are_nova_s() {
        let named = |all: &[(&str, i64)]| -> NamedLimits {
            let all = all.iter();
            all.map(|(name, limit)| ((*name).to_owned(), *limit))
                .collect()
        };
        let limits = of_keystone(ServiceLimits {
            registered: named(&[
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
