//! Selects the hosts of a request, and claims them if it asks for that.
//!
//! The [placer](crate::placer) selects the hosts, and all of them are claimed with one command. When
//! too few instances find a host, nothing is claimed.

use std::sync::Arc;
use std::time::Duration;

use placewright_placement::{Outcome, Refusal, Timestamp};
use uuid::Uuid;

use super::alternates::alternates;
use super::error::{DestinationsError, NoHost};
use super::look;
use super::offered::{ClaimOwner, Rules};
use super::request::DestinationsRequest;
use super::selected::{Destinations, SelectedHost};
use super::shared::Shared;
use crate::clock::now;
use crate::placer::{
    Correction, Demand, LookContext, Next, Placing, SearchResults, Selected, TimeSlice, correct,
};
use crate::scheduler::NoHostExplanation;

/// How long a failed request waits for the release of its claims, which otherwise continues after
/// the answer.
const UNDO_WAIT: Duration = Duration::from_secs(2);

/// A request while it is handled.
pub(super) struct SelectionRequest {
    shared: Arc<Shared>,
    ask: DestinationsRequest,
    owner: Arc<ClaimOwner>,
    warnings: Vec<String>,
    /// The time of its claims, by which they are identified.
    at: Timestamp,
}

impl SelectionRequest {
    pub(super) fn new(shared: Arc<Shared>, ask: DestinationsRequest) -> Self {
        Self {
            shared,
            owner: Arc::new(ask.owner()),
            ask,
            warnings: Vec::new(),
            at: now(),
        }
    }

    /// Selects a host for each instance, with alternates, and keeps their candidates.
    pub(super) async fn run(mut self) -> Result<Destinations, DestinationsError> {
        let demand = self.ask.demand();
        let mut places = if self.ask.claim {
            self.shared.check_new(&self.ask.instances)?;
            let placing = self.claim_all(Placing::new(demand)).await?;
            let rules = self.ask.instances.iter();
            let rules: Vec<Rules> = rules
                .map(|instance| placing.demand().rules_of(*instance))
                .collect();
            let selected = placing.into_selected().zip(rules);
            let place = |selected: Selected, rules| {
                SelectedHost::of(selected.found, selected.chosen, rules)
            };
            selected
                .map(|(selected, rules)| place(selected?, rules))
                .collect()
        } else {
            self.look_at_all(&demand).await?
        };
        let alternates = alternates(&self.shared, &self.ask, &mut places);
        let instances = &self.ask.instances;
        Ok(Destinations {
            selections: self
                .shared
                .offer(&self.owner, instances, places, alternates),
            warnings: self.warnings,
            kept: self.shared.keep.time,
        })
    }

    /// Claims a host for each instance, or for as many as required.
    async fn claim_all(&mut self, mut placing: Placing) -> Result<Placing, DestinationsError> {
        loop {
            match self.look(&mut placing).await? {
                SearchResults::Ready => {}
                SearchResults::Nowhere(index) => {
                    let refused = self.no_host(index, &placing).await;
                    self.give_up(&mut placing);
                    return Err(refused);
                }
                SearchResults::Over | SearchResults::Unfinished => return Ok(placing),
            }
            let fitting = match self.claim(&mut placing).await {
                Ok(fitting) => fitting,
                Err(refused) => {
                    self.undo(&mut placing, refused.is_unsure()).await;
                    self.give_up(&mut placing);
                    return Err(refused);
                }
            };
            match placing.go_on() {
                Next::Again => {}
                Next::Lost if fitting < self.ask.least => {
                    let index = placing.waiting().first().copied();
                    let index = self
                        .ask
                        .instances
                        .iter()
                        .position(|one| Some(*one) == index);
                    return Err(self.no_host(index.unwrap_or(0), &placing).await);
                }
                Next::Done | Next::Lost => return Ok(placing),
            }
        }
    }

