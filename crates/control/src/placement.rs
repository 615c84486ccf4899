//! The handle on placement: reads of its state, and commands whose outcomes are counted.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use placewright_conductor::control;
use placewright_engine::{Engine, SubmitError};
use placewright_errors::chain;
use placewright_placement::{Command, Outcome, Refusal, State};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::machine::ControlMachine;
use crate::requested_allocations::RequestedAllocations;

/// How long the store counts as failing after a failed append. Afterwards changes are tried again,
/// because only a change can show whether the store works.
const STORE_FAILING_FOR: Duration = Duration::from_secs(15);

/// A handle on placement, for APIs and for the scheduler. Clones refer to the same placement.
#[derive(Clone)]
pub struct Placement {
    engine: Engine<ControlMachine>,
    metrics: ClaimMetrics,
}

impl fmt::Debug for Placement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Placement").finish_non_exhaustive()
    }
}

impl Placement {
    /// The placement of this engine.
    #[must_use]
    pub fn new(engine: Engine<ControlMachine>, metrics: ClaimMetrics) -> Self {
        Self { engine, metrics }
    }

    /// The engine that runs control's state machine.
    #[must_use]
    pub fn engine(&self) -> &Engine<ControlMachine> {
        &self.engine
    }

    /// Why this process should get no requests at present, in one line; `None` if it should.
    #[must_use]
    pub fn why_not_ready(&self) -> Option<&'static str> {
        if self.engine.has_lost_entries() {
            return Some("the store has lost entries\n");
        }
        self.is_store_failing().then_some("the store fails\n")
    }

    /// Whether an append to the store failed lately.
    #[must_use]
    pub fn is_store_failing(&self) -> bool {
        let ago = self.engine.time_since_failed_append();
        ago.is_some_and(|ago| ago < STORE_FAILING_FOR)
    }

    /// Waits until this process has applied every change that was acknowledged before the call, by whichever replica;
    /// see [`Engine::confirm`]. `None` if there is nothing to wait for, because no other process changes the state.
    #[must_use]
    pub fn confirm(&self) -> Option<impl Future<Output = Result<(), SubmitError>> + Send + use<>> {
        let engine = &self.engine;
        let has_to_ask = engine.is_replica() || engine.has_lost_entries();
        has_to_ask.then(|| engine.confirm())
    }

    /// As [`Self::confirm`], with a sentence for clients as the error.
    #[must_use]
    pub fn confirming(&self) -> Option<BoxFuture<'static, Result<(), String>>> {
        let confirming = self.confirm()?;
        Some(Box::pin(async move {
            confirming.await.map_err(|error| chain(&error))
        }))
    }

    /// Computes a value from the state, which is durable when this returns.
    pub async fn read<T: Send>(&self, compute: impl Fn(&State) -> T + Send) -> T {
        self.engine
            .read(move |machine: &ControlMachine| compute(machine.placement()))
            .await
    }

    /// As [`Self::read`], in slices between which the state may change; see
    /// [`Engine::read_in_slices`].
    pub async fn read_in_slices<S: Send, T: Send>(
        &self,
        begin: impl Fn() -> S + Send,
        step: impl Fn(&State, &mut S) -> Option<T> + Send,
    ) -> T {
        let step =
            move |machine: &ControlMachine, progress: &mut S| step(machine.placement(), progress);
        self.engine.read_in_slices(begin, step).await
    }

    /// Submits a command at once, waits until its outcome is durable, and counts it.
    ///
    /// # Errors
    ///
    /// The engine did not carry the command out, or does not know whether it is carried out. The log says why.
    pub fn submit(
        &self,
        command: Command,
    ) -> impl Future<Output = Result<Result<Outcome, Refusal>, CommitError>> + Send {
        let is_claim = matches!(command, Command::Claim { .. } | Command::ClaimFirst { .. });
        let noted = placewright_audit_log::current_note()
            .map(|note| (note, RequestedAllocations::of(&command)));
        let submitted = submit_with_sequence(&self.engine, command);
        submitted.map(move |(result, sequence)| {
            let result = result.map_err(|error| CommitError::of(&error))?;
            // A command without an entry has changed nothing, and the audit log does not need it.
            if let (Some((note, requested)), Ok(outcome), Some(sequence)) =
                (noted, &result, sequence)
            {
                note.add_entry(sequence, requested.granted(outcome));
            }
            self.metrics.count(is_claim, &result);
            Ok(result)
        })
    }
}

