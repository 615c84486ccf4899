//! Commands to the super conductor.

use std::convert::Infallible;

use placewright_conductor::super_conductor::{
    Command, LimitCheck, NewBuild, RankedCandidates, RebuildEvent,
};

use crate::form::{Form, FormError, Reader, Writer};
use crate::packed::{Packer, Unpacker};

row!(RankedCandidates {
    instance,
    candidates,
    alternate_count;
    ranking
});

choice!(RebuildEvent {
    0 Begun { spec, view_updated_at },
    1 Refused { digest },
    2 Done { digest },
});

choice!(LimitCheck {
    0 Keypairs { user, max },
    1 Groups { project, max },
    2 KeypairQuota { project, user },
    3 InstanceBytes { project, added, max },
    4 Members { group, added, max },
    5 Images { project, max },
    6 ImageBytes { project, added, max },
});

choice!(Command {
    0 SetCell { cell, name, disabled },
    1 RemoveCell { cell },
    2 SetCellDown { cell, is_down },
    3 MapHosts { cell, hosts },
    4 UnmapHost { host },
    5 CreateBuilds { reservation, builds },
    6 Place { ranked_candidates, least; may_reschedule },
    7 Bury { instances, fault },
    8 CreateAccepted { instance; claim_number, is_built },
    9 Reclaim { instance, host, candidates },
    10 Delete { instance },
    11 RequestClaim(request),
    12 StartMove { migration, instance, kind, spec },
    13 MoveReserved { migration },
    14 MoveRefused { migration, fault },
    15 PlaceMove { migration, candidates, alternate_count; ranking },
    16 FailMove { migration, fault },
    17 MoveAccepted { migration },
    18 MoveCancelled { migration },
    19 ConfirmOrRevert { migration, decision; request },
    20 SetFlavor { id, flavor },
    21 SetKeypair { user, name, keypair },
    22 SetGroup { group, row, topology },
    23 SetAggregate { aggregate, row },
    24 Rebuild { instance, event },
    25 SetSpec { instance, spec },
    26 Reseal { instance, from, to },
    27 SetLabels { instance, labels },
    28 Guarded { expected, command },
    29 Limited { checks, command },
    30 SetQuota { scope, limits, force },
    31 ReplaceQuotas { sets },
    32 CountUsage { instances, moves },
    33 SetService { host, service },
    34 Accounts(command),
    35 SetImage { id, image },
});

/// In a list, the common part of the specs of one request is written once, as in `packed.rs`.
impl Form for NewBuild {
    fn write(&self, out: &mut Writer) {
        out.row(|out| {
            self.instance.write(out);
            self.spec.write(out);
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.row(|from| {
            Ok(Self {
                instance: Form::read(from)?,
                spec: Form::read(from)?,
            })
        })
    }

    fn write_items(list: &[Self], out: &mut Writer) {
        let mut packer = Packer::of(list.iter().map(|build| &build.spec));
        for build in list {
            // A list is written whole, so nothing is done after the single elements.
            let Ok(()) = packer.write(build, out, |_| Ok::<_, Infallible>(()));
        }
    }

    fn read_items(count: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, FormError> {
        let mut unpacker = Unpacker::default();
        let mut builds = Vec::new();
        while builds.len() < count {
            builds.extend(unpacker.read(from)?);
        }
        Ok(builds)
    }
}
