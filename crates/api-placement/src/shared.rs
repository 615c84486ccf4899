//! The service behind the Placement API: the data that all its requests share.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use futures_util::TryFutureExt as _;
use placewright_auth::{Identity, Rule, Target};
use placewright_control::{Auditor, CellServices, CommitError, FollowerReport, Placement};
use placewright_http::{ApiError, ApiResult, Gateway};
use placewright_placement::{Command, Outcome, Refusal, SearchOptions, Strategy};

use crate::candidate_texts::CandidateCaches;
use crate::follower_limits::FollowerLimits;
use crate::options::PlacementOptions;

/// Makes another replica lead; see [`PlacementService::set_hand_over`].
pub type HandOver = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Lists the replicas that follow this one; see [`PlacementService::set_followers`].
pub type ListFollowers = Box<dyn Fn() -> Vec<FollowerReport> + Send + Sync>;

/// Reports the versions of the cells' compute services; see [`PlacementService::set_cell_services`].
pub type ReportCellServices = Box<dyn Fn() -> Vec<CellServices> + Send + Sync>;

/// The Placement API without sockets: it receives requests and returns responses.
pub struct PlacementService {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) options: PlacementOptions,
    pub(crate) placement: Placement,
    /// The limits for readers of the change stream.
    pub(crate) follower_limits: FollowerLimits,
    /// The auditor, in a process that has conductors to audit.
    pub(crate) auditor: OnceLock<Arc<Auditor>>,
    /// Makes another replica lead, in a process that is a replica.
    pub(crate) hand_over: OnceLock<HandOver>,
    /// Lists the replicas that follow this one, not the readers of the change stream.
    pub(crate) followers: OnceLock<ListFollowers>,
    /// Reports the versions of the cells' compute services.
    pub(crate) cell_services: OnceLock<ReportCellServices>,
    /// A description of the journal's location, for operators.
    pub(crate) store: OnceLock<String>,
    /// The caches of responses with candidates.
    pub(crate) candidate_caches: CandidateCaches,
}

impl fmt::Debug for PlacementService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PlacementService")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl PlacementService {
    /// Creates a service that serves this placement.
    pub fn new(gateway: Arc<Gateway>, placement: Placement, options: PlacementOptions) -> Self {
        Self {
            follower_limits: FollowerLimits::new(options.followers_max),
            gateway,
            options,
            placement,
            auditor: OnceLock::new(),
            hand_over: OnceLock::new(),
            followers: OnceLock::new(),
            cell_services: OnceLock::new(),
            store: OnceLock::new(),
            candidate_caches: CandidateCaches::default(),
        }
    }

    /// Sets the auditor behind `/placewright/v1/audit`. Only the first call has an effect.
    pub fn set_audit(&self, auditor: Arc<Auditor>) {
        // An error means that an auditor was set before.
        let _ = self.auditor.set(auditor);
    }

    /// Sets the function that makes another replica lead, for `/placewright/v1/hand-over`. Its future ends when another
    /// replica leads, or when none does in time. Only the first call has an effect.
    pub fn set_hand_over(&self, hand_over: HandOver) {
        // An error means that the function was set before.
        let _ = self.hand_over.set(hand_over);
    }

    /// Sets the function that lists the replicas that follow this one, for `/placewright/v1/status`. Only the first
    /// call has an effect.
    pub fn set_followers(&self, followers: ListFollowers) {
        // An error means that the function was set before.
        let _ = self.followers.set(followers);
    }

    /// Sets the function that reports the versions of the cells' compute services, for `/placewright/v1/status`. Only
    /// the first call has an effect.
    pub fn set_cell_services(&self, report: ReportCellServices) {
        // An error means that the function was set before.
        let _ = self.cell_services.set(report);
    }

    /// Sets where the journal is, without secrets, for `/placewright/v1/status`. Only the first call has an effect.
    pub fn set_store(&self, store: String) {
        // An error means that the location was set before.
        let _ = self.store.set(store);
    }

    /// Checks a policy rule for a caller.
    ///
    /// # Errors
    ///
    /// 403 if the rule forbids it.
    pub(crate) fn authorize(
        &self,
        rule: Rule,
        identity: &Identity,
        target: &Target<'_>,
    ) -> ApiResult<()> {
        self.gateway.authorize(rule, identity, target)
    }

    /// Submits a command at once, and counts its outcome in the metrics.
    pub(crate) fn submit(
        &self,
        command: Command,
    ) -> impl Future<Output = ApiResult<Result<Outcome, Refusal>>> + Send {
        self.placement.submit(command).map_err(submit_error)
    }

    /// The options of a candidate search, with a new seed if the sample is random.
    pub(crate) fn search_options(&self) -> SearchOptions {
        let options = &self.options.candidates;
        SearchOptions {
            strategy: if options.breadth_first {
                Strategy::BreadthFirst
            } else {
                Strategy::DepthFirst
            },
            max_candidates: options
                .candidates_max
                .map(|candidates| usize::try_from(candidates).unwrap_or(usize::MAX)),
            seed: options
                .randomize
                .then(|| uuid::Uuid::new_v4().as_u64_pair().0),
        }
    }
}

/// The error response when a command was neither carried out nor refused.
fn submit_error(error: CommitError) -> ApiError {
    match error {
        CommitError::TooLarge(text) => ApiError::too_large(text),
        CommitError::Bug(text) => ApiError::new(500, text),
        CommitError::Unavailable(text) => ApiError::unavailable(text),
    }
}
