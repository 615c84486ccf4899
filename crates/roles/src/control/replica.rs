//! A control process that is one of several replicas: its engine, and its gRPC server, which serves the other replicas
//! before it serves anything else.

use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use placewright_api_placement::{HandOver, ListFollowers};
use placewright_api_scheduler::SchedulerService;
use placewright_conductor::{ClaimRequest, ClaimResponse};
use placewright_control::destinations::DestinationsHandle;
use placewright_control::{ControlMachine, SchedulerHandle, now};
use placewright_engine::{Engine, Observer, RecoverError};
use placewright_link::{
    FollowStart, LeaderConnection, LinkError, LinkFuture, PlacementLink, PostedUpdate,
    ReplicaIdentity, ReplicaLink,
};
use placewright_rpc::{
    ClientIdentity, ClientOptions, ServeError, ServeOptions, ServerRole, Services,
};
use placewright_scheduler::host_state::Receipt;
use placewright_scheduler::host_table::HostTable;
use placewright_tasks::{Task, supervise};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::option_conversion;
use super::signals::{Stops, wait_for_stops};
use crate::identities::ControlIdentity;
use crate::options::Options;
use crate::replica::ReplicaGroup;
use crate::store::Store;

/// This process as one of the replicas of control.
pub(super) struct ControlReplica {
    group: Arc<ReplicaGroup<ControlMachine>>,
    /// The link to placement that cells get.
    placement: Arc<LatePlacement>,
    /// The link that the other replicas get.
    control_link: Arc<ControlLink>,
    /// The task of the gRPC server. It ends when `stop` is sent or dropped.
    serving: JoinHandle<Result<(), ServeError>>,
    stop: oneshot::Sender<()>,
}

impl ControlReplica {
    /// Opens the engine, and serves the other replicas.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub(super) async fn start(
        options: &Options,
        address: &str,
        (identity, serve_options): (&ControlIdentity, ServeOptions),
        (listener, observer): (TcpListener, impl Observer),
    ) -> anyhow::Result<Self> {
        let store = Store::of_control(&options.store, option_conversion::journal(options))?;
        let mut engine_options = option_conversion::engine(options);
        engine_options.batch_bytes_max =
            engine_options.batch_bytes_max.min(store.batch_bytes_max());
        let client_options = client_options(identity, &serve_options);
        let own_address = address.to_owned();
        let opened = tokio::task::spawn_blocking(move || -> Result<_, RecoverError> {
            let parts = (engine_options, observer);
            ReplicaGroup::open(store.open()?, parts, &own_address, client_options)
        });
        let group = Arc::new(opened.await??);
        let placement = Arc::<LatePlacement>::default();
        let control_link = Arc::new(ControlLink {
            group_link: group.link(),
            handles: OnceLock::new(),
        });
        let services = Services {
            placement: Some(Arc::clone(&placement) as _),
            certificates: identity.certificate_link(),
            replica: Some(Arc::clone(&control_link) as _),
            ..Services::default()
        };
        let (stop, stopped) = oneshot::channel();
        let serve = placewright_rpc::serve(listener, services, serve_options, async {
            // The sender lives as long as this process serves. Dropping it stops the server, too.
            let _ = stopped.await;
        });
        Ok(Self {
            group,
            placement,
            control_link,
            serving: tokio::spawn(supervise(Task::Serving, serve)),
            stop,
        })
    }

    pub(super) fn engine(&self) -> &Engine<ControlMachine> {
        self.group.engine()
    }

    /// Lets the replicas exchange the data that are only in the memory of each one, not in the journal: offered
    /// candidates, and updates of hosts.
    pub(super) fn share_memory(&self, service: &SchedulerService, scheduler: &SchedulerHandle) {
        service.set_other_replicas(self.group.peers());
        let handles = (service.destinations().clone(), scheduler.clone());
        // This is called once, so there is no other value yet.
        let _ = self.control_link.handles.set(handles);
    }

    /// The function that hands over to another replica at an operator's request.
    pub(super) fn hand_over(&self) -> HandOver {
        let group = Arc::clone(&self.group);
        Box::new(move || {
            let group = Arc::clone(&group);
            Box::pin(async move { group.hand_over().await })
        })
    }

    /// The function that lists the replicas that follow this one.
    pub(super) fn followers(&self) -> ListFollowers {
        let group = Arc::clone(&self.group);
        Box::new(move || group.followers())
    }

    /// Also serves cells, until the first signal. Then another replica takes over, and when `apis_ended` has completed,
    /// the server ends.
    ///
    /// # Errors
    ///
    /// The server failed.
    pub(super) async fn serve(
        self,
        placement: Option<Arc<dyn PlacementLink>>,
        stops: &Stops,
        apis_ended: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let Self {
            group,
            placement: late_placement,
            control_link: _,
            mut serving,
            stop,
        } = self;
        if let Some(placement) = placement {
            late_placement.complete(placement);
        }
        let until_ended = async {
            wait_for_stops(stops, 1).await;
            group.hand_over().await;
            apis_ended.await;
        };
        let served = tokio::select! {
            served = &mut serving => served,
            () = until_ended => {
                // The receiver is gone only if the server has ended.
                let _ = stop.send(());
                serving.await
            }
        };
        served?.context("other replicas and cells cannot reach this one")
    }
}

