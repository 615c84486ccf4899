//! Stands for an earlier scheduler: the product's scheduler on a mirror of the hosts, which follows the hosts' rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::Mutex;
use placewright_control::now;
use placewright_placement::{Command, State, decide};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::{Scheduler, Scope};
use rusqlite::Connection;

use super::Way;
use super::hosts::read_all;
use super::inbox::{Inbox, Row};
use crate::bench::seeds::fleet::{self, INSTANCES_PER_HOST, take_places};

/// The host that was chosen for an instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen {
    pub(super) host: u32,
    /// The slot of the host in the ranking.
    pub(super) slot: u32,
}

/// A scheduler with its mirror of the hosts. It decides one request after the other.
pub(super) struct Mirror {
    way: Way,
    inbox: Arc<Inbox>,
    table: Mutex<Connection>,
    view: Mutex<View>,
    request: Arc<RequestSpec>,
}

/// The copy of the hosts' states by which a scheduler decides.
struct View {
    scheduler: Scheduler,
    state: State,
    /// The copies of all hosts, by the numbers of the hosts.
    host_copies: Vec<HostCopy>,
    /// The number of the host in each slot.
    host_by_slot: Vec<u32>,
}

/// The copy of the state of one host.
#[derive(Debug, Clone, Copy)]
struct HostCopy {
    row: Row,
    /// The number of this scheduler's own choices that are counted in addition to the row, which may not have them yet.
    own_choices: i32,
}

impl Mirror {
    /// A scheduler with a mirror of the hosts' initial states.
    ///
    /// # Errors
    ///
    /// The state refuses a command, which would be a bug of the benchmark.
    pub(super) fn new(
        way: Way,
        rows: &[Row],
        inbox: Arc<Inbox>,
        (table, state): (Connection, &State),
    ) -> anyhow::Result<Self> {
        let hosts = u32::try_from(rows.len())?;
        let mut view = View {
            scheduler: fleet::scheduler(hosts, SchedulerConfig::default())?,
            state: state.clone(),
            host_copies: Vec::new(),
            host_by_slot: Vec::new(),
        };
        for row in rows {
            view.host_copies.push(HostCopy {
                row: *row,
                own_choices: 0,
            });
            view.show_taken_places(row.host)?;
        }
        view.scheduler.observe(&view.state, now());
        for (uuid, number) in fleet::numbers_by_uuid(hosts) {
            let (slot, _) = view.scheduler.hosts().by_uuid(uuid).context("a host")?;
            let slot = slot as usize;
            if view.host_by_slot.len() <= slot {
                view.host_by_slot.resize(slot + 1, 0);
            }
            view.host_by_slot[slot] = number;
        }
        Ok(Self {
            way,
            inbox,
            table: Mutex::new(table),
            view: Mutex::new(view),
            request: fleet::request(),
        })
    }

    /// Reads the rows of all hosts, if this way does.
    ///
    /// # Errors
    ///
    /// The table cannot be read.
    pub(super) fn read_rows(&self) -> anyhow::Result<Vec<Row>> {
        if !self.way.reads_store {
            return Ok(Vec::new());
        }
        read_all(&self.table.lock())
    }

    /// Chooses the best host that is not excluded, and counts the choice; `None` if no host has room. Also returns how
    /// long that took.
    ///
    /// # Errors
    ///
    /// The request is refused, which would be a bug of the benchmark.
    pub(super) fn decide(
        &self,
        rows: &[Row],
        excluded_slots: &[u32],
    ) -> anyhow::Result<(Option<Chosen>, Duration)> {
        let mut view = self.view.lock();
        let start = Instant::now();
        let messages = self.inbox.take();
        if self.way.reads_store {
            for row in rows {
                view.receive_row(*row, None)?;
            }
        } else {
            for message in messages {
                let answered = self
                    .way
                    .tracks_claims
                    .then_some(i32::from(message.answers_own_claim));
                view.receive_row(message.row, answered)?;
            }
        }
        let chosen = view.choose(&self.request, excluded_slots, self.way.is_indexed)?;
        if let Some(chosen) = chosen {
            view.host_copies[chosen.host as usize].own_choices += 1;
            view.show_taken_places(chosen.host)?;
        }
        Ok((chosen, start.elapsed()))
    }

