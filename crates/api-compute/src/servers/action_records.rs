//! The history of a server: the records that its cell has of its actions, and those that only control has.
//!
//! A request is answered before the server's cell has recorded the action, and a cell that refuses a move records
//! nothing. So the moves that control knows of are shown as records, too, until the cell has a record with the same
//! request id.

use std::collections::{HashMap, HashSet};

use placewright_conductor::super_conductor::{Migration, MigrationStatus};
use placewright_conductor::{Action, Attempt, InstanceId};
use placewright_placement::Timestamp;
use uuid::Uuid;

use super::body;
use super::server_view::ServerView;
use crate::routed_request::RoutedRequest;

/// An action with the request id that the API shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ActionRecord {
    pub(super) request_id: String,
    pub(super) action: Action,
}

/// The actions of a server that control knows of.
pub(super) struct ControlRecords {
    instance: InstanceId,
    /// The id of the request that created the server, if it is known.
    create_id: Option<String>,
    /// The creation of the server, while no cell has reported the server.
    pub(super) pending_create: Option<Action>,
    /// If control took the server from the cell that was to build it: the time of the request that created the server,
    /// and the attempts in that cell.
    left_cell: Option<(Timestamp, Vec<Attempt>)>,
    /// The moves of the server, the oldest first, and the action that confirms or reverts the latest one.
    moves: Vec<Action>,
}

impl ControlRecords {
    pub(super) fn of_server(server: &ServerView<'_>) -> Self {
        let conductor = &server.control.conductor;
        let migration = |id| Some((id, conductor.migrations().get(id)?));
        let migrations = server.mapping.migrations.iter().filter_map(migration);
        let mut moves: Vec<Action> = migrations
            .map(|(id, migration)| action_of_move(id.0, migration))
            .collect();
        moves.extend(confirm_or_revert(server));
        Self {
            instance: server.id,
            create_id: body::decode_or_default(server.stored_spec)
                .server
                .request_id,
            pending_create: pending_create(server),
            left_cell: (server.mapping.left_cell())
                .map(|left| (server.mapping.created_at, left.attempts.clone())),
            moves,
        }
    }

    /// All records of the server, the oldest first. `recorded` are those of its cell, in their order.
    pub(super) fn combine(self, mut recorded: Vec<Action>) -> Vec<ActionRecord> {
        self.identify(&mut recorded);
        // The cell that built the server knows nothing of the attempts in the cell that the server was taken from.
        if let Some(((since, attempts), create)) = self.left_cell.as_ref().zip(recorded.first_mut())
            && create.name == CREATE
        {
            create.started_at = *since;
            create.attempts.splice(0..0, attempts.iter().cloned());
        }
        let numbered = recorded.into_iter().enumerate();
        let mut records: Vec<ActionRecord> = numbered
            .map(|(number, action)| ActionRecord {
                request_id: self.request_id(number, &action),
                action,
            })
            .collect();
        let positions: HashMap<Uuid, usize> = (records.iter().enumerate())
            .filter_map(|(position, record)| Some((record.action.request?, position)))
            .collect();
        let mut only_in_control = Vec::new();
        for of_control in self.moves {
            let position = of_control.request.and_then(|id| positions.get(&id));
            if let Some(position) = position {
                // In the cell's record, a move for which control has found no host ends without a fault. Control has
                // the fault.
                let fault = &mut records[*position].action.fault;
                *fault = fault.take().or(of_control.fault);
            } else {
                only_in_control.push(ActionRecord {
                    request_id: of_control.request.map(format_id).unwrap_or_default(),
                    action: of_control,
                });
            }
        }
        insert_by_time(records, only_in_control)
    }

