//! The report of this process to operators on itself as one of the replicas of control.

use placewright_engine::{Engine, Leadership};
use placewright_records::control::RECORD_VERSION;
use serde::Serialize;

use crate::machine::ControlMachine;

/// The state of a process as one of the replicas of control, for operators.
#[derive(Clone, Debug, Serialize)]
pub struct ReplicaReport {
    /// The release of the program.
    pub release: &'static str,
    /// The newest version of the journal's records that this process reads, which is also the one that it writes.
    pub record_version: u8,
    /// The present role of the process among the replicas.
    pub role: Role,
    /// The address at which other replicas reach this process; `None` if this process alone writes the journal.
    pub address: Option<String>,
    /// The replica that leads; `None` if none is known, or there are no replicas.
    pub leader: Option<Leader>,
    /// The number of the last entry that this process has applied.
    pub applied: u64,
    /// How many entries this process knows of and has not applied.
    pub lag: u64,
    /// How many commands this process handed to other replicas since its start.
    pub commands_handed_over: u64,
    /// How many commands wait for another replica now.
    pub commands_waiting: usize,
    /// How often the leader changed since this process started.
    pub takeovers: u64,
    /// The acknowledged entries that the store has lost; `None` if it has lost none.
    pub lost: Option<LostEntries>,
}

/// The role of a process among the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// This process alone writes the journal.
    Alone,
    /// The replica decides all commands.
    Leads,
    /// The replica hands commands to the one that leads.
    Follows,
    /// The replica takes no requests, because the store has lost entries.
    Stopped,
}

/// The replica that leads.
#[derive(Clone, Debug, Serialize)]
pub struct Leader {
    /// The address at which other replicas reach the leader.
    pub address: String,
    /// The number of the entry with which the leader began to lead.
    pub epoch: u64,
    /// When the leader began to lead, by the time of day of its machine, in milliseconds since 1970.
    pub since_ms: u64,
    /// Why the leader began to lead.
    pub reason: &'static str,
}

/// Acknowledged entries that the store has lost.
#[derive(Clone, Debug, Serialize)]
pub struct LostEntries {
    /// The first entry that is missing, or that the store has another entry in place of.
    pub first: u64,
    /// The last entry that this process has applied.
    pub last: u64,
    /// Why this process cannot append the lost entries again; `None` if it can.
    pub reason_against_appending: Option<String>,
}

/// A replica that follows the one that reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FollowerReport {
    /// The address at which other replicas reach the follower.
    pub address: String,
    /// The release of the follower's program.
    pub release: String,
    /// The number of the last entry that the follower had applied at its latest message. A live follower sends at least
    /// one every 500 ms.
    pub applied: u64,
}

impl ReplicaReport {
    /// The report of the process with this engine.
    #[must_use]
    pub fn of(engine: &Engine<ControlMachine>) -> Self {
        let status = engine.replica().status();
        let lost = engine
            .lost_entries()
            .borrow()
            .as_ref()
            .map(|loss| LostEntries {
                first: loss.first,
                last: loss.last,
                reason_against_appending: (loss.reason_against_appending())
                    .map(|reason| reason.to_string()),
            });
        let applied = engine.durable_sequence();
        let role = match &status {
            _ if lost.is_some() => Role::Stopped,
            None => Role::Alone,
            Some(status) if status.leadership.is_own => Role::Leads,
            Some(_) => Role::Follows,
        };
        let leadership = status.as_ref().map(|status| &status.leadership);
        Self {
            release: env!("CARGO_PKG_VERSION"),
            record_version: RECORD_VERSION,
            role,
            leader: leadership.filter(|known| known.epoch > 0).map(leader),
            applied,
            lag: status
                .as_ref()
                .map_or(0, |status| status.known_end.saturating_sub(applied)),
            commands_handed_over: status.as_ref().map_or(0, |status| status.sent_commands),
            commands_waiting: status.as_ref().map_or(0, |status| status.waiting_commands),
            takeovers: status.as_ref().map_or(0, |status| status.takeovers),
            address: status.map(|status| status.address),
            lost,
        }
    }
}

fn leader(leadership: &Leadership) -> Leader {
    Leader {
        address: leadership.address.clone(),
        epoch: leadership.epoch,
        since_ms: leadership.since_ms,
        reason: leadership.reason.text(),
    }
}
