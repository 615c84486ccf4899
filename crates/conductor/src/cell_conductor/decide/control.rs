//! Decides the messages of control.

use std::sync::Arc;

use uuid::Uuid;

use super::DecisionContext;
use super::unit_of_work::UnitOfWork;
use crate::cell_conductor::state::{
    Change, Continuation, Instance, Job, JobKind, META_KEY, Stage, Target, VmState,
};
use crate::claim_request::MoveSide;
use crate::ids::{InstanceId, MigrationId};
use crate::message::{Create, Envelope, Message, MoveDecision, MoveKind, MoveOrder, Reply};

impl DecisionContext<'_> {
    pub(super) fn decide_message(self, envelope: &Envelope, changes: &mut Vec<Change>) -> Reply {
        match &envelope.message {
            Message::Create(create) => {
                let meta = self.state.meta.get(&META_KEY);
                if meta.is_some_and(|meta| envelope.sent_at < meta.forgotten_before) {
                    return refused("the message is too old");
                }
                self.create(create, changes)
            }
            Message::Delete {
                instance,
                claim_number,
            } => self.delete(*instance, *claim_number, changes),
            Message::Reserve {
                instance,
                migration,
                kind,
                move_number,
            } => self.reserve(*instance, (*migration, *kind, *move_number), changes),
            Message::Move(order) => self.begin_move(order, changes),
            Message::Cancel {
                instance,
                migration,
            } => {
                if let Some(mut work) = self.load_in_move(*instance, *migration)
                    && work.is_at(Stage::Reserved)
                {
                    work.finish_job();
                    work.store(changes);
                }
                Reply::Accepted
            }
            Message::ConfirmOrRevert {
                instance,
                migration,
                decision,
                request,
            } => self.confirm_or_revert(*instance, *migration, (*decision, *request), changes),
        }
    }

    /// The row of an instance that the cell did not know.
    fn new_row(self, vm_state: VmState) -> Instance {
        Instance {
            vm_state,
            guest: None,
            zone: None,
            claim_number: 0,
            attempt: 0,
            move_number: 0,
            action_count: 0,
            fault: None,
            created_at: self.at,
            updated_at: self.at,
            mappings: Vec::new(),
        }
    }

    fn create(self, create: &Create, changes: &mut Vec<Change>) -> Reply {
        if self.state.tombstones.contains_key(&create.instance) {
            return refused("the instance was deleted");
        }
        if self.state.instances.contains_key(&create.instance) {
            return Reply::Accepted;
        }
        let mut row = self.new_row(VmState::Building);
        row.claim_number = create.claim_number;
        row.created_at = create.spec.created_at;
        let mut work = UnitOfWork::new(self, create.instance, row);
        work.spec = Some(create.spec.clone());
        let job = work.begin_job(("create", None), JobKind::Build, Stage::Reserved);
        job.target = Some(Target {
            candidate: Arc::clone(&create.selection),
            number: 0,
        });
        job.alternates = Arc::clone(&create.alternates);
        work.start_step(UnitOfWork::first_step(JobKind::Build));
        work.store(changes);
        Reply::Accepted
    }

    fn delete(self, instance: InstanceId, claim_number: u64, changes: &mut Vec<Change>) -> Reply {
        // An instance that is not known is deleted like any other, because control may still hold its
        // claim: this message may have overtaken the create, or control was restored from a backup that
        // is older than an earlier deletion. If this is a late copy of the message, the release of the
        // claim changes nothing.
        let work = UnitOfWork::load(self, instance);
        let mut work = work
            .unwrap_or_else(|| UnitOfWork::new(self, instance, self.new_row(VmState::Building)));
        work.delete(claim_number);
        work.store(changes);
        Reply::Accepted
    }

    /// Reserves an instance for a move, so that no other operation begins meanwhile.
    fn reserve(
        self,
        instance: InstanceId,
        (migration, kind, move_number): (MigrationId, MoveKind, u32),
        changes: &mut Vec<Change>,
    ) -> Reply {
        let Some(mut work) = UnitOfWork::load(self, instance) else {
            return refused("the cell has no such instance");
        };
        if move_number <= work.row.move_number {
            return match &work.job {
                Some(job) if job.migration == Some(migration) => Reply::Accepted,
                _ => refused("the move is over"),
            };
        }
        // Recorded even if the move is refused, so that a late copy of the message cannot reserve the
        // instance.
        work.row.move_number = move_number;
        let reply = match self.reason_to_refuse(&work, kind) {
            Some(reason) => refused(reason),
            None => {
                // A migration has the UUID of the request that began it.
                let action = (kind.action_name(), Some(migration.0));
                let job = work.begin_job(action, JobKind::Move(kind), Stage::Reserved);
                job.migration = Some(migration);
                Reply::Accepted
            }
        };
        work.store(changes);
        reply
    }

    fn reason_to_refuse(self, work: &UnitOfWork<'_>, kind: MoveKind) -> Option<&'static str> {
        if work.job.is_some() {
            return Some("the instance is busy");
        }
        let is_down = work.row.guest.map(|guest| self.state.is_down(guest.host));
        match (kind, work.row.vm_state, is_down) {
            (MoveKind::Unshelve, VmState::ShelvedOffloaded, None) => None,
            (MoveKind::Unshelve, _, _) => Some("the instance is not shelved"),
            (_, _, None) => Some("the instance is on no host"),
            (MoveKind::Evacuate, _, Some(true)) => None,
            (MoveKind::Evacuate, _, Some(false)) => Some("the host is not down"),
            (_, _, Some(true)) => Some("the host is down"),
            (_, VmState::Active, Some(false)) => None,
            (_, _, Some(false)) => Some("the instance is not active"),
        }
    }

    /// Loads an instance whose job is this move.
    fn load_in_move(&self, instance: InstanceId, migration: MigrationId) -> Option<UnitOfWork<'_>> {
        let is_of = |job: &Job| job.migration == Some(migration);
        UnitOfWork::load(*self, instance).filter(|work| work.job.as_ref().is_some_and(is_of))
    }

    fn begin_move(self, order: &MoveOrder, changes: &mut Vec<Change>) -> Reply {
        let Some(mut work) = self.load_in_move(order.instance, order.migration) else {
            return refused("the move is not reserved");
        };
        if !work.is_at(Stage::Reserved) {
            return Reply::Accepted;
        }
        work.row.claim_number = work.row.claim_number.max(order.claim_number);
        let Some(job) = &mut work.job else {
            return refused("the move is not reserved");
        };
        job.target = Some(Target {
            candidate: Arc::clone(&order.selection),
            number: 0,
        });
        job.alternates = Arc::clone(&order.alternates);
        job.spec.clone_from(&order.spec);
        let first = UnitOfWork::first_step(job.kind);
        work.start_step(first);
        work.store(changes);
        Reply::Accepted
    }

    fn confirm_or_revert(
        self,
        instance: InstanceId,
        migration: MigrationId,
        (decision, request): (MoveDecision, Option<Uuid>),
        changes: &mut Vec<Change>,
    ) -> Reply {
        let Some(mut work) = self.load_in_move(instance, migration) else {
            return refused("the move is over");
        };
        // Before the stage `Verify`, the decision changes nothing, and control sends it again. After
        // that stage, the decision has been carried out.
        if work.is_at(Stage::Verify)
            && let Some(job) = &work.job
        {
            let (origin, target) = (job.origin, job.target.as_ref().map(Target::guest));
            work.begin_action(decision.action_name(), request);
            match decision {
                MoveDecision::Confirm => {
                    work.destroy_then(origin, Continuation::Settle(MoveSide::Target));
                }
                MoveDecision::Revert => work.destroy_then(target, Continuation::Return),
            }
            work.store(changes);
        }
        Reply::Accepted
    }
}

impl UnitOfWork<'_> {
    fn is_at(&self, stage: Stage) -> bool {
        self.job.as_ref().is_some_and(|job| job.stage == stage)
    }
}

fn refused(why: &str) -> Reply {
    Reply::Refused(why.to_owned())
}
