//! The status of a server in the compute API.

use placewright_conductor::MoveKind;
use placewright_conductor::cell_conductor::{Continuation, JobKind, Stage, VmState};
use placewright_link::{InstanceView, JobView};

/// The state of a server as the API shows it: status, VM state, task state and power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Status {
    /// The name of the status: `ACTIVE`, `BUILD` …
    pub(crate) name: &'static str,
    pub(crate) vm_state: &'static str,
    /// The task state: the operation under way, if any.
    pub(crate) task_state: Option<&'static str>,
    /// The power state: 0 unknown, 1 running, 4 shut down.
    pub(crate) power_state: u8,
}

const fn new_status(
    name: &'static str,
    vm_state: &'static str,
    task_state: Option<&'static str>,
    power_state: u8,
) -> Status {
    Status {
        name,
        vm_state,
        task_state,
        power_state,
    }
}

impl Status {
    pub(crate) const SCHEDULING: Self = new_status("BUILD", "building", Some("scheduling"), 0);
    pub(crate) const SPAWNING: Self = new_status("BUILD", "building", Some("spawning"), 0);
    pub(crate) const BURIED: Self = new_status("ERROR", "error", None, 0);
    pub(crate) const UNKNOWN: Self = new_status("UNKNOWN", "unknown", None, 0);

    /// The status of an instance as its cell has reported it.
    pub(crate) fn from_view(view: &InstanceView) -> Self {
        let job = view.job.as_ref();
        match view.vm_state {
            VmState::Building => Self::SPAWNING,
            VmState::Active => status_of_active(job),
            VmState::Error => {
                let task_state = job.and_then(task_state);
                let is_being_rebuilt = job.is_some_and(|job| {
                    is_move(job, MoveKind::Evacuate) || job.kind == JobKind::Rebuild
                });
                let status_name = if is_being_rebuilt { "REBUILD" } else { "ERROR" };
                new_status(status_name, "error", task_state, 0)
            }
            VmState::Resized => {
                let task_state = job.and_then(task_state);
                let status_name = match task_state {
                    Some("resize_reverting") => "REVERT_RESIZE",
                    _ => "VERIFY_RESIZE",
                };
                new_status(status_name, "resized", task_state, 1)
            }
            VmState::ShelvedOffloaded => new_status(
                "SHELVED_OFFLOADED",
                "shelved_offloaded",
                job.and_then(task_state),
                4,
            ),
        }
    }

    /// The status during a rebuild that the cell has not reported yet.
    pub(crate) fn rebuilding(self) -> Self {
        Self {
            name: "REBUILD",
            task_state: Some("rebuilding"),
            ..self
        }
    }

    /// The status during a deletion.
    pub(crate) fn deleting(self) -> Self {
        Self {
            task_state: Some("deleting"),
            ..self
        }
    }
}

/// The status of an active instance with its job, if it has one.
fn status_of_active(job: Option<&JobView>) -> Status {
    let Some(job) = job else {
        return new_status("ACTIVE", "active", None, 1);
    };
    let status_name = match job.kind {
        JobKind::Move(MoveKind::ColdMigrate | MoveKind::Resize) => "RESIZE",
        JobKind::Move(MoveKind::LiveMigrate) => "MIGRATING",
        JobKind::Move(MoveKind::Evacuate) | JobKind::Rebuild => "REBUILD",
        JobKind::Move(MoveKind::Unshelve) | JobKind::Build | JobKind::Shelve | JobKind::Delete => {
            "ACTIVE"
        }
    };
    new_status(status_name, "active", task_state(job), 1)
}

fn is_move(job: &JobView, kind: MoveKind) -> bool {
    job.kind == JobKind::Move(kind)
}

