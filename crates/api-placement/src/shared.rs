//! What the requests of the Placement API share.

use std::fmt;
use std::sync::{Arc, OnceLock};

use placewright_auth::{Identity, Rule, Target};
use placewright_control::{Auditor, NotMade, Placement};
use placewright_http::{ApiError, ApiResult, Gateway};
use placewright_placement::{Command, Outcome, Refusal, SearchOptions, Strategy};

use crate::candidate_texts::CandidateCaches;
use crate::followers::Followers;
use crate::options::PlacementOptions;

/// The Placement API without sockets: it takes requests and returns responses.
pub struct PlacementService {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) options: PlacementOptions,
    pub(crate) placement: Placement,
    /// The limits for readers of the change stream.
    pub(crate) followers: Followers,
    /// The audit, in a process that has something to audit.
    pub(crate) audit: OnceLock<Arc<Auditor>>,
    /// A cache of recent responses with candidates.
    pub(crate) candidates: CandidateCaches,
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
    /// Creates a service of this placement.
    pub fn new(gateway: Arc<Gateway>, placement: Placement, options: PlacementOptions) -> Self {
        Self {
            followers: Followers::new(options.followers_max),
            gateway,
            options,
            placement,
            audit: OnceLock::new(),
            candidates: CandidateCaches::default(),
        }
    }

    /// Sets the audit behind `/placewright/v1/audit`. Only the first call has an effect.
    pub fn set_audit(&self, audit: Arc<Auditor>) {
        // If there is one already, it stays.
        let _ = self.audit.set(audit);
    }

    /// Checks a policy rule for a caller.
    ///
    /// # Errors
    ///
    /// 403.
    pub(crate) fn authorize(
        &self,
        rule: Rule,
        identity: &Identity,
        target: &Target<'_>,
    ) -> ApiResult<()> {
        self.gateway.authorize(rule, identity, target)
    }

    /// Submits a command, and counts its outcome in the metrics.
    pub(crate) async fn submit(&self, command: Command) -> ApiResult<Result<Outcome, Refusal>> {
        let answer = self.placement.submit(command).await;
        answer.map_err(not_made)
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
                .map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
            seed: options
                .randomize
                .then(|| uuid::Uuid::new_v4().as_u64_pair().0),
        }
    }
}

/// The error response when a change was not made.
fn not_made(why: NotMade) -> ApiError {
    match why {
        NotMade::TooLarge(text) => ApiError::too_large(text),
        NotMade::Bug(text) => ApiError::new(500, text),
        NotMade::Unavailable(text) => ApiError::unavailable(text),
    }
}