/// Submits a command that concerns placement only.
pub fn submit_placement(
    engine: &Engine<ControlMachine>,
    command: Command,
) -> impl Future<Output = Result<Result<Outcome, Refusal>, SubmitError>> + Send + use<> {
    submit_with_sequence(engine, command).map(|(answer, _)| answer)
}

/// The outcome or refusal of a command, or why the engine has neither.
type Answer = Result<Result<Outcome, Refusal>, SubmitError>;

/// Submits a command that concerns placement only. Returns also the sequence of the entry that the command
/// made in the journal, if it made one.
fn submit_with_sequence(
    engine: &Engine<ControlMachine>,
    command: Command,
) -> impl Future<Output = (Answer, Option<u64>)> + Send + use<> {
    let submitted = engine.submit_with_sequence(control::Command::Placement(command));
    // Not an `async` block, whose future would have room for `submitted` twice.
    submitted.map(|(answer, sequence)| {
        let answer = answer.and_then(|answer| match answer {
            Ok(control::Outcome::Placement(outcome)) => Ok(Ok(outcome)),
            Err(control::Refusal::Placement(refusal)) => Ok(Err(refusal)),
            // A command of placement never has an answer of the conductor.
            Ok(control::Outcome::Conductor(_)) | Err(control::Refusal::Conductor(_)) => {
                Err(SubmitError::Panicked)
            }
        });
        (answer, sequence)
    })
}

/// Why a command that the state does not refuse was not committed, or is not known to be committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The command is too large for the store.
    #[error("{0}")]
    TooLarge(String),
    /// A bug in Placewright, as text.
    #[error("{0}")]
    Bug(String),
    /// The store fails or has too much to do, or another replica leads or has the command. The text says whether the
    /// change may have been made.
    #[error("{0}")]
    Unavailable(String),
}

impl CommitError {
    /// Why the engine did not carry out a command. It is logged unless the command is at fault.
    pub(crate) fn of(error: &SubmitError) -> Self {
        let text = format!("{}: {}", error.effect(), chain(error));
        match error {
            SubmitError::TooLarge { .. } => Self::TooLarge(text),
            SubmitError::Panicked => {
                tracing::error!("{text}");
                Self::Bug(text)
            }
            SubmitError::Unavailable(_)
            | SubmitError::Unknown(_)
            | SubmitError::HandedOver
            | SubmitError::NotLeading
            | SubmitError::ReadingUndone
            | SubmitError::ShuttingDown
            | SubmitError::Overloaded => {
                tracing::warn!("{text}");
                Self::Unavailable(text)
            }
        }
    }
}

/// Counters of refused commands and of claims, for Prometheus.
#[derive(Clone, Debug)]
pub struct ClaimMetrics {
    refusals: Family<RefusalLabels, Counter>,
    claims: Family<ClaimLabels, Counter>,
    /// The counter of `claims` for those that were done, which nearly all are.
    done: Counter,
}