    /// Adds the missing ids to a cell's records of moves. A cell of an older release records moves without the ids that
    /// they have at control. A record belongs to the latest move of its kind that was requested before the record began
    /// and has no record yet.
    fn identify(&self, recorded: &mut [Action]) {
        let identified: HashSet<Uuid> = recorded
            .iter()
            .filter_map(|action| action.request)
            .collect();
        let mut moves_of_kind: HashMap<&str, Vec<&Action>> = HashMap::new();
        for of_control in &self.moves {
            if of_control
                .request
                .is_some_and(|id| !identified.contains(&id))
            {
                let moves = moves_of_kind.entry(&of_control.name).or_default();
                moves.push(of_control);
            }
        }
        let without_id = recorded
            .iter_mut()
            .rev()
            .filter(|action| action.request.is_none());
        for action in without_id {
            let Some(moves) = moves_of_kind.get_mut(action.name.as_str()) else {
                continue;
            };
            // Moves that began later than this are not the one that the cell has recorded.
            let latest = action.started_at.0.saturating_add(CLOCK_DIFFERENCE_MAX_US);
            while moves.pop_if(|last| last.started_at.0 > latest).is_some() {}
            let is_later = |later: &&&Action| later.started_at > action.started_at;
            let later_count = moves.iter().rev().take_while(is_later).count();
            let index = (moves.len() - later_count).saturating_sub(1);
            if index < moves.len() {
                action.request = moves.remove(index).request;
            }
        }
    }

    fn request_id(&self, number: usize, action: &Action) -> String {
        let of_create = || {
            self.create_id
                .clone()
                .filter(|_| number == 0 && action.name == CREATE)
        };
        let known = action.request.map(format_id).or_else(of_create);
        known.unwrap_or_else(|| derived_id(self.instance, number))
    }
}

/// Inserts the records `added`, which are ordered by age with the oldest first: each of them before the first record
/// that began later. The other records keep their order.
fn insert_by_time(records: Vec<ActionRecord>, added: Vec<ActionRecord>) -> Vec<ActionRecord> {
    let mut all = Vec::with_capacity(records.len() + added.len());
    let mut added = added.into_iter().peekable();
    for record in records {
        while let Some(earlier) =
            added.next_if(|added| added.action.started_at < record.action.started_at)
        {
            all.push(earlier);
        }
        all.push(record);
    }
    all.extend(added);
    all
}

/// By how many microseconds the clock of a cell may be behind control's. With a larger difference, a cell's record
/// without an id may not be recognised as that of a move.
const CLOCK_DIFFERENCE_MAX_US: i64 = 1_000_000;

/// The name of the action that creates a server.
const CREATE: &str = "create";

/// A request id as the headers of responses have it.
pub(super) fn format_id(request: Uuid) -> String {
    format!("req-{request}")
}

/// The URL of the record of a request in the history of the server that the path names.
pub(super) fn link(request: &RoutedRequest<'_>, record: Uuid) -> String {
    let server_id = request.parameter("server_id").to_ascii_lowercase();
    let record_id = format_id(record);
    request.link(&format!(
        "/servers/{server_id}/os-instance-actions/{record_id}"
    ))
}