    /// Searches for hosts, in as many time slices as necessary.
    async fn look(&mut self, placing: &mut Placing) -> Result<SearchResults, DestinationsError> {
        loop {
            let contention = self.shared.scheduler.contention();
            let looked = self.shared.decide(|scheduler, state| {
                let mut context = LookContext {
                    scheduler,
                    state,
                    contention,
                    number: 0,
                    closed: &[],
                    avoided: &[],
                };
                placing.look(&mut context, &TimeSlice::begin())
            })?;
            if let Some(prepared) = placing.prepared() {
                let warnings = prepared.translation.warnings.iter();
                self.warnings = warnings.map(ToString::to_string).collect();
            }
            if looked != SearchResults::Unfinished {
                return Ok(looked);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Claims the hosts that were found. Returns how many instances have a host now.
    async fn claim(&self, placing: &mut Placing) -> Result<usize, DestinationsError> {
        self.shared.ensure_group(&self.owner).await?;
        let command = placing.claim(&self.owner.project, &self.owner.user, self.at);
        let answer = self.shared.submit(command).await?;
        let scheduler = &self.shared.scheduler;
        let corrections = match answer {
            Ok(Outcome::Claimed(chosen)) => {
                scheduler.note(|contention| placing.decided(&chosen, contention))
            }
            Ok(_) => return Err(DestinationsError::odd_outcome()),
            Err(refusal @ Refusal::NothingFits { .. }) => {
                scheduler.note(|contention| placing.refused(Some(refusal), contention))
            }
            Err(refusal) => return Err(DestinationsError::Claim(Box::new(refusal))),
        };
        self.correct(&corrections);
        Ok(placing.placed_count())
    }

    fn correct(&self, corrections: &[Correction]) {
        if !corrections.is_empty() {
            self.shared
                .decide(|scheduler, state| correct(scheduler, state, corrections));
        }
    }

    fn give_up(&self, placing: &mut Placing) {
        self.shared
            .decide(|scheduler, state| placing.give_up(scheduler, state));
    }

    /// The refusal when an instance found no host, with the reasons.
    async fn no_host(&self, index: usize, placing: &Placing) -> DestinationsError {
        let instance = self.ask.instances[index];
        let request = &self.ask.request;
        match look::explain(&self.shared, request, instance, Some(placing)).await {
            Ok(why) => self.refuse(instance, placing.placed_count(), why),
            Err(refused) => refused,
        }
    }

    fn refuse(&self, instance: Uuid, placed: usize, why: NoHostExplanation) -> DestinationsError {
        let no_host = NoHost {
            instance,
            placed,
            instances: self.ask.instances.len(),
            least: self.ask.least,
            why,
        };
        tracing::info!(%instance, placed, "{no_host}");
        DestinationsError::NoHost(Box::new(no_host))
    }

    /// Searches for a host for each instance, without regard to the others and without a claim.
    async fn look_at_all(
        &mut self,
        demand: &Demand,
    ) -> Result<Vec<Option<SelectedHost>>, DestinationsError> {
        let mut places: Vec<Option<SelectedHost>> = Vec::with_capacity(self.ask.instances.len());
        let mut placed = 0;
        for (index, instance) in demand.instances.iter().enumerate() {
            let (found, warnings) = look::alone(&self.shared, demand, *instance)?;
            self.warnings = warnings;
            let place = SelectedHost::of(found, 0, demand.rules_of(*instance));
            placed += usize::from(place.is_some());
            places.push(place);
            if placed + (demand.instances.len() - index - 1) < demand.least {
                let why = look::explain(&self.shared, &demand.request, *instance, None).await?;
                return Err(self.refuse(*instance, placed, why));
            }
        }
        Ok(places)
    }

    /// Releases the claims of the request. If the store failed, the claim under way may be durable
    /// nevertheless, so it is released too.
    async fn undo(&self, placing: &mut Placing, is_unsure: bool) {
        let mut consumers: Vec<Uuid> = placing.claimed().collect();
        let mut unsure = None;
        if is_unsure && placing.claiming().next().is_some() {
            consumers.extend(placing.claiming());
            unsure = Some(placing.claim(&self.owner.project, &self.owner.user, self.at));
        }
        let (shared, at) = (Arc::clone(&self.shared), self.at);
        let note = placewright_audit_log::current_note();
        let undoing = tokio::spawn(placewright_audit_log::scope(note, async move {
            if let Some(claim) = unsure {
                shared.make_certain(claim).await;
            }
            for consumer in consumers {
                shared.undo(consumer, at).await;
            }
        }));
        // After the time-out it continues in the background.
        let _ = tokio::time::timeout(UNDO_WAIT, undoing).await;
    }
}
