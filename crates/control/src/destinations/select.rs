//! Selects the hosts of a request, and claims them if the request says so.
//!
//! The [placer](crate::placer) selects the hosts, and all of them are claimed with one command. When
//! too few instances find a host, nothing is claimed.

use std::sync::Arc;
use std::time::Duration;

use placewright_placement::{Outcome, Refusal, Timestamp};
use uuid::Uuid;

use super::alternates::alternates;
use super::error::{DestinationsError, NoHost};
use super::offered::{CommonClaimData, IntentRules};
use super::request::DestinationsRequest;
use super::search;
use super::selected::{Destinations, SelectedHost};
use super::shared::{Shared, first_with_allocations};
use crate::clock::now;
use crate::placer::{
    Correction, Demand, Placing, RoundEnd, SearchContext, SearchResults, Selected, TimeSlice,
    apply_corrections,
};
use crate::scheduler::NoHostExplanation;

/// How long a failed request waits for the release of its claims before it is answered. The release
/// then continues in the background.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(2);

/// A request while it is handled.
pub(super) struct SelectionRequest {
    shared: Arc<Shared>,
    request: DestinationsRequest,
    claim_data: Arc<CommonClaimData>,
    warnings: Vec<String>,
    /// The time of the request's claims, by which a rollback recognizes them.
    claimed_at: Timestamp,
    /// Whether it is known that none of the instances had allocations before the request.
    has_checked_instances: bool,
}

impl SelectionRequest {
    pub(super) fn new(shared: Arc<Shared>, request: DestinationsRequest) -> Self {
        Self {
            shared,
            claim_data: Arc::new(request.claim_data()),
            request,
            warnings: Vec::new(),
            claimed_at: now(),
            has_checked_instances: false,
        }
    }

    /// Selects a host for each instance, with alternates, and keeps the candidates of all these hosts
    /// for later claims.
    pub(super) async fn run(mut self) -> Result<Destinations, DestinationsError> {
        let demand = self.request.demand();
        let mut selected_hosts = if self.request.with_claim {
            let placing = self.claim_all(Placing::new(demand)).await?;
            let instances = self.request.instances.iter();
            let rules: Vec<IntentRules> = instances
                .map(|instance| placing.demand().rules_of(*instance))
                .collect();
            let selected = placing.into_selected().zip(rules);
            let selected_host = |selected: Selected, rules| {
                SelectedHost::of(selected.found, selected.chosen, rules)
            };
            selected
                .map(|(selected, rules)| selected_host(selected?, rules))
                .collect()
        } else {
            self.search_without_claims(&demand).await?
        };
        let alternates = alternates(&self.shared, &self.request, &mut selected_hosts).await;
        let instances = &self.request.instances;
        Ok(Destinations {
            selections: self
                .shared
                .offer(&self.claim_data, instances, selected_hosts, alternates),
            warnings: self.warnings,
            expires_after: self.shared.keep_options.time,
        })
    }

    /// Claims a host for each instance, or for as many as required.
    async fn claim_all(&mut self, mut placing: Placing) -> Result<Placing, DestinationsError> {
        loop {
            let results = match self.find_hosts(&mut placing).await {
                Ok(results) => results,
                Err(refused) => {
                    // An earlier round may have claimed hosts for some instances.
                    self.roll_back(&mut placing, false).await;
                    self.discard_found(&mut placing);
                    return Err(refused);
                }
            };
            match results {
                SearchResults::Ready => {}
                SearchResults::NoHost { index } => {
                    let refused = self.no_host(index, &placing).await;
                    self.discard_found(&mut placing);
                    return Err(refused);
                }
                // `find_hosts` of this type goes on while the placer's returns `Unfinished`.
                SearchResults::NothingToClaim | SearchResults::Unfinished => return Ok(placing),
            }
            let claimed_count = match self.claim(&mut placing).await {
                Ok(claimed_count) => claimed_count,
                Err(refused) => {
                    self.roll_back(&mut placing, refused.is_outcome_unknown())
                        .await;
                    self.discard_found(&mut placing);
                    return Err(refused);
                }
            };
            match placing.end_round() {
                RoundEnd::SearchAgain => {}
                RoundEnd::RoundsExhausted if claimed_count < self.request.least => {
                    let unclaimed = placing.waiting().first().copied();
                    let index = self
                        .request
                        .instances
                        .iter()
                        .position(|instance| Some(*instance) == unclaimed);
                    return Err(self.no_host(index.unwrap_or(0), &placing).await);
                }
                RoundEnd::Done | RoundEnd::RoundsExhausted => return Ok(placing),
            }
        }
    }

