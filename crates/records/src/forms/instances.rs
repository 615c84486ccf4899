//! Instances: specs, candidates, faults, and the history of their actions.

use placewright_conductor::fault::{Action, Attempt, Fault};
use placewright_conductor::{
    Amounts, Candidate, CellId, ClaimResponse, GroupMapping, HardRule, HostId, InstanceId,
    MigrationId, MoveDecision, MoveKind, MoveSide, Rules, SharedRow, SharedText, Spec, SpecBody,
};

use crate::form::{Form, FormError, Layout, Reader, Writer};
use crate::server;

wrapped!(InstanceId, CellId, HostId, MigrationId);

row!(HardRule { rule, others });
row!(Candidate {
    host,
    zone,
    amounts;
    mappings
});
row!(GroupMapping { suffix, providers });
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
    attempts,
    fault;
    request
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

/// The body is either a text or a row, and the row is a field that was added later. In the positional
/// layout, which cannot have that field, the row is written as JSON in the text.
impl Form for Spec {
    fn write(&self, out: &mut Writer) {
        let is_growing = out.layout() == Layout::Growing;
        let json = match &self.body {
            SpecBody::Row(_) if !is_growing => server::json(&self.body),
            _ => "".into(),
        };
        let no_row = SharedRow::default();
        let (common, own, row) = match &self.body {
            SpecBody::Json(text) => (&text.common()[..], text.own(), &no_row),
            SpecBody::Row(row) => (&json[..], "", row),
        };
        out.row(|out| {
            self.name.write(out);
            self.project.write(out);
            self.user.write(out);
            self.group.write(out);
            self.rules.write(out);
            out.text(common, own);
            self.created_at.write(out);
            let row_end = out.position();
            let row_end = out.added_field(row, row_end);
            let row_end = out.added_field(&self.usage, row_end);
            let row_end = out.added_field(&self.build_secrets, row_end);
            let row_end = out.added_field(&self.secrets, row_end);
            out.truncate(row_end);
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.row(|from| {
            let (name, project, user) = Form::read(from)?;
            let (group, rules) = Form::read(from)?;
            let text = from.text()?;
            let created_at = Form::read(from)?;
            let row: SharedRow = from.added_field()?;
            let body = match row.common().is_empty() {
                true => SpecBody::from(text),
                false => SpecBody::Row(row),
            };
            let usage = from.added_field()?;
            let (build_secrets, secrets) = (from.added_field()?, from.added_field()?);
            Ok(Self {
                name,
                project,
                user,
                group,
                rules,
                body,
                created_at,
                usage,
                build_secrets,
                secrets,
            })
        })
    }
}

impl Form for SharedRow {
    fn write(&self, out: &mut Writer) {
        out.bytes(self.common());
        out.bytes(self.own());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let common = from.bytes()?;
        Ok(Self::from_parts(common.into(), from.bytes()?))
    }
}

/// The two parts are written as one text.
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
