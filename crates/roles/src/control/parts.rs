//! Parts of a running control that are made from the options.

use std::sync::Arc;

use placewright_api_placement::PlacementService;
use placewright_auth::{Authenticator, Policy};
use placewright_control::{
    AuditMetrics, ControlHandle, ControlMachine, PlacementMetrics, Runtime, SchedulerHandle,
    register_replica_metrics,
};
use placewright_engine::Engine;
use placewright_http::{AdmissionControl, Gateway, HttpMetrics, HttpOptions};
use placewright_rpc::{ServeOptions, Token};
use placewright_secrets::Sealer;
use prometheus_client::registry::Registry;

use super::descriptors::ConnectionLimits;
use super::option_conversion;
use super::sockets::Sockets;
use super::tls::Tls;
use crate::identities::ControlIdentity;
use crate::options::Options;
use crate::secrets;

/// The gateway, with the metrics that are read from the engine.
pub(super) fn new_gateway(
    (options, metrics, mut registry): (HttpOptions, HttpMetrics, Registry),
    engine: &Engine<ControlMachine>,
    authenticator: Authenticator,
    policy: Policy,
) -> Gateway {
    register_replica_metrics(&mut registry, engine);
    Gateway::new(options, authenticator, policy, metrics, Arc::new(registry))
}

/// The options of the gRPC server for cells, and for the other replicas.
pub(super) fn grpc_options(
    options: &Options,
    limits: ConnectionLimits,
    (token, identity, tls): (&Option<Token>, &ControlIdentity, &Tls),
) -> ServeOptions {
    ServeOptions {
        token: token.clone(),
        credentials: identity.credentials.clone(),
        handshakes: tls.handshakes_of_roles(),
        ..option_conversion::grpc_for_cells(options, limits.for_cells)
    }
}

/// Starts the conductor's runtime on the engine. Without a sealer there is no conductor, and the result is `None`.
pub(super) fn start_conductor(
    options: &Options,
    engine: &Engine<ControlMachine>,
    scheduler: SchedulerHandle,
    placement_service: &PlacementService,
    ((audits, placements), sealer, admission): (
        (AuditMetrics, PlacementMetrics),
        Option<Sealer>,
        AdmissionControl,
    ),
) -> anyhow::Result<Option<Arc<Runtime>>> {
    let Some(sealer) = sealer else {
        return Ok(None);
    };
    let options = option_conversion::conductor(options);
    let control = ControlHandle::with_sealer(engine.clone(), options, sealer, placements);
    let runtime = Runtime::start(control, scheduler)?;
    // While several projects send requests, instances are placed no faster than requests for them are accepted.
    runtime.limit_pace(admission.time_per_instance(), move || admission.is_shared());
    placement_service.set_audit(runtime.start_audits(audits));
    Ok(Some(runtime))
}

/// Reads the keys for secrets, on a thread that may block, because a command may have to be run to get them. `None`
/// without a conductor: there is nothing to seal then, and no key is needed.
pub(super) async fn open_sealer(
    options: &Options,
    cells: usize,
    sockets: &Sockets,
    registry: &mut Registry,
) -> anyhow::Result<Option<Sealer>> {
    let has_cells = cells > 0 || !options.control.cells.0.is_empty();
    if !has_cells && !sockets.need_conductor() {
        return Ok(None);
    }
    let (options, store) = (options.secrets.clone(), options.store.directory());
    let read = tokio::task::spawn_blocking(move || secrets::open_sealer(&options, &store));
    let sealer = read.await??;
    secrets::register(registry.sub_registry_with_prefix("placewright"), &sealer);
    Ok(Some(sealer))
}