/// The request id of an action whose request is not known. It is derived from the server and the number of the action,
/// so that it does not change.
fn derived_id(instance: InstanceId, number: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(instance.0.as_bytes());
    hasher.update(&(number as u64).to_le_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    format_id(uuid::Builder::from_random_bytes(bytes).into_uuid())
}

/// The creation of a server, if no cell has reported the server yet.
fn pending_create(server: &ServerView<'_>) -> Option<Action> {
    if server.view.is_some() {
        return None;
    }
    let fault = server.fault();
    Some(Action {
        name: CREATE.to_owned(),
        started_at: server.mapping.created_at,
        finished_at: fault.map(|fault| fault.at),
        attempts: Vec::new(),
        fault: fault.cloned(),
        request: None,
    })
}

/// The action of a move, whose migration has the UUID of the request.
fn action_of_move(request: Uuid, migration: &Migration) -> Action {
    let is_over = match migration.status {
        MigrationStatus::Accepted | MigrationStatus::Running => false,
        MigrationStatus::Confirmed | MigrationStatus::Reverted | MigrationStatus::Error => true,
    };
    Action {
        name: migration.kind.action_name().to_owned(),
        started_at: migration.created_at,
        finished_at: is_over.then_some(migration.updated_at),
        attempts: Vec::new(),
        fault: migration.fault.clone(),
        request: Some(request),
    }
}

/// The action that confirms or reverts the latest move of a server. `None` if nobody has decided on the move yet, or if
/// the move is over.
fn confirm_or_revert(server: &ServerView<'_>) -> Option<Action> {
    let conductor = &server.control.conductor;
    let id = server.mapping.migrations.last()?;
    let (row, migration) = (conductor.moves().get(id)?, conductor.migrations().get(id)?);
    let request = Some(row.decision_request?);
    Some(Action {
        name: row.decision?.action_name().to_owned(),
        // The decision is the latest change of the migration.
        started_at: migration.updated_at,
        finished_at: None,
        attempts: Vec::new(),
        fault: None,
        request,
    })
}

#[cfg(test)]
mod tests {
    use placewright_conductor::Fault;

    use super::*;

    fn action(name: &str, at: i64, request: Option<u128>) -> Action {
        Action {
            name: name.to_owned(),
            started_at: Timestamp(at),
            finished_at: None,
            attempts: Vec::new(),
            fault: None,
            request: request.map(Uuid::from_u128),
        }
    }

    fn combine(moves: Vec<Action>, recorded: Vec<Action>) -> Vec<ActionRecord> {
        let of_control = ControlRecords {
            instance: InstanceId(Uuid::from_u128(7)),
            create_id: Some("req-1".to_owned()),
            pending_create: None,
            left_cell: None,
            moves,
        };
        of_control.combine(recorded)
    }

    #[test]
    fn derived_ids_are_uuids_and_do_not_change() {
        let instance = InstanceId(Uuid::from_u128(7));
        let id = derived_id(instance, 0);
        assert_eq!(id, derived_id(instance, 0));
        assert_ne!(id, derived_id(instance, 1));
        assert!(Uuid::try_parse(id.strip_prefix("req-").unwrap()).is_ok());
    }

    #[test]
    fn a_move_that_the_cell_has_not_recorded_is_a_record_in_its_place() {
        let recorded = vec![action("create", 1, None), action("shelve", 5, Some(5))];
        let records = combine(vec![action("migrate", 3, Some(3))], recorded);
        let names: Vec<_> = records.iter().map(|r| r.action.name.as_str()).collect();
        assert_eq!(names, ["create", "migrate", "shelve"]);
        assert_eq!(records[0].request_id, "req-1");
        assert_eq!(records[1].request_id, format_id(Uuid::from_u128(3)));
    }

    #[test]
    fn a_move_that_the_cell_has_recorded_is_shown_once_with_the_fault_of_control() {
        let fault = Fault {
            code: 404,
            message: "No host.".to_owned(),
            details: String::new(),
            at: Timestamp(4),
        };
        let failed = Action {
            fault: Some(fault.clone()),
            ..action("resize", 3, Some(3))
        };
        let records = combine(vec![failed], vec![action("resize", 4, Some(3))]);
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].action.fault, Some(fault));
    }

    fn ids(records: &[ActionRecord]) -> Vec<Option<Uuid>> {
        let ids = records.iter().map(|record| record.action.request);
        ids.collect()
    }

    #[test]
    fn moves_that_an_older_release_recorded_are_shown_once_under_the_ids_of_control() {
        let of_control = || vec![action("resize", 2, Some(2)), action("resize", 9, Some(9))];
        let records = combine(of_control(), vec![action("resize", 3, None)]);
        assert_eq!(ids(&records), [2, 9].map(Uuid::from_u128).map(Some));
        // Control knows nothing of the first one, and no cell has recorded the last one.
        let of_control = vec![
            action("migrate", 2_000_005, Some(5)),
            action("resize", 4_000_000, Some(6)),
            action("migrate", 9_000_000, Some(7)),
        ];
        let recorded = vec![
            action("migrate", 1, None),
            action("migrate", 2_000_000, None),
            action("resize", 4_000_001, None),
        ];
        let records = combine(of_control, recorded);
        let uuids = [5, 6, 7].map(Uuid::from_u128).map(Some);
        assert_eq!(ids(&records), [&[None][..], &uuids[..]].concat());
    }

    #[test]
    fn a_move_that_found_no_host_stays_when_an_older_release_records_a_later_one() {
        let of_control = vec![action("migrate", 2, Some(2)), action("migrate", 5, Some(5))];
        let records = combine(of_control, vec![action("migrate", 6, None)]);
        assert_eq!(ids(&records), [2, 5].map(Uuid::from_u128).map(Some));
    }
}