/// The task state during a job.
fn task_state(job: &JobView) -> Option<&'static str> {
    Some(match (job.kind, job.stage) {
        (JobKind::Build, _) => "spawning",
        (JobKind::Shelve, _) => "shelving_offloading",
        (JobKind::Rebuild, _) => "rebuilding",
        (JobKind::Delete, _) => "deleting",
        (JobKind::Move(MoveKind::LiveMigrate), _) => "migrating",
        (JobKind::Move(MoveKind::Evacuate), _) => "rebuilding",
        (JobKind::Move(MoveKind::Unshelve), _) => "unshelving",
        (JobKind::Move(MoveKind::ColdMigrate | MoveKind::Resize), stage) => match stage {
            Stage::Verify => return None,
            Stage::Reserved => "resize_prep",
            Stage::AwaitDestroyed(Continuation::Return)
            | Stage::AwaitClaim(Continuation::Return) => "resize_reverting",
            Stage::AwaitDestroyed(Continuation::Settle(_))
            | Stage::AwaitClaim(Continuation::Settle(_)) => "resize_finish",
            Stage::Step(_) | Stage::Swap | Stage::AwaitDestroyed(_) | Stage::AwaitClaim(_) => {
                "resize_migrating"
            }
        },
    })
}

/// All status values, which a filter of a listing may have.
pub(crate) const STATUSES: [&str; 20] = [
    "ACTIVE",
    "BUILD",
    "DELETED",
    "ERROR",
    "HARD_REBOOT",
    "MIGRATING",
    "PASSWORD",
    "PAUSED",
    "REBOOT",
    "REBUILD",
    "RESCUE",
    "RESIZE",
    "REVERT_RESIZE",
    "SHELVED",
    "SHELVED_OFFLOADED",
    "SHUTOFF",
    "SOFT_DELETED",
    "SUSPENDED",
    "UNKNOWN",
    "VERIFY_RESIZE",
];

#[cfg(test)]
mod tests {
    use super::*;
    use placewright_conductor::MoveSide;
    use placewright_conductor::cell_conductor::Step;
    use placewright_placement::Timestamp;

    fn view(vm_state: VmState, job: Option<(JobKind, Stage)>) -> InstanceView {
        InstanceView {
            vm_state,
            job: job.map(|(kind, stage)| JobView {
                kind,
                migration: None,
                stage,
                target: None,
            }),
            spec_digest: 0,
            guest: None,
            zone: None,
            fault: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        }
    }

    /// Two states differ from Nova's: Nova has no task state while a resize is confirmed, and while it offloads a
    /// server that is being shelved, the VM state is `shelved` already.
    #[test]
    fn states_and_jobs_have_the_status_and_task_state_of_nova() {
        let resize = JobKind::Move(MoveKind::Resize);
        let live = JobKind::Move(MoveKind::LiveMigrate);
        let settle = Stage::AwaitDestroyed(Continuation::Settle(MoveSide::Target));
        for (vm_state, job, status_name, task_state) in [
            (VmState::Active, None, "ACTIVE", None),
            (VmState::Building, None, "BUILD", Some("spawning")),
            (VmState::Error, None, "ERROR", None),
            (
                VmState::Active,
                Some((resize, Stage::Reserved)),
                "RESIZE",
                Some("resize_prep"),
            ),
            (
                VmState::Resized,
                Some((resize, Stage::Verify)),
                "VERIFY_RESIZE",
                None,
            ),
            (
                VmState::Resized,
                Some((resize, settle)),
                "VERIFY_RESIZE",
                Some("resize_finish"),
            ),
            (
                VmState::Resized,
                Some((resize, Stage::AwaitDestroyed(Continuation::Return))),
                "REVERT_RESIZE",
                Some("resize_reverting"),
            ),
            (
                VmState::Active,
                Some((live, Stage::Reserved)),
                "MIGRATING",
                Some("migrating"),
            ),
            (
                VmState::Active,
                Some((JobKind::Shelve, Stage::Reserved)),
                "ACTIVE",
                Some("shelving_offloading"),
            ),
            (VmState::ShelvedOffloaded, None, "SHELVED_OFFLOADED", None),
            (
                VmState::Error,
                Some((JobKind::Rebuild, Stage::Step(Step::Rebuild))),
                "REBUILD",
                Some("rebuilding"),
            ),
        ] {
            let status = Status::from_view(&view(vm_state, job));
            assert_eq!(
                (status.name, status.task_state),
                (status_name, task_state),
                "{vm_state:?} {job:?}"
            );
            assert!(STATUSES.contains(&status.name));
        }
    }
}