    /// Replaces the copies of all hosts' rows, and forgets the own choices, because their instances have ended.
    ///
    /// # Errors
    ///
    /// The state refuses a command, which would be a bug of the benchmark.
    pub(super) fn forget_choices(&self, rows: &[Row]) -> anyhow::Result<()> {
        let mut view = self.view.lock();
        self.inbox.take();
        for row in rows {
            let fresh = HostCopy {
                row: *row,
                own_choices: 0,
            };
            let host_copy = &mut view.host_copies[row.host as usize];
            let before = std::mem::replace(host_copy, fresh);
            if before.row != fresh.row || before.own_choices != 0 {
                view.show_taken_places(row.host)?;
            }
        }
        Ok(())
    }
}

impl View {
    /// Replaces the copy of a host's row, if the row is newer. `answered` is the number of own choices that the host
    /// has answered with this row; they are not counted any more. With `None`, a newer row ends the counting of all
    /// own choices.
    fn receive_row(&mut self, row: Row, answered: Option<i32>) -> anyhow::Result<()> {
        let host_copy = &mut self.host_copies[row.host as usize];
        let before = *host_copy;
        if row.version > host_copy.row.version {
            host_copy.row = row;
            if answered.is_none() {
                host_copy.own_choices = 0;
            }
        }
        host_copy.own_choices = (host_copy.own_choices - answered.unwrap_or(0)).max(0);
        if before.row != host_copy.row || before.own_choices != host_copy.own_choices {
            self.show_taken_places(row.host)?;
        }
        Ok(())
    }

    /// Shows in the mirror how many places of a host are taken.
    fn show_taken_places(&mut self, host: u32) -> anyhow::Result<()> {
        let host_copy = self.host_copies[host as usize];
        let taken = (host_copy.row.taken + host_copy.own_choices).min(INSTANCES_PER_HOST);
        let command = take_places(host, taken, now());
        if let Command::Release { consumer } = &command
            && self.state.consumer(*consumer).is_none()
        {
            return Ok(());
        }
        apply(&mut self.state, &command)
    }

    fn choose(
        &mut self,
        request: &RequestSpec,
        excluded_slots: &[u32],
        is_indexed: bool,
    ) -> anyhow::Result<Option<Chosen>> {
        self.scheduler.observe(&self.state, now());
        let prepared = self.scheduler.prepare_cached(&self.state, request)?;
        let scope = Scope {
            count: 1,
            excluded_slots: excluded_slots.to_vec(),
            ..Scope::default()
        };
        let ranked = if is_indexed {
            (self.scheduler).rank(&self.state, request, &prepared, &scope)?
        } else {
            (self.scheduler).rank_all(&self.state, request, &prepared, &scope)?
        };
        Ok(ranked.first().map(|best| Chosen {
            host: self.host_by_slot[best.slot as usize],
            slot: best.slot,
        }))
    }
}

/// The state of hosts with nothing on them.
///
/// # Errors
///
/// As [`Mirror::new`].
pub(super) fn empty_hosts(hosts: u32) -> anyhow::Result<State> {
    let mut state = State::default();
    let at = now();
    apply(&mut state, &Command::SyncStandardNames { at })?;
    for number in 0..hosts {
        for command in fleet::creation(number, at) {
            apply(&mut state, &command)?;
        }
    }
    Ok(state)
}

/// Decides a command and applies its changes.
fn apply(state: &mut State, command: &Command) -> anyhow::Result<()> {
    let mut changes = Vec::new();
    decide(state, command, &mut changes)
        .map_err(|refusal| anyhow::anyhow!("refused: {refusal}"))?;
    for change in &changes {
        drop(state.apply(change));
    }
    Ok(())
}
