//! Limits of the messages between control and cells.

use placewright_conductor::message::{Create, Envelope, MoveOrder};
use placewright_conductor::{
    Action, Attempt, Candidate, ClaimChange, ClaimRequest, ClaimResponse, Fault, InstanceId,
    Message, Reply,
};
use placewright_link::{CellEvent, CellOperation, HostView, InstanceView};

use super::{
    BODY_BYTES_MAX, FieldPath, LIST_MAX, LimitExceeded, NAME_BYTES_MAX, PARTS_MAX, TEXT_BYTES_MAX,
    Validate,
};

impl<T: Validate> Validate for Vec<T> {
    const IS_LIST: bool = true;

    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        path.check_each(self, LIST_MAX)
    }
}

impl Validate for () {
    fn check(&self, _: FieldPath<'_>) -> Result<(), LimitExceeded> {
        Ok(())
    }
}

impl Validate for InstanceId {
    fn check(&self, _: FieldPath<'_>) -> Result<(), LimitExceeded> {
        Ok(())
    }
}

/// The index of a candidate needs no limit: the cell that sent the candidates checks that there is one with this
/// index.
impl Validate for ClaimResponse {
    fn check(&self, _: FieldPath<'_>) -> Result<(), LimitExceeded> {
        Ok(())
    }
}

impl Validate for Envelope {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        path.field("sent_at").check_time(self.sent_at)?;
        match &self.message {
            Message::Create(create) => create.check(path.field("create")),
            Message::Move(order) => order.check(path.field("move")),
            Message::Delete { claim_number, .. } => path
                .field("delete")
                .field("claim")
                .check_number(*claim_number),
            Message::Reserve { .. } | Message::Cancel { .. } | Message::ConfirmOrRevert { .. } => {
                Ok(())
            }
        }
    }
}

impl Validate for Create {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        self.spec.check(path.field("spec"))?;
        self.selection.check(path.field("selection"))?;
        path.field("alternates")
            .check_each(&self.alternates, PARTS_MAX)?;
        path.field("claim").check_number(self.claim_number)
    }
}

impl Validate for MoveOrder {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        self.selection.check(path.field("selection"))?;
        path.field("alternates")
            .check_each(&self.alternates, PARTS_MAX)?;
        if let Some(spec) = &self.spec {
            spec.check(path.field("spec"))?;
        }
        path.field("claim").check_number(self.claim_number)
    }
}

impl Validate for Candidate {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        let zone = self.zone.as_deref();
        path.field("zone")
            .check_optional_text(zone, NAME_BYTES_MAX)?;
        path.field("amounts").check_each(&self.amounts, PARTS_MAX)?;
        path.field("mappings").check_each(&self.mappings, PARTS_MAX)
    }
}

impl Validate for CellOperation {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        match self {
            Self::Rebuild { spec, .. } => spec.check(path.field("spec")),
            Self::RefuseRebuild { fault, .. } => fault.check(path.field("fault")),
            Self::Shelve { .. } | Self::RemoveHost { .. } | Self::Reconcile { .. } => Ok(()),
        }
    }
}

impl Validate for Fault {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        path.field("message")
            .check_text(&self.message, TEXT_BYTES_MAX)?;
        path.field("details")
            .check_text(&self.details, BODY_BYTES_MAX)?;
        path.field("at").check_time(self.at)
    }
}

impl Validate for Reply {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        match self {
            Self::Accepted => Ok(()),
            Self::Refused(why) => path.check_text(why, TEXT_BYTES_MAX),
        }
    }
}

impl Validate for Action {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        path.field("name").check_text(&self.name, NAME_BYTES_MAX)?;
        path.field("started_at").check_time(self.started_at)?;
        if let Some(finished_at) = self.finished_at {
            path.field("finished_at").check_time(finished_at)?;
        }
        path.field("attempts")
            .check_each(&self.attempts, LIST_MAX)?;
        let fault = self.fault.as_ref();
        fault.map_or(Ok(()), |fault| fault.check(path.field("fault")))
    }
}

impl Validate for Attempt {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        path.field("started_at").check_time(self.started_at)?;
        path.field("finished_at").check_time(self.finished_at)?;
        let failure = self.failure.as_deref();
        path.field("failure")
            .check_optional_text(failure, TEXT_BYTES_MAX)
    }
}

impl Validate for ClaimRequest {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        path.field("number").check_number(self.number)?;
        match &self.change {
            ClaimChange::Swap { candidates } => {
                path.field("candidates").check_each(candidates, PARTS_MAX)
            }
            ClaimChange::Settle { fault, .. } => {
                let fault = fault.as_ref();
                fault.map_or(Ok(()), |fault| fault.check(path.field("fault")))
            }
            ClaimChange::Release {
                failed_attempts, ..
            } => path
                .field("failed_attempts")
                .check_each(failed_attempts, PARTS_MAX),
        }
    }
}

impl Validate for CellEvent {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        match self {
            Self::Instance { view, .. } => {
                let view = view.as_deref();
                view.map_or(Ok(()), |view| view.check(path.field("instance")))
            }
            Self::Host { view, .. } => {
                let view = view.as_ref();
                view.map_or(Ok(()), |view| view.check(path.field("host")))
            }
            Self::State { update, .. } => update.check(path.field("state")),
            Self::Alive { hosts } => path.field("alive").check_count(hosts.len(), LIST_MAX),
            Self::Complete | Self::Heartbeat => Ok(()),
        }
    }
}

impl Validate for InstanceView {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        let zone = self.zone.as_deref();
        path.field("zone")
            .check_optional_text(zone, NAME_BYTES_MAX)?;
        if let Some(fault) = &self.fault {
            fault.check(path.field("fault"))?;
        }
        path.field("created_at").check_time(self.created_at)?;
        path.field("updated_at").check_time(self.updated_at)
    }
}

impl Validate for HostView {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        let name = self.name.as_deref();
        path.field("name")
            .check_optional_text(name, NAME_BYTES_MAX)?;
        path.field("heard_at").check_time(self.heard_at)
    }
}
