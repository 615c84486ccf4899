//! Creates control's REST services.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use placewright_api_compute::{ComputeOptions, ComputeService, Limits};
use placewright_api_image::{FolderError, ImageFolder, ImageService};
use placewright_api_network::NetworkService;
use placewright_api_placement::PlacementService;
use placewright_api_scheduler::SchedulerService;
use placewright_audit_log::AuditLog;
use placewright_control::{Placement, Runtime, SchedulerHandle};
use placewright_http::{AdmissionControl, Gateway};
use placewright_ui::{FleetHandle, Forwarded, SignIn, UiService};
use uuid::Uuid;

use super::api_servers::{ApiServers, ListenerParts};
use super::api_threads::ApiThreads;
use super::catalog::catalog;
use super::compute_settings::ComputeSettings;
use super::option_conversion;
use super::own_identity::OwnIdentity;
use super::replica::ControlReplica;
use super::sockets::{ListeningSocket, Sockets};
use crate::config::ConfigErrors;
use crate::options::{AuthStrategy, ComputeApiOptions, Options};

/// Adds further parts to the gateway: admission control; the audit log; the threads for costly requests; the
/// confirmation, before each read, that the state has all entries of the journal; and the readiness check, which
/// reports when the store fails.
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

/// The Placement API on the handles of placement and of the scheduler.
fn placement_api(
    options: &Options,
    gateway: &Arc<Gateway>,
    placement: Placement,
    scheduler: SchedulerHandle,
    replica: &Option<ControlReplica>,
) -> Arc<PlacementService> {
    let gateway = Arc::clone(gateway);
    let service = PlacementService::new(gateway, placement, option_conversion::placement(options));
    service.set_store(options.store.location());
    service.set_cell_services(Box::new(move || scheduler.cell_services()));
    if let Some(replica) = replica {
        service.set_hand_over(replica.hand_over());
        service.set_followers(replica.followers());
    }
    Arc::new(service)
}

/// The scheduler API on the handles of placement and of the scheduler.
fn scheduler_api(
    options: &Options,
    gateway: &Arc<Gateway>,
    placement: &Placement,
    scheduler: &SchedulerHandle,
    replica: &Option<ControlReplica>,
) -> Arc<SchedulerService> {
    let (gateway, placement) = (Arc::clone(gateway), placement.clone());
    let keep_options = option_conversion::candidate_retention(options);
    let service = SchedulerService::new(gateway, placement, scheduler.clone(), keep_options);
    if let Some(replica) = replica {
        replica.share_memory(&service, scheduler);
    }
    Arc::new(service)
}

/// The services that do not need the conductor.
pub(super) struct CommonServices {
    pub(super) placement: Arc<PlacementService>,
    pub(super) scheduler: Arc<SchedulerService>,
    /// The view of the hosts for the page.
    pub(super) fleet: FleetHandle,
}

impl CommonServices {
    /// The services on the handles of placement and of the scheduler.
    pub(super) fn new(
        options: &Options,
        gateway: &Arc<Gateway>,
        (placement, scheduler): (Placement, &SchedulerHandle),
        replica: &Option<ControlReplica>,
    ) -> Self {
        Self {
            scheduler: scheduler_api(options, gateway, &placement, scheduler, replica),
            placement: placement_api(options, gateway, placement, scheduler.clone(), replica),
            fleet: FleetHandle::new(scheduler.clone()),
        }
    }
}

