//! A server, combined from the state of control and the latest report of the server's cell.

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
use crate::admin::hosts::is_cell_out_of_reach;

/// A server. It borrows from the state and the reports, so that reading many servers is cheap.
#[derive(Clone, Copy)]
pub(crate) struct ServerView<'s> {
    pub(crate) control: &'s ControlState,
    pub(crate) views: &'s Views,
    pub(crate) id: InstanceId,
    pub(crate) mapping: &'s Mapping,
    /// The specification that control has stored. [`Self::spec`] is the one that is shown.
    pub(crate) stored_spec: &'s Spec,
    /// The labels; `None` until one of them is changed for the first time. The specification has them until then.
    pub(crate) labels: Option<&'s Labels>,
    /// The build request; `None` once control has received the cell's answer that it accepts the instance.
    build: Option<&'s BuildRequest>,
    /// The rebuild under way, if there is one.
    pub(crate) rebuild: Option<&'s Rebuild>,
    /// The instance as its cell has reported it; `None` if no cell has reported it yet.
    pub(crate) view: Option<&'s InstanceView>,
    /// Whether the server's cell is down or silent.
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
        Self::from_mapping(control, views, id, mapping)
    }

    /// The server of a mapping.
    pub(crate) fn from_mapping(
        control: &'s ControlState,
        views: &'s Views,
        id: InstanceId,
        mapping: &'s Mapping,
    ) -> Option<Self> {
        let conductor = &control.conductor;
        let stored_spec = conductor.specs().get(&id)?;
        let cell = mapping.cell.filter(|cell| *cell != CellId::CELL0);
        let view = cell.and_then(|cell| views.instance(cell, id));
        let rebuild = conductor.rebuilds().get(&id);
        Some(Self {
            control,
            views,
            id,
            mapping,
            stored_spec,
            labels: conductor.labels().get(&id),
            build: conductor.builds().get(&id),
            rebuild: rebuild.filter(|rebuild| {
                let cell_view = cell.and_then(|cell| views.cells.get(&cell));
                view.zip(cell_view)
                    .is_some_and(|(view, cell_view)| is_rebuild_under_way(rebuild, view, cell_view))
            }),
            view,
            is_out_of_reach: cell.is_some_and(|cell| is_cell_out_of_reach(control, views, cell)),
        })
    }

    /// The status that users see.
    pub(crate) fn status(&self) -> Status {
        let status = self.status_without_deletion();
        if self.mapping.is_deleting && status != Status::UNKNOWN {
            status.deleting()
        } else {
            status
        }
    }

    fn status_without_deletion(&self) -> Status {
        match (self.build.map(|build| &build.stage), self.mapping.cell) {
            (Some(BuildStage::Waiting), _) | (None, None) => Status::SCHEDULING,
            (_, Some(CellId::CELL0)) => Status::BURIED,
            _ if self.is_out_of_reach => Status::UNKNOWN,
            // The build counts as under way until control has received the cell's answer, even if
            // the cell has already reported the instance as active: until then no other operation
            // on the server is accepted.
            (Some(BuildStage::Placed { .. }), _) => self
                .view
                .map(Status::from_view)
                .filter(|status| status.task_state.is_some())
                .unwrap_or(Status::SPAWNING),
            (None, Some(_)) => match self.view {
                Some(view) => self.with_operation(Status::from_view(view)),
                None => Status::SPAWNING,
            },
        }
    }

    /// The status with the move or rebuild that is under way, if the cell has not reported it yet.
    fn with_operation(&self, status: Status) -> Status {
        use placewright_conductor::MoveKind;
        if self.rebuild.is_some() && status.task_state.is_none() {
            return status.rebuilding();
        }
        if status.task_state.is_some() || status.name != "ACTIVE" {
            return status;
        }
        let moves = self.control.conductor.moves();
        let latest_id = self.mapping.migrations.last();
        let Some(move_under_way) = latest_id.and_then(|latest_id| moves.get(latest_id)) else {
            return status;
        };
        let (status_name, task_state) = match move_under_way.kind {
            MoveKind::ColdMigrate | MoveKind::Resize => ("RESIZE", "resize_prep"),
            MoveKind::LiveMigrate => ("MIGRATING", "migrating"),
            MoveKind::Evacuate => ("REBUILD", "rebuilding"),
            MoveKind::Unshelve => (status.name, "unshelving"),
        };
        Status {
            name: status_name,
            task_state: Some(task_state),
            ..status
        }
    }

    /// The specification that is shown. While a resize waits for confirmation it has the new
    /// flavor, and during a rebuild it has the new image.
    pub(crate) fn spec(&self) -> &'s Spec {
        if let Some(rebuild) = self.rebuild {
            return &rebuild.spec;
        }
        let is_resized = self
            .view
            .is_some_and(|view| view.vm_state == VmState::Resized);
        let moves = self.control.conductor.moves();
        let latest_id = self.mapping.migrations.last();
        let move_under_way = latest_id.and_then(|latest_id| moves.get(latest_id));
        let resize = move_under_way.filter(|_| is_resized);
        resize
            .and_then(|row| row.spec.as_ref())
            .unwrap_or(self.stored_spec)
    }

    /// The decoded body of the specification that is shown.
    pub(crate) fn body(&self) -> ServerBody {
        body::decode_or_default(self.spec())
    }

    pub(crate) fn name(&self) -> &'s str {
        self.labels
            .map_or(self.stored_spec.name.as_str(), |labels| {
                labels.name.as_str()
            })
    }

    /// The description that the owner chose, or `None`. Labels have the later changes, so they take precedence over the
    /// specification.
    pub(crate) fn description(&self) -> Option<String> {
        match self.labels {
            Some(labels) => labels.description.clone(),
            None => self.body().server.description,
        }
    }

    /// The server's host, with its name; `None` if no cell has reported a guest of the server.
    pub(crate) fn host(&self) -> Option<(HostId, &'s str)> {
        let host = self.view?.guest?.host;
        let mapping = self.control.conductor.hosts().get(&host);
        Some((host, mapping.map_or("", |mapping| mapping.name.as_str())))
    }

    /// The availability zone of the server's host; `None` if it has no host.
    pub(crate) fn zone(&self) -> Option<&'s str> {
        let (host, _) = self.host()?;
        Some(crate::admin::zones::zone_of_host(self.control, host))
    }

    /// The time of the latest change.
    pub(crate) fn updated_at(&self) -> Timestamp {
        let labels_updated_at = self.labels.map(|labels| labels.updated_at);
        let report_updated_at = self.view.map(|view| view.updated_at);
        [labels_updated_at, report_updated_at]
            .into_iter()
            .flatten()
            .fold(self.mapping.created_at, Timestamp::max)
    }

    /// The fault that explains the server's error state.
    pub(crate) fn fault(&self) -> Option<&'s Fault> {
        let buried = self.control.conductor.buried().get(&self.id);
        let reported_fault = self.view.and_then(|view| view.fault.as_ref());
        buried.map(|row| &row.fault).or(reported_fault)
    }

    /// The cell that has the server; `None` before the server is placed, and for a server in cell0.
    pub(crate) fn cell(&self) -> Option<CellId> {
        self.mapping.cell.filter(|cell| *cell != CellId::CELL0)
    }
}

/// The time in microseconds after which a cell that sends reports would have reported a requested
/// rebuild.
const REPORT_DELAY_MAX_US: i64 = 10_000_000;

/// Whether a rebuild is under way, according to its cell.
fn is_rebuild_under_way(rebuild: &Rebuild, view: &InstanceView, cell_view: &CellView) -> bool {
    if view
        .job
        .as_ref()
        .is_some_and(|job| job.kind == JobKind::Rebuild)
    {
        return true;
    }
    let is_unchanged = view.updated_at == rebuild.view_updated_at;
    if is_unchanged {
        // The cell has reported no change of the server since the rebuild was requested.
        return cell_view.heard_at.0.saturating_sub(rebuild.at.0) < REPORT_DELAY_MAX_US;
    }
    // The cell has completed the rebuild, and control is about to store that.
    view.job.is_none() && has_digest(&rebuild.spec, view.spec_digest)
}
