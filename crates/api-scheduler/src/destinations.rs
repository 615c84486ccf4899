//! `POST /v1/destinations`: a host for each instance, with or without a claim, and alternates.
//!
//! The [placer](placewright_control::placer) selects the hosts, and all of them are claimed with one command. When
//! too few instances find a host, nothing is claimed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_control::placer::{
    CandidatesFound, Correction, Demand, FeasibleHost, LookContext, Next, Placing,
    ScoreExplanation, SearchResults, Selected, TimeSlice, correct,
};
use placewright_control::{NoHostExplanation, now};
use placewright_http::Reply;
use placewright_placement::{IntentCandidate, Outcome, Refusal, Timestamp};
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::rules::of_group;
use uuid::Uuid;

use crate::candidate_store::{ClaimOwner, OfferedCandidate, Rules};
use crate::claims::{check_owner, refusal_of};
use crate::error_response::{Answer, ErrorResponse, code};
use crate::shared::{ApiState, RoutedRequest, json};

mod alternates;
mod request;
pub(super) mod response;
mod search;

use alternates::alternates;
use request::DestinationsRequest;
use response::{DestinationsBody, InstanceBody, ScoreExplanationBody, SelectionBody};

/// How long a failed request waits for the release of its claims, which otherwise continues after
/// the response.
const UNDO_WAIT: Duration = Duration::from_secs(2);

/// The selected host of an instance.
#[derive(Debug)]
struct SelectedHost {
    offer: FeasibleHost,
    /// The index of the selected candidate of the host.
    chosen: usize,
    rules: Arc<Rules>,
    /// Other hosts of the same ranking, best first.
    others: Vec<FeasibleHost>,
    /// Whether there are no further hosts in the cell of the first one.
    are_all: bool,
    /// The scores, if the request asks for an explanation.
    weighing: Option<ScoreExplanation>,
}

impl SelectedHost {
    /// The host of a candidate, whose index counts over all hosts.
    fn of(found: CandidatesFound, candidate: usize, rules: Rules) -> Option<Self> {
        let (offer, chosen) = found.position(candidate)?;
        let mut offers = found.offers;
        Some(Self {
            offer: offers.remove(offer),
            chosen,
            rules: Arc::new(rules),
            others: offers,
            are_all: found.are_all,
            weighing: found.weighing,
        })
    }
}

/// A request while it is handled.
struct SelectionRequest {
    core: Arc<ApiState>,
    ask: DestinationsRequest,
    /// The request that each of its instances makes.
    request: Arc<RequestSpec>,
    wish: Arc<ClaimOwner>,
    warnings: Vec<String>,
    /// The time of its claims, by which they are identified.
    at: Timestamp,
}

pub(crate) async fn select(call: &RoutedRequest<'_>) -> Answer<Reply> {
    let (ask, request) = DestinationsRequest::check(call.read()?)?;
    if ask.claim {
        check_owner("request.project_id", &request.project_id)?;
        check_owner("request.user_id", &request.user_id)?;
    }
    let group = request.instance_group.as_ref();
    let image = request.image.as_ref();
    let properties = image.into_iter().flat_map(|image| image.properties.iter());
    let wish = ClaimOwner {
        project: request.project_id.clone(),
        user: request.user_id.clone(),
        group: group.map(|group| (group.uuid, of_group(group))),
        image_properties: properties
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    };
    let round = SelectionRequest {
        core: Arc::clone(call.core),
        ask,
        request: Arc::new(request),
        wish: Arc::new(wish),
        warnings: Vec::new(),
        at: now(),
    };
    // A separate task, so that a client that disconnects does not leave a request half done.
    let running = tokio::spawn(round.run());
    running
        .await
        .map_err(|error| ErrorResponse::new(500, code::INTERNAL, error.to_string()))?
}

