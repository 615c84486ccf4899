//! Claims of candidates that were offered: claim, swap and release.

use std::time::Instant;

use placewright_placement::{ConsumerGeneration, ConsumerUuid, Outcome, Refusal};
use placewright_records::offer;
use placewright_scheduler::host_state::InstanceReport;
use uuid::Uuid;

use super::error::DestinationsError;
use super::offered::{IntentRules, OfferedCandidate};
use super::shared::Shared;
use crate::clock::now;
use crate::placer;
use crate::placer::claim::{self, ClaimConsumer};

impl Shared {
    /// A candidate that can still be claimed.
    pub(super) fn find_offered(
        &self,
        candidate: Uuid,
    ) -> Result<OfferedCandidate, DestinationsError> {
        let mut offered = self.offered.lock();
        let found = offered.get(Instant::now(), candidate);
        found.cloned().ok_or(DestinationsError::Expired(candidate))
    }

    /// A candidate that this replica or another one offered, and that can still be claimed.
    pub(super) async fn find_offered_anywhere(
        &self,
        candidate: Uuid,
    ) -> Result<OfferedCandidate, DestinationsError> {
        let own = self.find_offered(candidate);
        let (Err(DestinationsError::Expired(_)), Some(others)) = (&own, self.others.get()) else {
            return own;
        };
        let unanswered = |why| DestinationsError::OffererAway { candidate, why };
        let found = others.find_offer(candidate).await.map_err(unanswered)?;
        let bytes = found.ok_or(DestinationsError::Expired(candidate))?;
        let record = offer::decode(&bytes).map_err(|error| unanswered(error.to_string()))?;
        Ok(OfferedCandidate::from_record(record))
    }

    /// Claims a candidate for a consumer, and counts the instance on its host.
    pub(super) async fn claim_offered(
        &self,
        consumer: ClaimConsumer,
        instance: Uuid,
        offered: &OfferedCandidate,
    ) -> Result<(), DestinationsError> {
        self.ensure_group(&offered.claim_data).await?;
        // A rule about other consumers does not concern the consumer that claims.
        let own_uuid = consumer.consumer;
        let mut rules = IntentRules::clone(&offered.rules);
        for rule in &mut rules {
            rule.others.retain(|other| *other != own_uuid);
        }
        let group = offered.claim_data.group.as_ref().map(|(group, _)| *group);
        let intent = consumer.intent(group, rules, vec![offered.candidate.clone()]);
        let least = 1;
        let command = claim::claim_first(vec![intent], least, now());
        match self.submit(command).await? {
            Ok(Outcome::Claimed(_)) => {
                let report = InstanceReport {
                    uuid: instance,
                    group,
                    image_properties: offered
                        .claim_data
                        .image_properties
                        .iter()
                        .cloned()
                        .collect(),
                };
                let host = offered.candidate.host;
                self.with_scheduler(|scheduler, state| {
                    placer::count_claimed(scheduler, state, host, &report);
                });
                Ok(())
            }
            Ok(_) => Err(DestinationsError::unexpected_outcome()),
            Err(Refusal::NothingFits { first, .. }) => Err(DestinationsError::NothingFits(first)),
            Err(refusal) => Err(DestinationsError::Claim(Box::new(refusal))),
        }
    }

    /// A consumer that has allocations, for a claim that replaces them.
    pub(super) async fn consumer_with_allocations(
        &self,
        consumer: Uuid,
    ) -> Result<ClaimConsumer, DestinationsError> {
        let uuid = ConsumerUuid::from_uuid(consumer);
        let found = self.placement.read(move |state| {
            let found = state.consumer(uuid)?;
            Some(ClaimConsumer {
                consumer: uuid,
                generation: ConsumerGeneration::Is(Some(found.generation)),
                project: state.project_name(found.project).to_owned(),
                user: state.user_name(found.user).to_owned(),
                consumer_type: None,
            })
        });
        found.await.ok_or(DestinationsError::HoldsNothing(consumer))
    }

    /// Releases the allocations of a consumer.
    pub(super) async fn release(&self, consumer: Uuid) -> Result<(), DestinationsError> {
        match self.submit(claim::release(consumer)).await? {
            Ok(_) => Ok(()),
            Err(_) => Err(DestinationsError::HoldsNothing(consumer)),
        }
    }
}
