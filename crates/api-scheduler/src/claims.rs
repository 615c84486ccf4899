//! Claims of candidates from earlier responses: claim, swap and release.

use std::time::{Duration, Instant};

use placewright_control::placer::claim::{self, ClaimConsumer};
use placewright_control::{ControlMachine, RefusalReason, now, placer};
use placewright_http::Reply;
use placewright_placement::{
    Command, ConsumerGeneration, ConsumerUuid, Outcome, Refusal, Timestamp,
};
use placewright_scheduler::host_state::InstanceReport;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::allocation_request::AllocationRequestBody;
use crate::candidate_store::{ClaimOwner, OfferedCandidate, Rules};
use crate::error_response::{Answer, ErrorResponse, code};
use crate::shared::{ApiState, RoutedRequest, json};

/// How often a release is tried when the store fails; the wait doubles each time.
const RELEASES_MAX: u32 = 16;
const RELEASE_RETRY: Duration = Duration::from_millis(50);

/// The body of `POST /v1/claims/{consumer}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimBody {
    candidate: Uuid,
    #[serde(default)]
    project: Option<String>,
    #[serde(default)]
    user: Option<String>,
}

/// The body of `POST /v1/claims/{consumer}/swap`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwapBody {
    candidate: Uuid,
}

/// The body of the response to a claim or swap.
#[derive(Serialize)]
struct Claimed<'a> {
    consumer: Uuid,
    candidate: Uuid,
    provider: Uuid,
    allocation_request: AllocationRequestBody<'a>,
}

/// The outcome of an attempt to claim a candidate.
enum Attempt {
    /// It is claimed.
    Done,
    /// It does not fit any more, for this reason.
    NothingFits(Option<Refusal>),
}

pub(crate) async fn claim_kept(call: &RoutedRequest<'_>, consumer: Uuid) -> Answer<Reply> {
    let body: ClaimBody = call.read()?;
    let kept = find(call.core, body.candidate)?;
    let project = body.project.unwrap_or_else(|| kept.wish.project.clone());
    let user = body.user.unwrap_or_else(|| kept.wish.user.clone());
    check_owner("project", &project)?;
    check_owner("user", &user)?;
    let claimant = ClaimConsumer::new(consumer, &project, &user);
    take(call.core, claimant, consumer, body.candidate, &kept).await
}

pub(crate) async fn swap(call: &RoutedRequest<'_>, consumer: Uuid) -> Answer<Reply> {
    let body: SwapBody = call.read()?;
    let kept = find(call.core, body.candidate)?;
    let uuid = ConsumerUuid::from_uuid(consumer);
    let found = call.core.placement.read(move |state| {
        let found = state.consumer(uuid)?;
        Some(ClaimConsumer {
            consumer: uuid,
            generation: ConsumerGeneration::Is(Some(found.generation)),
            project: state.project_name(found.project).to_owned(),
            user: state.user_name(found.user).to_owned(),
            consumer_type: None,
        })
    });
    let claimant = found.await.ok_or_else(|| holds_nothing(consumer))?;
    take(call.core, claimant, consumer, body.candidate, &kept).await
}

pub(crate) async fn release(call: &RoutedRequest<'_>, consumer: Uuid) -> Answer<Reply> {
    match call.core.release(consumer).await? {
        Ok(()) => Ok(Reply::empty(204)),
        Err(_) => Err(holds_nothing(consumer)),
    }
}

fn holds_nothing(consumer: Uuid) -> ErrorResponse {
    ErrorResponse::not_found(format!("Consumer {consumer} holds nothing."))
}

/// Checks the owner of a consumer: placement requires 1 to 255 characters for each part.
pub(crate) fn check_owner(field: &str, text: &str) -> Answer<()> {
    if (1..=255).contains(&text.chars().count()) {
        return Ok(());
    }
    let detail = format!("{field}: a claim needs it, 1 to 255 characters");
    Err(ErrorResponse::field(field, detail))
}

fn find(core: &ApiState, candidate: Uuid) -> Answer<OfferedCandidate> {
    let mut offered_candidates = core.offered_candidates.lock();
    let found = offered_candidates.get(Instant::now(), candidate);
    found.cloned().ok_or_else(|| {
        let detail = format!(
            "Candidate {candidate} is not kept (any more): ask POST /v1/destinations for new ones."
        );
        ErrorResponse::new(410, code::CANDIDATE_EXPIRED, detail)
    })
}

async fn take(
    core: &ApiState,
    claimant: ClaimConsumer,
    consumer: Uuid,
    candidate: Uuid,
    kept: &OfferedCandidate,
) -> Answer<Reply> {
    let is_swap = claimant.consumer_type.is_none();
    core.ensure_group(&kept.wish).await?;
    match core.attempt(claimant, consumer, kept).await? {
        Attempt::Done => json(
            200,
            &Claimed {
                consumer,
                candidate,
                provider: kept.candidate.host,
                allocation_request: AllocationRequestBody {
                    allocations: &kept.candidate.allocations,
                    mappings: &kept.mappings,
                },
            },
        ),
        Attempt::NothingFits(why) => {
            let kept = if is_swap { "; nothing changed" } else { "" };
            let cause = why.as_ref().map(RefusalReason::of_claim);
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            let detail = format!("The candidate does not fit any more{why}{kept}.");
            Err(ErrorResponse::no_capacity(detail, cause))
        }
    }
}

