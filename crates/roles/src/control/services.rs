//! Creates control's REST services.

use std::sync::Arc;
use std::time::Duration;

use placewright_api_compute::{ComputeOptions, ComputeService, Images, Limits};
use placewright_api_placement::PlacementService;
use placewright_api_scheduler::SchedulerService;
use placewright_audit_log::AuditLog;
use placewright_control::{Placement, Runtime, SchedulerHandle};
use placewright_http::{AdmissionControl, Gateway, HttpService, Server};

use super::api_threads::ApiThreads;
use super::descriptors::ConnectionLimits;
use super::option_conversion;
use super::replica::ControlReplica;
use super::tls::Tls;
use crate::config::ConfigErrors;
use crate::options::{ComputeApiOptions, Options};

/// A server with the limits of its listener, and with TLS if the listener has it.
pub(super) fn http_server(
    service: Arc<dyn HttpService>,
    connection_limits: ConnectionLimits,
    tls: &Tls,
    section: &str,
) -> Server {
    let server = Server::new(service).with_limits(connection_limits.api);
    server.with_tls(tls.acceptor(section))
}

/// Completes the gateway with admission control, the audit log, the threads for costly requests, and a
/// readiness check that reports when the store fails.
pub(super) fn complete_gateway(
    gateway: Gateway,
    (admission, audit_log): (&AdmissionControl, Option<AuditLog>),
    threads: &ApiThreads,
    placement: &Placement,
) -> Arc<Gateway> {
    let (store, confirmed) = (placement.clone(), placement.clone());
    let readiness = move || store.why_not_ready();
    let gateway = gateway
        .with_admission(admission.clone())
        .with_audit_log(audit_log)
        .with_costly_work(threads.costly_executor())
        .with_confirmation(move || confirmed.confirming());
    Arc::new(gateway.with_readiness(readiness))
}

/// The Placement API on the handle of placement.
pub(super) fn placement_api(
    options: &Options,
    gateway: &Arc<Gateway>,
    placement: Placement,
    replica: &Option<ControlReplica>,
) -> Arc<PlacementService> {
    let gateway = Arc::clone(gateway);
    let service = PlacementService::new(gateway, placement, option_conversion::placement(options));
    service.set_store(options.store.location());
    if let Some(replica) = replica {
        service.set_hand_over(replica.hand_over());
    }
    Arc::new(service)
}

/// The scheduler API on the handles of placement and of the scheduler.
pub(super) fn scheduler_api(
    options: &Options,
    gateway: &Arc<Gateway>,
    placement: &Placement,
    ranker: &SchedulerHandle,
) -> SchedulerService {
    let (gateway, placement) = (Arc::clone(gateway), placement.clone());
    SchedulerService::new(
        gateway,
        placement,
        ranker.clone(),
        option_conversion::candidate_retention(options),
    )
}

/// The compute API of a running control.
pub(super) fn compute_api(
    options: &Options,
    gateway: &Arc<Gateway>,
    runtime: &Runtime,
) -> anyhow::Result<ComputeService> {
    let images = match &options.compute.images_file {
        Some(path) => Images::load(path.clone()).map_err(|error| {
            let error = crate::config::chain(&error);
            ConfigErrors(vec![format!("compute.images_file: {error}")])
        })?,
        None => Images::default(),
    };
    let limits = limits(&options.compute);
    let options = ComputeOptions {
        public_url: options.compute.public_url.clone(),
        limits,
        translate: runtime
            .scheduler()
            .with_state(|scheduler, _| scheduler.translate_options()),
        images: Arc::new(images),
    };
    Ok(ComputeService::new(Arc::clone(gateway), runtime, options))
}

/// The limits of the compute API's requests.
fn limits(options: &ComputeApiOptions) -> Limits {
    let match_ms_max = u64::try_from(options.match_ms_max.get()).unwrap_or(u64::MAX);
    Limits {
        server_body_bytes_max: options.server_body_bytes_max.count(),
        body_bytes_max: options.body_bytes_max.count(),
        reservation_bytes_max: options.reservation_bytes_max.count(),
        hint_bytes_max: options.hint_bytes_max.count(),
        parameters_max: options.parameters_max.count(),
        pattern_chars_max: options.pattern_chars_max.count(),
        match_time_max: Duration::from_millis(match_ms_max),
        page_bytes_max: options.page_bytes_max.count(),
        project_bytes_max: options.project_bytes_max.count() as u64,
        keypairs_max: options.keypairs_max.count(),
        server_groups_max: options.server_groups_max.count(),
        server_group_members_max: options.server_group_members_max.count(),
    }
}
