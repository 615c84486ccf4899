//! Limits of the messages between control and cells.

use placewright_conductor::message::{Create, Envelope, MoveOrder};
use placewright_conductor::{
    Action, Answer, Ask, Candidate, Fault, InstanceId, Message, Reply, Try, Want,
};
use placewright_link::{Act, CellNews, HostView, InstanceView};

use super::{
    Absurd, At, BODY_BYTES_MAX, Bounded, LIST_MAX, NAME_BYTES_MAX, PARTS_MAX, TEXT_BYTES_MAX,
};

impl<T: Bounded> Bounded for Vec<T> {
    const IS_LIST: bool = true;

    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        at.each(self, LIST_MAX)
    }
}

impl Bounded for () {
    fn check(&self, _: At<'_>) -> Result<(), Absurd> {
        Ok(())
    }
}

impl Bounded for InstanceId {
    fn check(&self, _: At<'_>) -> Result<(), Absurd> {
        Ok(())
    }
}

/// Positions in a list need no limit: they refer to a list that the other side sent.
impl Bounded for Answer {
    fn check(&self, _: At<'_>) -> Result<(), Absurd> {
        Ok(())
    }
}

impl Bounded for Envelope {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        at.field("sent_at").time(self.sent_at)?;
        match &self.message {
            Message::Create(create) => create.check(at.field("create")),
            Message::Move(order) => order.check(at.field("move")),
            Message::Delete { claim, .. } => at.field("delete").field("claim").number(*claim),
            Message::Reserve { .. } | Message::Cancel { .. } | Message::Conclude { .. } => Ok(()),
        }
    }
}

impl Bounded for Create {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        self.spec.check(at.field("spec"))?;
        self.selection.check(at.field("selection"))?;
        at.field("alternates").each(&self.alternates, PARTS_MAX)?;
        at.field("claim").number(self.claim)
    }
}

impl Bounded for MoveOrder {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        self.selection.check(at.field("selection"))?;
        at.field("alternates").each(&self.alternates, PARTS_MAX)?;
        if let Some(spec) = &self.spec {
            spec.check(at.field("spec"))?;
        }
        at.field("claim").number(self.claim)
    }
}

impl Bounded for Candidate {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        let zone = self.zone.as_deref();
        at.field("zone").maybe_text(zone, NAME_BYTES_MAX)?;
        at.field("amounts").each(&self.amounts, PARTS_MAX)
    }
}

impl Bounded for Act {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        match self {
            Self::Rebuild { spec, .. } => spec.check(at.field("spec")),
            Self::RefuseRebuild { fault, .. } => fault.check(at.field("fault")),
            Self::Shelve { .. } | Self::RemoveHost { .. } | Self::Reconcile { .. } => Ok(()),
        }
    }
}

impl Bounded for Fault {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        at.field("message").text(&self.message, TEXT_BYTES_MAX)?;
        at.field("details").text(&self.details, BODY_BYTES_MAX)?;
        at.field("at").time(self.at)
    }
}

impl Bounded for Reply {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        match self {
            Self::Accepted => Ok(()),
            Self::Refused(why) => at.text(why, TEXT_BYTES_MAX),
        }
    }
}

impl Bounded for Action {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        at.field("name").text(&self.name, NAME_BYTES_MAX)?;
        at.field("started_at").time(self.started_at)?;
        if let Some(finished_at) = self.finished_at {
            at.field("finished_at").time(finished_at)?;
        }
        at.field("tries").each(&self.tries, LIST_MAX)?;
        let fault = self.fault.as_ref();
        fault.map_or(Ok(()), |fault| fault.check(at.field("fault")))
    }
}

impl Bounded for Try {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        at.field("started_at").time(self.started_at)?;
        at.field("finished_at").time(self.finished_at)?;
        let failure = self.failure.as_deref();
        at.field("failure").maybe_text(failure, TEXT_BYTES_MAX)
    }
}

impl Bounded for Ask {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        at.field("number").number(self.number)?;
        match &self.want {
            Want::Swap { candidates } => at.field("candidates").each(candidates, PARTS_MAX),
            Want::Settle { fault, .. } => {
                let fault = fault.as_ref();
                fault.map_or(Ok(()), |fault| fault.check(at.field("fault")))
            }
            Want::Release { .. } => Ok(()),
        }
    }
}

impl Bounded for CellNews {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        match self {
            Self::Instance { view, .. } => {
                let view = view.as_deref();
                view.map_or(Ok(()), |view| view.check(at.field("instance")))
            }
            Self::Host { view, .. } => {
                let view = view.as_ref();
                view.map_or(Ok(()), |view| view.check(at.field("host")))
            }
            Self::State { update, .. } => update.check(at.field("state")),
            Self::Alive { hosts } => at.field("alive").count(hosts.len(), LIST_MAX),
            Self::Complete | Self::Heartbeat => Ok(()),
        }
    }
}

impl Bounded for InstanceView {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        let zone = self.zone.as_deref();
        at.field("zone").maybe_text(zone, NAME_BYTES_MAX)?;
        if let Some(fault) = &self.fault {
            fault.check(at.field("fault"))?;
        }
        at.field("created_at").time(self.created_at)?;
        at.field("updated_at").time(self.updated_at)
    }
}

impl Bounded for HostView {
    fn check(&self, at: At<'_>) -> Result<(), Absurd> {
        let name = self.name.as_deref();
        at.field("name").maybe_text(name, NAME_BYTES_MAX)?;
        at.field("heard_at").time(self.heard_at)
    }
}
