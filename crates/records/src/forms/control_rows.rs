//! The rows of the super conductor, and the changes that write them.

use placewright_conductor::super_conductor::{
    Aggregate, BuildRequest, BuildStage, Buried, Cell, Change, Deletion, Flavor, GroupTopology,
    HostMapping, Keypair, Labels, LeftCell, Lock, Mapping, Migration, MigrationStatus, Move,
    MoveStage, Rebuild, Reschedule, ServerGroup, Service,
};
use placewright_conductor::{Decision, FallenHost, RankingRecord};
use placewright_types::request::TopologyRule;

use crate::form::{Form, FormError, Reader, Writer};

row!(Cell {
    name,
    disabled,
    down_since
});
row!(HostMapping { cell, name });
row!(BuildRequest { reservation, stage });
row!(Mapping {
    cell,
    project,
    user,
    created_at,
    is_deleting,
    claim_number,
    claim_response,
    move_number,
    migrations;
    decisions,
    reschedule
});
row!(LeftCell {
    cell,
    at,
    attempts,
    first_number
});
row!(Decision {
    host,
    at,
    migration,
    ranking,
    fallen,
    fallen_count,
    alternate_count,
});
row!(FallenHost { host, reason });
row!(Buried { fault });
row!(Deletion { at });
row!(Move {
    instance,
    kind,
    stage,
    spec,
    move_number,
    held,
    decision;
    added_usage,
    decision_request
});
row!(Migration {
    instance,
    kind,
    status,
    cell,
    source,
    target,
    created_at,
    updated_at,
    fault,
});
row!(Rebuild {
    spec,
    at,
    view_updated_at
});
row!(Flavor {
    name,
    vcpus,
    memory_mb,
    root_gb,
    ephemeral_gb,
    swap_mb,
    is_public,
    projects,
    description,
    extra_specs,
});
row!(Keypair {
    kind,
    public_key,
    fingerprint,
    created_at
});
row!(ServerGroup {
    name,
    project,
    user,
    policy,
    max_server_per_host,
    rules,
    members
});
row!(Aggregate {
    name,
    hosts,
    metadata,
    created_at,
    updated_at
});
row!(Labels {
    name,
    description,
    metadata,
    tags,
    hostname,
    lock,
    updated_at
});
row!(Lock { by_owner, reason });
row!(Service {
    disabled,
    disabled_reason,
    forced_down,
    updated_at
});

choice!(BuildStage {
    0 Waiting,
    1 Placed { selection, alternates },
});

choice!(Reschedule {
    0 Never,
    1 Allowed,
    2 Done(left),
});

choice!(MoveStage {
    0 Requested,
    1 Reserved,
    2 Placed { selection, alternates, claim_number },
    3 InCell,
    4 Cancelling,
});

names!(MigrationStatus { 0 Accepted, 1 Running, 2 Confirmed, 3 Reverted, 4 Error });

// The key of the row, and its content; `None` if the row is removed.
choice!(Change {
    0 Cell(key, row),
    1 Host(key, row),
    2 HostName(key, row),
    3 Build(key, row),
    4 Spec(key, row),
    5 Mapping(key, row),
    6 Buried(key, row),
    7 Deletion(key, row),
    8 Move(key, row),
    9 Migration(key, row),
    10 Flavor(key, row),
    11 Keypair(key, row),
    12 Group(key, row),
    13 Aggregate(key, row),
    14 Service(key, row),
    15 Labels(key, row),
    16 GroupTopology(key, row),
    17 Rebuild(key, row),
    18 Quota(key, row),
    19 User(key, row),
    20 Project(key, row),
    21 Role(key, row),
    22 Assignment(key, row),
    23 ApplicationCredential(key, row),
    24 RevokedToken(key, row),
    25 TokenKey(key, row),
    26 Image(key, row),
});

/// Earlier releases wrote the rules as JSON in the first field. This release writes an empty text as the first field,
/// and the rules as a field that was added later.
impl Form for GroupTopology {
    fn write(&self, out: &mut Writer) {
        out.row(|out| {
            out.text("", "");
            let row_end = out.position();
            let row_end = out.added_field(&self.rules, row_end);
            out.truncate(row_end);
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.row(|from| {
            let text = from.text()?;
            let mut rules: Vec<TopologyRule> = from.added_field()?;
            if !text.is_empty() {
                rules =
                    serde_json::from_str(text).map_err(|_| FormError::Bad("a topology rule"))?;
            }
            Ok(Self { rules })
        })
    }
}

/// The bytes as they are, after their length.
impl Form for RankingRecord {
    fn write(&self, out: &mut Writer) {
        out.bytes(&self.0);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok(Self(from.bytes()?.into()))
    }
}