/// The options with which this replica connects to the one at an address.
fn client_options(
    identity: &ControlIdentity,
    serve_options: &ServeOptions,
) -> impl Fn(&str) -> ClientOptions + Send + Sync + 'static {
    let token = serve_options.token.clone();
    let credentials = identity.credentials.clone();
    move |address| ClientOptions {
        token: token.clone(),
        identity: credentials.clone().map(|credentials| ClientIdentity {
            credentials,
            server: ServerRole::Control,
        }),
        ..ClientOptions::new(address)
    }
}

/// The link through which the other replicas of control reach this one.
struct ControlLink {
    group_link: Arc<dyn ReplicaLink>,
    /// The handles on offered candidates and on hosts. They are not set until this process has loaded everything.
    handles: OnceLock<(DestinationsHandle, SchedulerHandle)>,
}

impl ReplicaLink for ControlLink {
    fn identify(&self) -> LinkFuture<'_, ReplicaIdentity> {
        self.group_link.identify()
    }

    fn follow(&self, start: FollowStart) -> LinkFuture<'_, LeaderConnection> {
        self.group_link.follow(start)
    }

    fn find_offer(&self, candidate: Uuid) -> LinkFuture<'_, Option<Vec<u8>>> {
        // A process that is still loading has offered nothing.
        let handles = self.handles.get();
        let offer = handles.and_then(|(destinations, _)| destinations.own_offer(candidate));
        Box::pin(async { Ok(offer) })
    }

    fn take_host_updates(
        &self,
        updates: Vec<PostedUpdate>,
    ) -> LinkFuture<'_, Vec<Option<Receipt>>> {
        Box::pin(async move {
            let Some((_, scheduler)) = self.handles.get() else {
                return Err(starting());
            };
            let take_all = |hosts: &mut HostTable| {
                let (now, updates) = (now(), updates.iter());
                let take = |posted: &PostedUpdate| {
                    Some(hosts.apply_numbered(posted.host, now, &posted.update))
                };
                updates.map(take).collect()
            };
            Ok(scheduler.change_hosts(take_all))
        })
    }
}

/// The link to placement that cells get. It refuses their calls until this process has loaded everything.
#[derive(Default)]
struct LatePlacement(OnceLock<Arc<dyn PlacementLink>>);

impl LatePlacement {
    /// Passes calls on to `placement` from now on.
    fn complete(&self, placement: Arc<dyn PlacementLink>) {
        // This is called once, so there is no other value yet.
        let _ = self.0.set(placement);
    }
}

/// The reason of refusals while this process loads its state.
const STARTING: &str = "control is starting";

fn starting() -> LinkError {
    LinkError::Unavailable {
        peer: "placement".into(),
        why: STARTING.into(),
    }
}

impl PlacementLink for LatePlacement {
    fn request_claims(&self, requests: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>> {
        match self.0.get() {
            Some(placement) => placement.request_claims(requests),
            None => Box::pin(async { Err(starting()) }),
        }
    }

    fn catch_up(&self) -> LinkFuture<'_, ()> {
        match self.0.get() {
            Some(placement) => placement.catch_up(),
            None => Box::pin(async { Err(starting()) }),
        }
    }

    fn authorize(&self, cell: &str, requests: &[ClaimRequest]) -> Result<(), String> {
        match self.0.get() {
            Some(placement) => placement.authorize(cell, requests),
            // A request that was not checked must not be carried out, even if placement is there a moment later.
            None => Err(STARTING.into()),
        }
    }
}
