//! The allocations that consumers hold after a command of placement, for the audit log.

use placewright_audit_log::HeldAllocations;
use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerUuid, Intent, Outcome,
};

/// The allocations that consumers will hold if a command is carried out. They are computed before the command is
/// submitted, because the submission takes the command.
pub(crate) enum RequestedAllocations {
    /// The consumers get these allocations if the command is accepted.
    All(Vec<HeldAllocations>),
    /// Each intent gets one of its candidates, or none, which the outcome says.
    First(Vec<Intent>),
}

impl RequestedAllocations {
    /// The allocations that a command requests.
    pub(crate) fn of(command: &Command) -> Self {
        match command {
            Command::Claim { consumers, .. } | Command::Reshape { consumers, .. } => {
                Self::All(consumers.iter().map(held_after_claim).collect())
            }
            Command::Release { consumer } => Self::All(vec![held(*consumer, None, &[])]),
            Command::ClaimFirst { intents, .. } => Self::First(intents.clone()),
            _ => Self::All(Vec::new()),
        }
    }

    /// The allocations that the consumers hold after the command was carried out with this outcome.
    pub(crate) fn granted(self, outcome: &Outcome) -> Vec<HeldAllocations> {
        let intents = match self {
            Self::All(held) => return held,
            Self::First(intents) => intents,
        };
        let Outcome::Claimed(chosen) = outcome else {
            return Vec::new();
        };
        let mut all = Vec::with_capacity(intents.len());
        for (intent, chosen) in intents.iter().zip(chosen) {
            let index = chosen.and_then(|index| usize::try_from(index).ok());
            let Some(candidate) = index.and_then(|index| intent.candidates.get(index)) else {
                continue;
            };
            let owner = Some((intent.project.as_str(), intent.user.as_str()));
            all.push(held(intent.consumer, owner, &candidate.allocations));
            // Other consumers whose allocations changed in the same step, such as a migration.
            all.extend(intent.alongside.iter().map(held_after_claim));
        }
        all
    }
}

fn held_after_claim(claim: &ConsumerClaim) -> HeldAllocations {
    let owner = Some((claim.project.as_str(), claim.user.as_str()));
    held(claim.consumer, owner, &claim.allocations)
}

fn held(
    consumer: ConsumerUuid,
    owner: Option<(&str, &str)>,
    allocations: &[AllocationRequest],
) -> HeldAllocations {
    // Without allocations there is no consumer any more, and so no owner.
    let owner = owner.filter(|_| !allocations.is_empty());
    HeldAllocations {
        consumer: consumer.to_string(),
        // The audit log sets the sequence once the command was carried out.
        sequence: 0,
        project_id: owner.map(|(project, _)| project.to_owned()),
        user_id: owner.map(|(_, user)| user.to_owned()),
        allocations: allocations
            .iter()
            .map(|request| (request.provider, request.resources.clone()))
            .collect(),
    }
}