    /// Searches for hosts, in as many time slices as necessary. Before the first search it checks that no instance has
    /// allocations. The check has no lock of its own, because each lock may have to wait for other requests.
    async fn find_hosts(
        &mut self,
        placing: &mut Placing,
    ) -> Result<SearchResults, DestinationsError> {
        loop {
            let contention = self.shared.scheduler.contention();
            let results = self.shared.with_scheduler(|scheduler, state| {
                let instances = &self.request.instances;
                if !self.has_checked_instances && first_with_allocations(state, instances).is_some()
                {
                    return Ok(None);
                }
                let mut context = SearchContext {
                    scheduler,
                    state,
                    contention,
                    scheduler_number: self.shared.scheduler.number(),
                    excluded_cells: &[],
                    avoided_cells: &[],
                    // No record of the ranking is kept, because the instances are not this installation's own.
                    ranking_record_sequence: None,
                };
                placing
                    .find_hosts(&mut context, &TimeSlice::begin())
                    .map(Some)
            })?;
            let Some(results) = results else {
                (self.shared.check_no_allocations(&self.request.instances)).await?;
                self.has_checked_instances = true;
                continue;
            };
            self.has_checked_instances = true;
            if let Some(prepared) = placing.prepared() {
                let warnings = prepared.translation.warnings.iter();
                self.warnings = warnings.map(ToString::to_string).collect();
            }
            if results != SearchResults::Unfinished {
                return Ok(results);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Claims the hosts that were found. Returns how many instances have a host now.
    async fn claim(&self, placing: &mut Placing) -> Result<usize, DestinationsError> {
        self.shared.ensure_group(&self.claim_data).await?;
        let command = placing.claim(
            &self.claim_data.project,
            &self.claim_data.user,
            self.claimed_at,
        );
        let response = self.shared.submit(command).await?;
        let scheduler = &self.shared.scheduler;
        let corrections = match response {
            Ok(Outcome::Claimed(chosen)) => {
                scheduler.update_contention(|contention| placing.apply_claimed(&chosen, contention))
            }
            Ok(_) => return Err(DestinationsError::unexpected_outcome()),
            Err(refusal @ Refusal::NothingFits { .. }) => scheduler
                .update_contention(|contention| placing.apply_refused(Some(refusal), contention)),
            Err(refusal) => return Err(DestinationsError::Claim(Box::new(refusal))),
        };
        self.correct(&corrections);
        Ok(placing.selected_count())
    }

    /// Corrects on which hosts instances are counted, where a claim put an instance on another host than the search
    /// expected.
    fn correct(&self, corrections: &[Correction]) {
        if !corrections.is_empty() {
            self.shared.with_scheduler(|scheduler, state| {
                apply_corrections(scheduler, state, corrections);
            });
        }
    }

    fn discard_found(&self, placing: &mut Placing) {
        self.correct(&placing.discard_found());
    }

    /// The refusal with its reasons, when no host was found for the instance with this index.
    async fn no_host(&self, index: usize, placing: &Placing) -> DestinationsError {
        let instance = self.request.instances[index];
        let request = &self.request.request_spec;
        match search::explain(&self.shared, request, instance, Some(placing)).await {
            Ok(why) => self.no_host_error(instance, placing.selected_count(), why),
            Err(refused) => refused,
        }
    }

    fn no_host_error(
        &self,
        instance: Uuid,
        placed_count: usize,
        why: NoHostExplanation,
    ) -> DestinationsError {
        let no_host = NoHost {
            instance,
            placed_count,
            instance_count: self.request.instances.len(),
            least: self.request.least,
            why,
        };
        tracing::info!(%instance, placed = placed_count, "{no_host}");
        DestinationsError::NoHost(Box::new(no_host))
    }

    /// Searches for a host for each instance, without regard to the other instances and without a claim.
    async fn search_without_claims(
        &mut self,
        demand: &Demand,
    ) -> Result<Vec<Option<SelectedHost>>, DestinationsError> {
        let mut selected_hosts: Vec<Option<SelectedHost>> =
            Vec::with_capacity(self.request.instances.len());
        let mut placed_count = 0;
        let mut slice = TimeSlice::begin();
        for (index, instance) in demand.instances.iter().enumerate() {
            slice.yield_if_over().await;
            let (found, warnings) = search::without_siblings(&self.shared, demand, *instance)?;
            self.warnings = warnings;
            let best_candidate = 0;
            let rules = demand.rules_of(*instance);
            let selected = SelectedHost::of(found, best_candidate, rules);
            placed_count += usize::from(selected.is_some());
            selected_hosts.push(selected);
            if placed_count + (demand.instances.len() - index - 1) < demand.least {
                let why = search::explain(&self.shared, &demand.request, *instance, None).await?;
                return Err(self.no_host_error(*instance, placed_count, why));
            }
        }
        Ok(selected_hosts)
    }

    /// Releases the claims of the request. If the outcome of the claim under way is unknown because the store
    /// failed, that claim may be durable nevertheless, so it is released too.
    async fn roll_back(&self, placing: &mut Placing, is_outcome_unknown: bool) {
        let mut consumers: Vec<Uuid> = placing.claimed().collect();
        let mut unknown_claim = None;
        if is_outcome_unknown && placing.claiming().next().is_some() {
            consumers.extend(placing.claiming());
            unknown_claim = Some(placing.claim(
                &self.claim_data.project,
                &self.claim_data.user,
                self.claimed_at,
            ));
        }
        let (shared, at) = (Arc::clone(&self.shared), self.claimed_at);
        let note = placewright_audit_log::current_note();
        let rolling_back = tokio::spawn(placewright_audit_log::with_note(note, async move {
            if let Some(claim) = unknown_claim {
                shared.resolve_unknown_claim(claim).await;
            }
            for consumer in consumers {
                shared.roll_back(consumer, at).await;
            }
        }));
        // After the time-out the release continues in the background.
        let _ = tokio::time::timeout(ROLLBACK_TIMEOUT, rolling_back).await;
    }
}
