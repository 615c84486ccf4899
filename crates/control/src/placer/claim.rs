//! The commands that claim hosts, and that release claims.

use placewright_conductor::super_conductor::{Command as ConductorCommand, RankedCandidates};
use placewright_conductor::{
    Amounts, Candidate, GroupMapping, HostId, InstanceId, MigrationId, RankingRecord,
};
use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, Intent,
    IntentCandidate, IntentRule, Timestamp,
};
use placewright_scheduler::select::Mappings;
use uuid::Uuid;

/// The consumer of a claim, with its owner.
#[derive(Clone, Debug)]
pub struct ClaimConsumer {
    /// The consumer that claims.
    pub consumer: ConsumerUuid,
    /// The generation that the consumer must have.
    pub generation: ConsumerGeneration,
    /// The project that owns the consumer.
    pub project: String,
    /// The user that owns the consumer.
    pub user: String,
    /// The type that the consumer gets; `None` to leave the type as it is.
    pub consumer_type: Option<String>,
}

impl ClaimConsumer {
    /// A consumer of the type of instances, which must not have any allocations yet.
    #[must_use]
    pub fn new(consumer: Uuid, project: &str, user: &str) -> Self {
        Self {
            consumer: ConsumerUuid::from_uuid(consumer),
            generation: ConsumerGeneration::Is(None),
            project: project.to_owned(),
            user: user.to_owned(),
            consumer_type: Some(placewright_conductor::claims::INSTANCE.to_owned()),
        }
    }

    /// The intent to claim the first of some candidates that fits and satisfies the rules.
    #[must_use]
    pub fn intent(
        self,
        group: Option<Uuid>,
        rules: Vec<IntentRule>,
        candidates: Vec<IntentCandidate>,
    ) -> Intent {
        Intent {
            consumer: self.consumer,
            generation: self.generation,
            project: self.project,
            user: self.user,
            consumer_type: self.consumer_type,
            group,
            rules,
            candidates,
            alongside: Vec::new(),
        }
    }
}

/// The command that claims for each intent its first candidate that fits, and nothing at all if fewer
/// than `least` intents get one.
#[must_use]
pub fn claim_first(intents: Vec<Intent>, least: usize, at: Timestamp) -> Command {
    Command::ClaimFirst { intents, least, at }
}

/// The command that claims hosts for builds, or for none of them if fewer than `least` get one.
pub(super) fn place_builds(
    ranked_candidates: Vec<RankedCandidates>,
    least: usize,
    may_reschedule: bool,
) -> ConductorCommand {
    ConductorCommand::Place {
        ranked_candidates,
        least,
        may_reschedule,
    }
}

/// The command that claims a host for a move.
pub(super) fn place_move(
    migration: MigrationId,
    candidates: Vec<Candidate>,
    alternate_count: usize,
    ranking: RankingRecord,
) -> ConductorCommand {
    ConductorCommand::PlaceMove {
        migration,
        candidates,
        alternate_count,
        ranking,
    }
}

/// The candidates of one build, as the command for builds has them.
pub(super) fn ranked_candidates(
    instance: Uuid,
    candidates: Vec<Candidate>,
    alternate_count: usize,
    ranking: RankingRecord,
) -> RankedCandidates {
    RankedCandidates {
        instance: InstanceId(instance),
        candidates,
        alternate_count,
        ranking,
    }
}

/// A candidate for a claim in placement, as the conductor's commands have it.
#[must_use]
pub fn candidate(zone: Option<&str>, found: &IntentCandidate, mappings: &Mappings) -> Candidate {
    let amounts = |requests: &[AllocationRequest]| {
        let requests = requests.iter().map(|request| Amounts {
            provider: request.provider,
            resources: request.resources.clone(),
        });
        requests.collect()
    };
    let mappings = mappings.iter().map(|(suffix, requests)| GroupMapping {
        suffix: suffix.clone(),
        providers: amounts(requests),
    });
    Candidate {
        host: HostId(found.host),
        zone: zone.map(str::to_owned),
        amounts: amounts(&found.allocations),
        mappings: mappings.collect(),
    }
}

/// The command that releases all allocations of a consumer.
#[must_use]
pub fn release(consumer: Uuid) -> Command {
    Command::Release {
        consumer: ConsumerUuid::from_uuid(consumer),
    }
}

/// The command that releases all allocations of a consumer if it has this generation.
#[must_use]
pub fn release_generation(consumer: ConsumerUuid, generation: u64, at: Timestamp) -> Command {
    // A claim of nothing releases all that the consumer holds, and so needs no owner.
    Command::Claim {
        consumers: vec![ConsumerClaim {
            consumer,
            generation: ConsumerGeneration::Is(Some(generation)),
            project: String::new(),
            user: String::new(),
            consumer_type: None,
            allocations: Vec::new(),
        }],
        at,
    }
}