impl Default for ClaimMetrics {
    fn default() -> Self {
        let claims = Family::<ClaimLabels, Counter>::default();
        let done = claims.get_or_create_owned(&ClaimLabels { result: DONE });
        Self {
            refusals: Family::default(),
            claims,
            done,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClaimLabels {
    result: &'static str,
}

/// The result of a claim that was done, in metrics.
const DONE: &str = "done";

impl ClaimMetrics {
    /// Registers the metrics with Prometheus's registry.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("placewright");
        registry.register(
            "refusals",
            "Commands that the state did not admit, by reason",
            metrics.refusals.clone(),
        );
        registry.register(
            "claims",
            "Claims of consumers over the APIs of placement and of the scheduler (those of builds \
             and moves are not counted): done, in conflict with a newer generation, or refused",
            metrics.claims.clone(),
        );
        metrics
    }

    fn count(&self, is_claim: bool, result: &Result<Outcome, Refusal>) {
        if let Err(refusal) = result {
            let labels = RefusalLabels {
                reason: reason(refusal),
            };
            self.refusals.get_or_create(&labels).inc();
        }
        if is_claim {
            let result = match result {
                Ok(_) => {
                    self.done.inc();
                    return;
                }
                Err(refusal) if is_conflict(refusal) => "conflict",
                Err(_) => "refused",
            };
            self.claims.get_or_create(&ClaimLabels { result }).inc();
        }
    }
}

/// The label of a refusal in metrics.
fn reason(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::ProviderNotFound { .. } => "provider_not_found",
        Refusal::ProviderUuidTaken { .. } => "provider_uuid_taken",
        Refusal::ProviderNameTaken { .. } => "provider_name_taken",
        Refusal::ParentNotFound { .. } => "parent_not_found",
        Refusal::ParentIsSelf { .. } => "parent_is_self",
        Refusal::ReparentingNotAllowed { .. } => "reparenting_not_allowed",
        Refusal::UnparentingNotAllowed { .. } => "unparenting_not_allowed",
        Refusal::ProviderLoop { .. } => "provider_loop",
        Refusal::ProviderHasChildren { .. } => "provider_has_children",
        Refusal::ProviderInUse { .. } => "provider_in_use",
        Refusal::ProviderGenerationConflict { .. } => "provider_generation_conflict",
        Refusal::ClassNotFound { .. } => "class_not_found",
        Refusal::ClassExists { .. } => "class_exists",
        Refusal::ClassInUse { .. } => "class_in_use",
        Refusal::ClassStandard { .. } => "class_standard",
        Refusal::NamesExhausted => "names_exhausted",
        Refusal::TraitNotFound { .. } => "trait_not_found",
        Refusal::TraitInUse { .. } => "trait_in_use",
        Refusal::TraitStandard { .. } => "trait_standard",
        Refusal::InventoryExists { .. } => "inventory_exists",
        Refusal::InventoryNotFound { .. } => "inventory_not_found",
        Refusal::InventoryInUse { .. } => "inventory_in_use",
        Refusal::InvalidCapacity { .. } => "invalid_capacity",
        Refusal::ConsumerGenerationConflict { .. } => "consumer_generation_conflict",
        Refusal::AllocationsNotFound { .. } => "allocations_not_found",
        Refusal::AllocationProviderNotFound { .. } => "allocation_provider_not_found",
        Refusal::ReshapeProviderNotFound { .. } => "reshape_provider_not_found",
        Refusal::NoInventory { .. } => "no_inventory",
        Refusal::ConstraintsViolated { .. } => "constraints_violated",
        Refusal::CapacityExceeded { .. } => "capacity_exceeded",
        Refusal::NothingFits { .. } => "nothing_fits",
        Refusal::RuleBroken { .. } => "rule_broken",
        Refusal::GroupNotFound { .. } => "group_not_found",
        Refusal::TopologyOverlap { .. } => "topology_overlap",
        Refusal::LevelName { .. } => "level_name",
        Refusal::PlaceNotFound { .. } => "place_not_found",
        Refusal::DistanceTwice { .. } => "distance_twice",
        Refusal::DistanceAcrossLevels { .. } => "distance_across_levels",
    }
}

/// Whether a claim was refused because of a concurrent change.
fn is_conflict(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::ConsumerGenerationConflict { .. } | Refusal::ProviderGenerationConflict { .. }
    )
}
