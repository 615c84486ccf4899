//! Submits planned commands, and handles the answers.

use std::future::Future;
use std::pin::Pin;

use crate::placer::{Correction, RoundEnd, apply_corrections};
use crate::scheduler::ExplanationTime;
use placewright_conductor::super_conductor::{Command, Outcome, Refusal};
use placewright_conductor::{Fault, InstanceId};
use uuid::Uuid;

use super::Shared;
use crate::handle::CommandAnswer;
use crate::placement_metrics::PlacementMetrics;
use crate::plan::{OngoingPlacement, PlacementPlan, lost_to_other_claims};

/// A command that was submitted, with the future of its answer.
pub(crate) struct Submitted {
    pub(super) answer: Pin<Box<dyn Future<Output = CommandAnswer> + Send>>,
    pub(super) handler: AnswerHandler,
    /// The number of claims in the command; a command that claims nothing counts as one.
    pub(super) claim_count: usize,
}

/// How the answer to a command is handled.
pub(super) enum AnswerHandler {
    /// The answer says which hosts the instances of this placement got.
    Claim(Box<OngoingPlacement>),
    /// Whatever the answer is, these instances and moves are no longer busy.
    MarkNotBusy(Vec<Uuid>),
}

impl Shared {
    /// Submits the command of a plan that was made at `planned_at`, if it has one.
    pub(super) fn submit(
        &self,
        plan: PlacementPlan,
        planned_at: ExplanationTime,
    ) -> Option<Submitted> {
        let claim_count = plan.claim_count();
        match plan {
            PlacementPlan::Nothing { ids } => {
                self.mark_not_busy(&ids);
                None
            }
            PlacementPlan::Claim(mut ongoing) => {
                ongoing.span.begin_claim(ongoing.placing.named_host_count());
                let command = match ongoing.migration {
                    Some(migration) => ongoing.placing.place_move(migration),
                    None => {
                        let may_reschedule = self.control.options().reschedule_across_cells;
                        ongoing.placing.place_builds(may_reschedule)
                    }
                };
                Some(self.submit_command(command, AnswerHandler::Claim(ongoing), claim_count))
            }
            PlacementPlan::Bury { instances, fault } => {
                self.metrics().count_without_host(instances.len());
                let fault = fault.explained(&self.scheduler, planned_at);
                Some(self.bury(instances, fault))
            }
            PlacementPlan::FailMove { migration, fault } => {
                self.metrics().count_without_host(1);
                let fault = fault.explained(&self.scheduler, planned_at);
                let handler = AnswerHandler::MarkNotBusy(vec![migration.0]);
                Some(self.submit_command(Command::FailMove { migration, fault }, handler, 1))
            }
        }
    }

    fn metrics(&self) -> &PlacementMetrics {
        &self.control.shared.metrics
    }

    fn bury(&self, instances: Vec<InstanceId>, fault: Fault) -> Submitted {
        let handler =
            AnswerHandler::MarkNotBusy(instances.iter().map(|instance| instance.0).collect());
        self.submit_command(Command::Bury { instances, fault }, handler, 1)
    }

    fn submit_command(
        &self,
        command: Command,
        handler: AnswerHandler,
        claim_count: usize,
    ) -> Submitted {
        Submitted {
            answer: Box::pin(self.control.submit(command)),
            handler,
            claim_count,
        }
    }

    /// Handles the answer to a command, and submits the command that has to follow, if there is one.
    pub(super) fn handle_answer(
        &self,
        answer: CommandAnswer,
        handler: AnswerHandler,
    ) -> Option<Submitted> {
        match handler {
            AnswerHandler::MarkNotBusy(ids) => {
                self.mark_not_busy(&ids);
                None
            }
            AnswerHandler::Claim(ongoing) => self.handle_claim_answer(answer, ongoing),
        }
    }

    fn handle_claim_answer(
        &self,
        answer: CommandAnswer,
        mut ongoing: Box<OngoingPlacement>,
    ) -> Option<Submitted> {
        let placing = &mut ongoing.placing;
        let claimed_before = placing.claimed().count();
        let fallen_before = placing.fallen_slots().len();
        let claiming_count = placing.claiming().count();
        let corrections = match answer {
            Ok(Ok(Outcome::Placed(chosen))) => self
                .scheduler
                .update_contention(|contention| placing.apply_claimed(&chosen, contention)),
            Ok(Err(Refusal::Placement(refusal))) => self
                .scheduler
                .update_contention(|contention| placing.apply_refused(Some(refusal), contention)),
            // One of the instances was deleted meanwhile; hosts are searched again for the other instances.
            Ok(Err(_)) if ongoing.migration.is_none() => {
                self.correct(&ongoing.placing.reopen_claiming());
                let (newly_claimed_count, lost_count) = (0, 0);
                ongoing.span.rank_again(newly_claimed_count, lost_count);
                self.requeue(ongoing);
                return None;
            }
            Ok(_) | Err(_) => {
                self.correct(&ongoing.placing.reopen_claiming());
                ongoing.span.fail("the claim was not decided");
                self.mark_not_busy(&ongoing.ids_of(ongoing.placing.unclaimed()));
                return None;
            }
        };
        self.correct(&corrections);
        let claimed: Vec<Uuid> = ongoing.placing.claimed().collect();
        let newly_claimed_count = claimed.len().saturating_sub(claimed_before);
        let fallen_count = ongoing
            .placing
            .fallen_slots()
            .len()
            .saturating_sub(fallen_before);
        let lost_count = claiming_count.saturating_sub(newly_claimed_count);
        self.metrics()
            .count_claim(newly_claimed_count, fallen_count, lost_count);
        if !claimed.is_empty() {
            self.mark_not_busy(&ongoing.ids_of(claimed));
        }
        match ongoing.placing.end_round() {
            RoundEnd::Done => {
                ongoing.span.end_claim(newly_claimed_count, lost_count);
                None
            }
            RoundEnd::SearchAgain => {
                ongoing.span.rank_again(newly_claimed_count, lost_count);
                self.requeue(ongoing);
                None
            }
            RoundEnd::RoundsExhausted => {
                ongoing
                    .span
                    .fail("other claims took all hosts that were named");
                Some(self.fail_unclaimed(&ongoing))
            }
        }
    }

    /// Fails the instances that have no claimed host after the last round.
    fn fail_unclaimed(&self, ongoing: &OngoingPlacement) -> Submitted {
        let fault = lost_to_other_claims(ongoing.placing.last_refusal());
        let unclaimed = ongoing.placing.unclaimed();
        self.metrics().count_without_host(unclaimed.len());
        if let Some(migration) = ongoing.migration {
            let handler = AnswerHandler::MarkNotBusy(vec![migration.0]);
            return self.submit_command(Command::FailMove { migration, fault }, handler, 1);
        }
        self.bury(unclaimed.into_iter().map(InstanceId).collect(), fault)
    }

    /// Corrects on which hosts instances are counted, where a claim put an instance on another host than the search
    /// expected.
    fn correct(&self, corrections: &[Correction]) {
        if !corrections.is_empty() {
            self.scheduler.with_state(|scheduler, control| {
                apply_corrections(scheduler, &control.placement, corrections);
            });
        }
    }
}
