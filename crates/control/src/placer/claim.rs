//! The commands that claim hosts, and that give back what was claimed.

use placewright_conductor::super_conductor::{Command as ConductorCommand, RankedCandidates};
use placewright_conductor::{Amounts, Candidate, HostId, InstanceId, MigrationId};
use placewright_placement::{
    Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, Intent, IntentCandidate, IntentRule,
    Timestamp,
};
use uuid::Uuid;

/// The consumer of a claim, with its owner.
#[derive(Clone, Debug)]
pub struct ClaimConsumer {
    /// The consumer that claims.
    pub consumer: ConsumerUuid,
    /// The generation that it must have.
    pub generation: ConsumerGeneration,
    /// The project that owns it.
    pub project: String,
    /// The user that owns it.
    pub user: String,
    /// The type that it gets; none to leave it as it is.
    pub consumer_type: Option<String>,
}

impl ClaimConsumer {
    /// A consumer of instances' type that holds nothing.
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

    /// The intent to take the first of some candidates that fits and keeps the rules.
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

/// Claims for each intent its first candidate that fits; nothing if fewer than `least` get one.
#[must_use]
pub fn first_that_fit(intents: Vec<Intent>, least: usize, at: Timestamp) -> Command {
    Command::ClaimFirst { intents, least, at }
}

/// Claims hosts for builds; for none if fewer than `least` get one.
pub(super) fn for_builds(
    ranked_candidates: Vec<RankedCandidates>,
    least: usize,
) -> ConductorCommand {
    ConductorCommand::Place {
        ranked_candidates,
        least,
    }
}

/// Claims a host for a move.
pub(super) fn for_move(
    migration: MigrationId,
    candidates: Vec<Candidate>,
    alternates: usize,
) -> ConductorCommand {
    ConductorCommand::PlaceMove {
        migration,
        candidates,
        alternates,
    }
}

/// The wish of a build for one of some candidates.
pub(super) fn ranked(
    instance: Uuid,
    candidates: Vec<Candidate>,
    alternates: usize,
) -> RankedCandidates {
    RankedCandidates {
        instance: InstanceId(instance),
        candidates,
        alternates,
    }
}

/// A candidate in the conductor's form.
#[must_use]
pub fn candidate(zone: Option<&str>, found: &IntentCandidate) -> Candidate {
    let amounts = found.allocations.iter().map(|one| Amounts {
        provider: one.provider,
        resources: one.resources.clone(),
    });
    Candidate {
        host: HostId(found.host),
        zone: zone.map(str::to_owned),
        amounts: amounts.collect(),
    }
}

/// Releases all that a consumer holds.
#[must_use]
pub fn release(consumer: Uuid) -> Command {
    Command::Release {
        consumer: ConsumerUuid::from_uuid(consumer),
    }
}

/// Releases all that a consumer of this generation holds.
#[must_use]
pub fn give_back(consumer: ConsumerUuid, generation: u64, at: Timestamp) -> Command {
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
