//! A server, combined from control's records and its cell's report.

use placewright_conductor::cell_conductor::{JobKind, VmState};
use placewright_conductor::super_conductor::{BuildRequest, BuildStage, Labels, Mapping, Rebuild};
use placewright_conductor::{CellId, ControlState, Fault, HostId, InstanceId, Spec};
use placewright_control::{CellView, Views};
use placewright_link::InstanceView;
use placewright_placement::Timestamp;
use placewright_records::server::has_digest;
use placewright_types::server::ServerBody;

use super::body;
use super::status::Status;
use crate::admin::hosts::is_down;

/// A server. It borrows from the states, so that reading many servers is cheap.
#[derive(Clone, Copy)]
pub(crate) struct ServerView<'s> {
    pub(crate) control: &'s ControlState,
    pub(crate) views: &'s Views,
    pub(crate) id: InstanceId,
    pub(crate) mapping: &'s Mapping,
    /// The specification that control has stored.
    pub(crate) stored: &'s Spec,
    pub(crate) labels: Option<&'s Labels>,
    build: Option<&'s BuildRequest>,
    /// The rebuild under way, if there is one.
    pub(crate) rebuild: Option<&'s Rebuild>,
    pub(crate) view: Option<&'s InstanceView>,
    /// Whether its cell is down or silent.
    pub(crate) is_out_of_reach: bool,
}

impl<'s> ServerView<'s> {
    /// Finds a server by its id.
    pub(crate) fn find(
        control: &'s ControlState,
        views: &'s Views,
        id: InstanceId,
    ) -> Option<Self> {
        let mapping = control.conductor.mappings().get(&id)?;
        Self::of(control, views, id, mapping)
    }

    /// The server of a mapping.
    pub(crate) fn of(
        control: &'s ControlState,
        views: &'s Views,
        id: InstanceId,
        mapping: &'s Mapping,
    ) -> Option<Self> {
        let conductor = &control.conductor;
        let stored = conductor.specs().get(&id)?;
        let cell = mapping.cell.filter(|cell| *cell != CellId::CELL0);
        let view = cell.and_then(|cell| views.instance(cell, id));
        let rebuild = conductor.rebuilds().get(&id);
        Some(Self {
            control,
            views,
            id,
            mapping,
            stored,
            labels: conductor.labels().get(&id),
            build: conductor.builds().get(&id),
            rebuild: rebuild.filter(|rebuild| {
                let cell = cell.and_then(|cell| views.cells.get(&cell));
                view.zip(cell)
                    .is_some_and(|(view, cell)| is_under_way(rebuild, view, cell))
            }),
            view,
            is_out_of_reach: cell.is_some_and(|cell| is_down(control, views, cell)),
        })
    }

    /// The state that users see.
    pub(crate) fn status(&self) -> Status {
        let status = self.status_alive();
        if self.mapping.is_deleting && status != Status::UNKNOWN {
            status.deleting()
        } else {
            status
        }
    }

    fn status_alive(&self) -> Status {
        match (self.build.map(|build| &build.stage), self.mapping.cell) {
            (Some(BuildStage::Waiting), _) | (None, None) => Status::SCHEDULING,
            (_, Some(CellId::CELL0)) => Status::BURIED,
            _ if self.is_out_of_reach => Status::UNKNOWN,
            // Nothing else can be done with it until control has the cell's answer: the cell may be
            // ahead, and already report it as active.
            (Some(BuildStage::Placed { .. }), _) => self
                .view
                .map(Status::of)
                .filter(|status| status.task.is_some())
                .unwrap_or(Status::SPAWNING),
            (None, Some(_)) => match self.view {
                Some(view) => self.with_move(Status::of(view)),
                None => Status::SPAWNING,
            },
        }
    }