/// The servers of all APIs that have a socket, and the parts of the identity API besides its server. The compute, image
/// and identity APIs need the conductor.
///
/// # Errors
///
/// A file or folder in the options cannot be used, or the system refuses a socket.
pub(super) async fn add_apis(
    options: &Options,
    gateway: &Arc<Gateway>,
    runtime: Option<&Runtime>,
    services: CommonServices,
    (sockets, images): (Sockets, Option<ImageFolder>),
    parts: &mut ListenerParts<'_>,
) -> anyhow::Result<(ApiServers, Option<OwnIdentity>)> {
    let mut apis = ApiServers::default();
    let (placement, scheduler) = (services.placement, services.scheduler);
    // The services to which the page for operators and tenants forwards requests of browsers.
    let mut forwarded: Forwarded = vec![
        ("placement", Arc::clone(&placement) as _),
        ("scheduler", Arc::clone(&scheduler) as _),
    ];
    if let Some(runtime) = runtime {
        if sockets.compute.is_some() {
            let service = Arc::new(compute_api(options, gateway, runtime)?);
            forwarded.push(("compute", Arc::clone(&service) as _));
            apis.add("compute", service, sockets.compute, parts)?;
        }
        if let Some(folder) = images {
            let service = image_api(options, gateway, runtime, folder).await?;
            apis.add("image", Arc::new(service), sockets.image, parts)?;
        }
    }
    let network = Arc::new(NetworkService::new(
        Arc::clone(gateway),
        options.network.public_url.clone(),
    ));
    apis.add("network", network, sockets.network, parts)?;
    apis.add("scheduler", scheduler, sockets.scheduler, parts)?;
    apis.add("placement", placement, Some(sockets.placement), parts)?;
    let socket = ListeningSocket::open_maybe(sockets.identity, parts.inherited)?;
    let own_identity = match socket.zip(runtime) {
        None => None,
        Some((socket, runtime)) => {
            // The identity API is added after the others, because its catalog has their addresses.
            let own_address = socket.listener.local_addr()?;
            let catalog = catalog(options, parts.tls, own_address, &apis)?;
            let address = (own_address, catalog);
            let (own_identity, service) = OwnIdentity::start(options, gateway, runtime, address)?;
            let service = Arc::new(service);
            forwarded.push(("identity", Arc::clone(&service) as _));
            apis.push("identity", service, socket, parts);
            Some(own_identity)
        }
    };
    let gateway = Arc::clone(gateway);
    let page = UiService::new(gateway, services.fleet, sign_in(options), forwarded);
    apis.add("ui", Arc::new(page), sockets.ui, parts)?;
    Ok((apis, own_identity))
}

/// How users of the page prove who they are.
fn sign_in(options: &Options) -> SignIn {
    match options.auth.strategy {
        AuthStrategy::Noauth2 => SignIn::Noauth2,
        AuthStrategy::HttpBasic => SignIn::HttpBasic,
        AuthStrategy::Keystone => SignIn::Keystone,
        AuthStrategy::Identity => SignIn::Identity,
    }
}

/// Opens the folder of images, on a thread that may block. `None` without an image API.
///
/// # Errors
///
/// The folder cannot be made or written to.
pub(super) async fn open_image_folder(
    options: &Options,
    sockets: &Sockets,
) -> anyhow::Result<Option<ImageFolder>> {
    if sockets.image.is_none() {
        return Ok(None);
    }
    let path = options.image.folder.clone();
    let path = path.unwrap_or_else(|| options.store.directory().join("images"));
    let folder = tokio::task::spawn_blocking(|| ImageFolder::open(path)).await?;
    let folder = folder.map_err(|error: FolderError| {
        let error = crate::config::chain(&error);
        ConfigErrors(vec![format!("image.folder: {error}")])
    })?;
    Ok(Some(folder))
}

/// The image API of a running control. Old files in the folder that belong to no image are removed first.
async fn image_api(
    options: &Options,
    gateway: &Arc<Gateway>,
    runtime: &Runtime,
    folder: ImageFolder,
) -> anyhow::Result<ImageService> {
    let control = runtime.control().clone();
    // The images whose bytes are in the folder.
    let stored_images = control.read(|state, _| {
        let images = state.conductor.images().iter();
        let with_bytes = images.filter(|(_, image)| image.content.is_some());
        with_bytes.map(|(id, _)| *id).collect::<BTreeSet<Uuid>>()
    });
    let stored_images = stored_images.await;
    let clean_up = move || {
        match folder.remove_left_over(|image| stored_images.contains(&image)) {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "files of unfinished images were removed"),
            Err(error) => tracing::warn!(%error, "the folder of images cannot be cleaned up"),
        }
        folder
    };
    let folder = tokio::task::spawn_blocking(clean_up).await?;
    let options = option_conversion::image(options);
    Ok(ImageService::new(
        Arc::clone(gateway),
        control,
        folder,
        options,
    ))
}

/// The compute API of a running control.
fn compute_api(
    options: &Options,
    gateway: &Arc<Gateway>,
    runtime: &Runtime,
) -> anyhow::Result<ComputeService> {
    let settings = ComputeSettings::read(options)?;
    let limits = limits(&options.compute);
    let compute = ComputeOptions {
        public_url: options.compute.public_url.clone(),
        limits,
        translate: runtime
            .scheduler()
            .with_state(|scheduler, _| scheduler.translate_options()),
        images: Arc::new(settings.images),
        device_profiles: Arc::new(settings.device_profiles),
        serves_images: options.image.listen.is_some(),
        serves_network_api: options.network.listen.is_some(),
        visible_topology: settings.visible_topology,
    };
    Ok(ComputeService::new(Arc::clone(gateway), runtime, compute))
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
