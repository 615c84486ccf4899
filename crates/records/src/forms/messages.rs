//! The messages between control and cells.

use placewright_conductor::message::{Create, Envelope, Message, MoveOrder, Reply};
use placewright_conductor::{ClaimChange, ClaimRequest};
use placewright_link::{CellEvent, CellOperation, HostView, InstanceView, JobView};

row!(Envelope { sent_at, message });
row!(Create {
    instance,
    spec,
    selection,
    alternates,
    claim_number
});
row!(MoveOrder {
    instance,
    migration,
    selection,
    alternates,
    spec,
    claim_number
});
row!(ClaimRequest {
    instance,
    number,
    change
});
row!(InstanceView {
    vm_state,
    job,
    spec_digest,
    guest,
    zone,
    fault,
    created_at,
    updated_at
});
row!(JobView {
    kind,
    migration,
    stage,
    target
});
row!(HostView {
    name,
    is_up,
    heard_at
});

choice!(Message {
    0 Create(create),
    1 Delete { instance, claim_number },
    2 Reserve { instance, migration, kind, move_number },
    3 Move(order),
    4 Cancel { instance, migration },
    5 ConfirmOrRevert { instance, migration, decision; request },
});

choice!(Reply {
    0 Accepted,
    1 Refused(why),
});

choice!(ClaimChange {
    0 Swap { candidates },
    1 Release { is_deleted; failed_attempts },
    2 Settle { migration, keep, fault },
});

choice!(CellOperation {
    0 Shelve { instance; request },
    1 Rebuild { instance, spec; request },
    2 RemoveHost { host },
    3 Reconcile { host },
    4 RefuseRebuild { instance, fault; request },
});

choice!(CellEvent {
    0 Instance { instance, view },
    1 Host { host, view },
    2 State { host, update },
    3 Alive { hosts },
    4 Complete,
    5 Heartbeat,
});