impl SelectionRequest {
    async fn run(mut self) -> Answer<Reply> {
        let mut demand = Demand::new(Arc::clone(&self.request), self.ask.instances.clone());
        demand.least = self.ask.minimum;
        demand.alternates = self.ask.alternates;
        demand.explain = self.ask.explain;
        let mut places = if self.ask.claim {
            self.core.check_new(&self.ask.instances)?;
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
        let alternates = alternates(&self, &mut places);
        self.tell(&places, &alternates)
    }

    /// Claims a host for each instance, or for as many as required.
    async fn claim_all(&mut self, mut placing: Placing) -> Answer<Placing> {
        loop {
            match self.look(&mut placing).await? {
                SearchResults::Ready => {}
                SearchResults::Nowhere(index) => {
                    let refused = self.no_capacity(index, &placing).await;
                    self.give_up(&mut placing);
                    return Err(refused);
                }
                SearchResults::Over | SearchResults::Unfinished => return Ok(placing),
            }
            let fitting = match self.claim(&mut placing).await {
                Ok(fitting) => fitting,
                Err(refused) => {
                    self.undo(&mut placing, refused.status() == 503).await;
                    self.give_up(&mut placing);
                    return Err(refused);
                }
            };
            match placing.go_on() {
                Next::Again => {}
                Next::Lost if fitting < self.ask.minimum => {
                    let index = placing.waiting().first().copied();
                    let index = self
                        .ask
                        .instances
                        .iter()
                        .position(|one| Some(*one) == index);
                    return Err(self.no_capacity(index.unwrap_or(0), &placing).await);
                }
                Next::Done | Next::Lost => return Ok(placing),
            }
        }
    }

    /// Looks for hosts, in as many time slices as that takes.
    async fn look(&mut self, placing: &mut Placing) -> Answer<SearchResults> {
        loop {
            let contention = self.core.ranker.contention();
            let looked = self.core.decide(|scheduler_state, state| {
                let mut context = LookContext {
                    scheduler: scheduler_state.scheduler,
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

    /// Claims what was found. Returns how many instances have a host now.
    async fn claim(&self, placing: &mut Placing) -> Answer<usize> {
        self.core.ensure_group(&self.wish).await?;
        let command = placing.claim(&self.wish.project, &self.wish.user, self.at);
        let answer = self.core.submit(command).await?;
        let ranker = &self.core.ranker;
        let corrections = match answer {
            Ok(Outcome::Claimed(chosen)) => {
                ranker.note(|contention| placing.decided(&chosen, contention))
            }
            Ok(_) => {
                let odd = "an odd outcome of a claim";
                return Err(ErrorResponse::new(500, code::INTERNAL, odd));
            }
            Err(refusal @ Refusal::NothingFits { .. }) => {
                ranker.note(|contention| placing.refused(Some(refusal), contention))
            }
            Err(refusal) => return Err(refusal_of(&refusal)),
        };
        self.correct(&corrections);
        Ok(placing.placed_count())
    }

    fn correct(&self, corrections: &[Correction]) {
        if !corrections.is_empty() {
            self.core.decide(|scheduler_state, state| {
                correct(scheduler_state.scheduler, state, corrections);
            });
        }
    }

    fn give_up(&self, placing: &mut Placing) {
        self.core
            .decide(|scheduler_state, state| placing.give_up(scheduler_state.scheduler, state));
    }

    /// The refusal when an instance found no host, with the reasons.
    async fn no_capacity(&self, index: usize, placing: &Placing) -> ErrorResponse {
        let instance = self.ask.instances[index];
        let why = match search::explain(&self.core, &self.request, instance, Some(placing)).await {
            Ok(why) => why,
            Err(refused) => return refused,
        };
        self.told_no_capacity(instance, placing.placed_count(), why)
    }

    fn told_no_capacity(
        &self,
        instance: Uuid,
        placed: usize,
        why: NoHostExplanation,
    ) -> ErrorResponse {
        let mut detail = format!("No host for instance {instance}: {}.", why.sentence());
        if self.ask.instances.len() > 1 {
            detail.push_str(&format!(
                " {placed} of {} instances found one, at least {} had to; none keeps it.",
                self.ask.instances.len(),
                self.ask.minimum
            ));
        }
        tracing::info!(%instance, placed, "{detail}");
        ErrorResponse::no_host(detail, why)
    }

    /// Looks for a host for each instance, as if it were alone, without a claim.
    async fn look_at_all(&mut self, demand: &Demand) -> Answer<Vec<Option<SelectedHost>>> {
        let mut places: Vec<Option<SelectedHost>> = Vec::with_capacity(self.ask.instances.len());
        let mut placed = 0;
        for (index, instance) in demand.instances.iter().enumerate() {
            let (found, warnings) = search::alone(&self.core, demand, *instance)?;
            self.warnings = warnings;
            let place = SelectedHost::of(found, 0, demand.rules_of(*instance));
            placed += usize::from(place.is_some());
            places.push(place);
            if placed + (demand.instances.len() - index - 1) < demand.least {
                return match search::explain(&self.core, &self.request, *instance, None).await {
                    Ok(why) => Err(self.told_no_capacity(*instance, placed, why)),
                    Err(refused) => Err(refused),
                };
            }
        }
        Ok(places)
    }

    /// Releases what was claimed. When the store failed, the claim under way may have been kept all
    /// the same, so it is released too.
    async fn undo(&self, placing: &mut Placing, is_unsure: bool) {
        let mut consumers: Vec<Uuid> = placing.claimed().collect();
        let mut unsure = None;
        if is_unsure && placing.claiming().next().is_some() {
            consumers.extend(placing.claiming());
            unsure = Some(placing.claim(&self.wish.project, &self.wish.user, self.at));
        }
        let (core, at) = (Arc::clone(&self.core), self.at);
        let undoing = tokio::spawn(async move {
            if let Some(claim) = unsure {
                core.make_certain(claim).await;
            }
            for consumer in consumers {
                core.undo(consumer, at).await;
            }
        });
        // After the time-out it continues in the background.
        let _ = tokio::time::timeout(UNDO_WAIT, undoing).await;
    }

    /// Keeps all candidates of the response for later claims, and writes it.
    fn tell(
        &self,
        places: &[Option<SelectedHost>],
        alternates: &[Vec<FeasibleHost>],
    ) -> Answer<Reply> {
        let mut offered_candidates = self.core.offered_candidates.lock();
        let now = Instant::now();
        let mut keep = |offer: &FeasibleHost, chosen: usize, rules: &Arc<Rules>| {
            let candidate: &IntentCandidate = offer.candidates.get(chosen)?;
            let kept = OfferedCandidate {
                wish: Arc::clone(&self.wish),
                rules: Arc::clone(rules),
                candidate: candidate.clone(),
                mappings: offer.mappings.get(chosen).cloned().unwrap_or_default(),
            };
            Some(offered_candidates.keep(now, kept))
        };
        let slots = self.ask.instances.iter().zip(places).zip(alternates);
        let slots = slots.map(|((instance, place), alternates)| InstanceBody {
            instance: *instance,
            selected: place.as_ref().and_then(|place| {
                let candidate = keep(&place.offer, place.chosen, &place.rules)?;
                SelectionBody::new(candidate, &place.offer, place.chosen)
            }),
            alternates: alternates
                .iter()
                .filter_map(|offer| {
                    let candidate = keep(offer, 0, &place.as_ref()?.rules)?;
                    SelectionBody::new(candidate, offer, 0)
                })
                .collect(),
            explanation: place.as_ref().and_then(|place| {
                let weighing = place.weighing.as_ref()?;
                Some(ScoreExplanationBody::new(weighing, place.offer.slot))
            }),
        });
        let selections = slots.collect();
        drop(offered_candidates);
        json(
            200,
            &DestinationsBody {
                claimed: self.ask.claim,
                kept_ms: u64::try_from(self.core.keep.time.as_millis()).unwrap_or(u64::MAX),
                selections,
                warnings: &self.warnings,
            },
        )
    }
}