    /// A move or rebuild also counts as under way before its cell has reported it.
    fn with_move(&self, status: Status) -> Status {
        use placewright_conductor::MoveKind;
        if self.rebuild.is_some() && status.task.is_none() {
            return status.rebuilding();
        }
        if status.task.is_some() || status.status != "ACTIVE" {
            return status;
        }
        let moves = self.control.conductor.moves();
        let latest = self.mapping.migrations.last();
        let Some(under_way) = latest.and_then(|latest| moves.get(latest)) else {
            return status;
        };
        let (word, task) = match under_way.kind {
            MoveKind::ColdMigrate | MoveKind::Resize => ("RESIZE", "resize_prep"),
            MoveKind::LiveMigrate => ("MIGRATING", "migrating"),
            MoveKind::Evacuate => ("REBUILD", "rebuilding"),
            MoveKind::Unshelve => (status.status, "unshelving"),
        };
        Status {
            status: word,
            task: Some(task),
            ..status
        }
    }

    /// What the server is at present: after a resize that waits for confirmation it has the new
    /// flavor, and while it is rebuilt it has the new image.
    pub(crate) fn spec(&self) -> &'s Spec {
        if let Some(rebuild) = self.rebuild {
            return &rebuild.spec;
        }
        let is_resized = self
            .view
            .is_some_and(|view| view.vm_state == VmState::Resized);
        let moves = self.control.conductor.moves();
        let latest = self.mapping.migrations.last();
        let under_way = latest.and_then(|latest| moves.get(latest));
        let moved = under_way.filter(|_| is_resized);
        moved
            .and_then(|one| one.spec.as_ref())
            .unwrap_or(self.stored)
    }

    /// The parts of its specification that are shown.
    pub(crate) fn shown(&self) -> ServerBody {
        body::shown(self.spec())
    }

    pub(crate) fn name(&self) -> &'s str {
        self.labels
            .map_or(self.stored.name.as_str(), |labels| labels.name.as_str())
    }

    /// The description that its owner gave it.
    pub(crate) fn description(&self) -> Option<String> {
        match self.labels {
            Some(labels) => labels.description.clone(),
            None => self.shown().server.description,
        }
    }

    /// The host where it is, with the host's name.
    pub(crate) fn host(&self) -> Option<(HostId, &'s str)> {
        let host = self.view?.guest?.host;
        let mapping = self.control.conductor.hosts().get(&host);
        Some((host, mapping.map_or("", |mapping| mapping.name.as_str())))
    }

    pub(crate) fn zone(&self) -> Option<&'s str> {
        let (host, _) = self.host()?;
        Some(crate::admin::zones::of_host(self.control, host))
    }

    /// The time of the latest change.
    pub(crate) fn updated_at(&self) -> Timestamp {
        let labelled = self.labels.map(|labels| labels.updated_at);
        let seen = self.view.map(|view| view.updated_at);
        [labelled, seen]
            .into_iter()
            .flatten()
            .fold(self.mapping.created_at, Timestamp::max)
    }

    /// Why it is in the error state.
    pub(crate) fn fault(&self) -> Option<&'s Fault> {
        let buried = self.control.conductor.buried().get(&self.id);
        let seen = self.view.and_then(|view| view.fault.as_ref());
        buried.map(|row| &row.fault).or(seen)
    }

    /// The cell that has the server; none before it is placed.
    pub(crate) fn cell(&self) -> Option<CellId> {
        self.mapping.cell.filter(|cell| *cell != CellId::CELL0)
    }
}

/// A cell that was heard from so much later than it was asked for a rebuild would have reported it.
const TOLD_AFTER_US: i64 = 10_000_000;

/// Whether a rebuild is under way, according to its cell.
fn is_under_way(rebuild: &Rebuild, view: &InstanceView, cell: &CellView) -> bool {
    if view
        .job
        .as_ref()
        .is_some_and(|job| job.kind == JobKind::Rebuild)
    {
        return true;
    }
    let is_before = view.updated_at == rebuild.seen;
    if is_before {
        return cell.heard_at.0.saturating_sub(rebuild.at.0) < TOLD_AFTER_US;
    }
    // The cell has completed it, and control is about to record that.
    view.job.is_none() && has_digest(&rebuild.spec, view.spec)
}
