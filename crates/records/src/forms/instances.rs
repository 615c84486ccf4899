//! Instances: specifications, candidates, failures and their history.

use placewright_conductor::fault::{Action, Attempt, Fault};
use placewright_conductor::{
    Amounts, Candidate, CellId, ClaimResponse, HardRule, HostId, InstanceId, MigrationId,
    MoveDecision, MoveKind, MoveSide, Rules, SharedText, Spec,
};

use crate::form::{Form, FormError, Reader, Writer};

wrapped!(InstanceId, CellId, HostId, MigrationId);

row!(Spec {
    name,
    project,
    user,
    group,
    rules,
    body,
    created_at;
    build_secrets,
    secrets
});
row!(HardRule { rule, others });
row!(Candidate {
    host,
    zone,
    amounts
});
row!(Amounts {
    provider,
    resources
});
row!(Fault {
    code,
    message,
    details,
    at
});
row!(Action {
    name,
    started_at,
    finished_at,
    tries,
    fault
});
row!(Attempt {
    host,
    attempt,
    started_at,
    finished_at,
    failure
});

names!(MoveSide { 0 Source, 1 Target });
names!(MoveDecision { 0 Confirm, 1 Revert });
names!(MoveKind { 0 ColdMigrate, 1 Resize, 2 LiveMigrate, 3 Evacuate, 4 Unshelve });

choice!(ClaimResponse {
    0 Swapped { index },
    1 NothingFits,
    2 Done,
    3 Gone,
    4 Stale,
});

/// One text, wherever its parts meet.
impl Form for SharedText {
    fn write(&self, out: &mut Writer) {
        out.text(self.common(), self.own());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.text().map(Self::from)
    }
}

impl Form for Rules {
    fn write(&self, out: &mut Writer) {
        crate::form::write_list(self, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Vec::read(from).map(Self::from)
    }
}
