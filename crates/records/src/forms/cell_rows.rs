//! The rows of a cell, and the changes that write them.

use placewright_conductor::cell_conductor::state::Continuation;
use placewright_conductor::cell_conductor::{
    Change, GuestRef, Host, Instance, Job, JobKind, Meta, Stage, Step, Target, VmState,
};

row!(Meta { forgotten_before });
row!(Host { session, is_up });
row!(Instance {
    vm_state,
    guest,
    zone,
    claim_number,
    attempt,
    move_number,
    action_count,
    fault,
    created_at,
    updated_at;
    mappings
});
row!(GuestRef { host, number });
row!(Job {
    kind,
    migration,
    stage,
    since,
    deadline,
    target,
    alternates,
    origin,
    spec,
    state_before,
    is_broken,
    fault,
    awaited_destructions;
    origin_mappings,
    may_go_elsewhere
});
row!(Target { candidate, number });

names!(VmState { 0 Building, 1 Active, 2 Error, 3 Resized, 4 ShelvedOffloaded });
names!(Step { 0 Prepare, 1 Leave, 2 Arrive, 3 Return, 4 Offload, 5 Rebuild });

choice!(JobKind {
    0 Build,
    1 Move(kind),
    2 Shelve,
    3 Rebuild,
    4 Delete,
});

choice!(Stage {
    0 Reserved,
    1 Step(step),
    2 Swap,
    3 Verify,
    4 AwaitDestroyed(next),
    5 AwaitClaim(next),
});

choice!(Continuation {
    0 Release,
    1 Settle(keep),
    2 Return,
});

// The key of the row, and its content; `None` if the row is removed.
choice!(Change {
    0 Meta(key, row),
    1 Host(key, row),
    2 Instance(key, row),
    3 Spec(key, row),
    4 Job(key, row),
    5 Guest(key, row),
    6 Doomed(key, row),
    7 Action(key, row),
    8 Tombstone(key, row),
});