impl ApiState {
    /// Creates a request's server group in placement, which enforces its rules from then on.
    pub(crate) async fn ensure_group(&self, wish: &ClaimOwner) -> Answer<()> {
        let Some((group, rules)) = &wish.group else {
            return Ok(());
        };
        let is_known = |machine: &ControlMachine| machine.placement().group(*group).is_some();
        if self.placement.engine().read_now(is_known) {
            return Ok(());
        }
        let command = Command::SetGroup {
            group: *group,
            rules: rules.clone(),
        };
        self.submit(command)
            .await?
            .map(drop)
            .map_err(|refusal| ErrorResponse::field("request.instance_group", refusal.to_string()))
    }

    /// Claims a kept candidate, and counts the instance on its host.
    async fn attempt(
        &self,
        claimant: ClaimConsumer,
        instance: Uuid,
        kept: &OfferedCandidate,
    ) -> Answer<Attempt> {
        let consumer = claimant.consumer;
        let mut rules = Rules::clone(&kept.rules);
        for rule in &mut rules {
            rule.others.retain(|other| *other != consumer);
        }
        let group = kept.wish.group.as_ref().map(|(group, _)| *group);
        let intent = claimant.intent(group, rules, vec![kept.candidate.clone()]);
        let command = claim::first_that_fit(vec![intent], 1, now());
        match self.submit(command).await? {
            Ok(Outcome::Claimed(_)) => {
                let report = InstanceReport {
                    uuid: instance,
                    group,
                    image_properties: kept.wish.image_properties.iter().cloned().collect(),
                };
                self.change_hosts(|hosts| placer::arrive(hosts, kept.candidate.host, &report));
                Ok(Attempt::Done)
            }
            Ok(_) => Err(ErrorResponse::new(
                500,
                code::INTERNAL,
                "an odd outcome of a claim",
            )),
            Err(Refusal::NothingFits { first, .. }) => {
                Ok(Attempt::NothingFits(first.map(|first| *first)))
            }
            Err(refusal) => Err(refusal_of(&refusal)),
        }
    }

    /// Releases what a consumer holds; the inner error says that it holds nothing.
    pub(crate) async fn release(&self, consumer: Uuid) -> Answer<Result<(), Refusal>> {
        let released = self.submit(claim::release(consumer)).await?;
        if released.is_ok() {
            self.note_departure(consumer);
        }
        Ok(released.map(drop))
    }

    /// Submits a claim again whose answer the store lost, until there is an answer: from then on the
    /// state says whether it took effect. A release alone would not do, because one that is refused
    /// writes nothing, and so does not learn what the store has.
    pub(crate) async fn make_certain(&self, claim: Command) {
        let mut wait = RELEASE_RETRY;
        for _ in 0..RELEASES_MAX {
            if self.submit(claim.clone()).await.is_ok() {
                return;
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
        tracing::error!("it is not known whether a claim of a failed request was kept");
    }

    /// Releases what a request claimed at a certain time before it failed, and retries while the
    /// store fails. A later claim by others for the same consumer stays.
    pub(crate) async fn undo(&self, consumer: Uuid, at: Timestamp) {
        let uuid = ConsumerUuid::from_uuid(consumer);
        let mut wait = RELEASE_RETRY;
        for _ in 0..RELEASES_MAX {
            let seen = self.placement.engine().read_now(|machine| {
                let found = machine.placement().consumer(uuid)?;
                Some((found.generation, found.allocated_at))
            });
            let generation = match seen {
                Some((generation, allocated_at)) if allocated_at == at => generation,
                Some(_) | None => return,
            };
            match self.submit(claim::give_back(uuid, generation, now())).await {
                Ok(Ok(_)) => return self.note_departure(consumer),
                // It changed meanwhile, so the next look decides.
                Ok(Err(_)) => {}
                Err(_) => tokio::time::sleep(wait).await,
            }
            wait *= 2;
        }
        tracing::error!(%consumer, "a claim of a failed request could not be given back");
    }

    /// Rejects consumers that have allocations.
    pub(crate) fn check_new(&self, consumers: &[Uuid]) -> Answer<()> {
        let holding = self.placement.engine().read_now(|machine| {
            let mut consumers = consumers.iter().copied();
            consumers.find(|uuid| {
                machine
                    .placement()
                    .consumer(ConsumerUuid::from_uuid(*uuid))
                    .is_some()
            })
        });
        holding.map_or(Ok(()), |consumer| Err(exists(&consumer)))
    }

    /// Removes the expectation of an instance that its host has not reported yet.
    fn note_departure(&self, consumer: Uuid) {
        self.change_hosts(|hosts| placer::depart(hosts, consumer));
    }
}

fn exists(consumer: &impl std::fmt::Display) -> ErrorResponse {
    let detail =
        format!("Consumer {consumer} holds something already: swap it, or give it back first.");
    ErrorResponse::new(409, code::CONSUMER_EXISTS, detail)
}

/// The error response to a claim that was refused for another reason than capacity.
pub(crate) fn refusal_of(refusal: &Refusal) -> ErrorResponse {
    match refusal {
        Refusal::ConsumerGenerationConflict {
            given: None,
            consumer,
            ..
        } => exists(consumer),
        Refusal::ConsumerGenerationConflict { .. } => {
            ErrorResponse::new(409, code::CONSUMER_CHANGED, format!("{refusal}; try again"))
        }
        other => {
            ErrorResponse::no_capacity(other.to_string(), Some(RefusalReason::of_claim(other)))
        }
    }
}
