//! The state machine of one host: orders of the cell, work under way, and answers.
//!
//! It is pure: no I/O, clock, random number or order of a hash map. What is to be done is appended
//! to a list of [`Action`]s. It follows the protocol of `placewright_conductor::cell_conductor`:
//! sessions, attempts that begin only once, and guests that are never built after they were to be
//! destroyed.
//!
//! At most one piece of work is done with a guest at a time. A later order waits until that work
//! has ended; if the order supersedes the work, the work is cancelled first.
//!
//! A new session does not interrupt work under way. The guest is reported at the beginning of the
//! session, so the cell either asks for the same attempt again, and gets the answer when the work
//! ends, or has the guest destroyed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use placewright_conductor::cell_conductor::{Failure, Order, Step};
use placewright_conductor::{HostId, InstanceId};
use placewright_link::SessionStart;

use crate::driver::{DriverError, Operation};
use crate::record::{Guest, GuestKey, GuestState};

mod physical_capacity;
mod reported_state;
mod work_queue;

pub use physical_capacity::PhysicalCapacity;
pub use work_queue::{Outcome, WorkResult};

/// An effect that the caller has to carry out.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Give work to the driver, then report its end with [`Host::ended`].
    Work(Work),
    /// Cancel the work with this number, then report its end with [`Host::ended`].
    Cancel(u64),
    /// Tell the cell that a step has ended.
    StepEnded {
        /// The instance that the step was for.
        instance: InstanceId,
        /// The session that asked for the step.
        session: u64,
        /// The attempt number of the order.
        attempt: u32,
        /// Why it failed, if it did.
        failure: Option<Failure>,
    },
    /// Tell the cell that there is no such guest.
    Destroyed {
        /// The instance that the guest belonged to.
        instance: InstanceId,
        /// The number of the guest.
        number: u32,
    },
    /// Write the guest's present state to the record.
    Keep(GuestKey),
    /// Remove the guest from the record.
    Erase(GuestKey),
}

/// Work for the driver on one guest.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The number of the work, counted for each host.
    pub number: u64,
    /// The guest to work on.
    pub guest: GuestKey,
    /// The operations, in this order; a failure ends the work.
    pub operations: Vec<Operation>,
    /// Whether the guest is destroyed if an operation fails.
    pub undo_on_failure: bool,
    /// The cell's order that led to the work, if any.
    pub order: Option<Arc<Order>>,
}

/// The latest attempt for an instance in the session.
#[derive(Clone, Debug)]
struct AttemptResult {
    attempt: u32,
    /// Its result: none while it is under way, then its failure if it has one.
    answer: Option<Option<Failure>>,
}

/// The state of one host.
#[derive(Clone, Debug)]
pub struct Host {
    id: HostId,
    session: u64,
    guests: BTreeMap<GuestKey, Guest>,
    /// The latest attempt for each instance in this session.
    known: BTreeMap<InstanceId, AttemptResult>,
    /// The guests that the cell of this session had destroyed.
    destroyed: BTreeSet<GuestKey>,
    /// When each destroyed guest may be forgotten, in milliseconds on the clock of `now_ms`.
    forgettable: VecDeque<(u64, GuestKey)>,
    busy: work_queue::WorkQueue,
    room: PhysicalCapacity,
    soft: reported_state::ReportedState,
}

impl Host {
    /// A host with its recorded guests and its physical capacity.
    #[must_use]
    pub fn new(
        id: HostId,
        guests: impl IntoIterator<Item = (GuestKey, Guest)>,
        room: PhysicalCapacity,
    ) -> Self {
        let mut host = Self {
            id,
            session: 0,
            guests: BTreeMap::new(),
            known: BTreeMap::new(),
            destroyed: BTreeSet::new(),
            forgettable: VecDeque::new(),
            busy: work_queue::WorkQueue::default(),
            room,
            soft: reported_state::ReportedState::default(),
        };
        for (key, guest) in guests {
            host.put(key, guest);
        }
        host
    }

    /// The id of the host.
    #[must_use]
    pub fn id(&self) -> HostId {
        self.id
    }

    /// The session under way; 0 before the first.
    #[must_use]
    pub fn session(&self) -> u64 {
        self.session
    }

    /// The recorded state of a guest.
    #[must_use]
    pub fn guest(&self, key: GuestKey) -> Option<&Guest> {
        self.guests.get(&key)
    }

    /// Whether any work is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Sets the physical capacity after it has changed.
    pub fn set_room(&mut self, mut room: PhysicalCapacity) {
        for guest in self.guests.values() {
            room.take(&guest.amounts);
        }
        self.room = room;
    }

    /// Begins a session. Its number has to be greater than those of earlier sessions.
    pub fn begin_session(&mut self, session: u64, name: &str) -> SessionStart {
        self.session = session;
        self.known.clear();
        self.destroyed.clear();
        self.forgettable.clear();
        self.busy.forget_what_waits();
        self.soft.begin();
        SessionStart {
            host: self.id,
            name: name.to_owned(),
            session,
            guests: self.guests.keys().copied().collect(),
        }
    }

    /// Handles the cell's order for a step.
    pub fn order(&mut self, session: u64, order: Order, actions: &mut Vec<Action>) {
        let key = (order.instance, order.number);
        if session != self.session || session == 0 {
            return;
        }
        if let Some(known) = self.known.get(&order.instance) {
            if known.attempt == order.attempt
                && let Some(failure) = known.answer.clone()
            {
                self.answer(&order, failure, actions);
            }
            if known.attempt >= order.attempt {
                return;
            }
        }
        if self.destroyed.contains(&key) {
            return;
        }
        let attempt = order.attempt;
        let known = AttemptResult {
            attempt,
            answer: None,
        };
        self.known.insert(order.instance, known);
        let order = Arc::new(order);
        if self.busy.is_at(key) {
            // Work for the same attempt of an earlier session goes on.
            if let Some(number) = self.busy.wait_with(key, order) {
                actions.push(Action::Cancel(number));
            }
            return;
        }
        self.start(order, actions);
    }

    /// Handles the cell's order to destroy a guest.
    pub fn destroy(&mut self, session: u64, key: GuestKey, now_ms: u64, actions: &mut Vec<Action>) {
        if session != self.session || session == 0 {
            return;
        }
        self.destroyed.insert(key);
        if self.busy.is_at(key) {
            if let Some(number) = self.busy.wait_to_destroy(key) {
                actions.push(Action::Cancel(number));
            }
        } else {
            self.start_to_destroy(key, now_ms, actions);
        }
    }

    /// Handles the end of work. `now_ms` must never decrease.
    pub fn ended(&mut self, ending: WorkResult, now_ms: u64, actions: &mut Vec<Action>) {
        let key = ending.guest;
        let Some(done) = self.busy.end(key, ending.number) else {
            return;
        };
        self.soft.work_ended(&done.operations, &ending.outcome);
        if done.operations == [Operation::Destroy] {
            self.destroy_ended(key, &ending.outcome, now_ms, actions);
        } else {
            self.step_ended(key, &done, ending.outcome, actions);
        }
        match done.then {
            work_queue::NextStep::Nothing => {}
            work_queue::NextStep::Destroy => self.start_to_destroy(key, now_ms, actions),
            work_queue::NextStep::Step(order) => self.start(order, actions),
        }
    }

    /// Forgets destroyed guests after a time that no order is delayed for.
    pub fn forget(&mut self, now_ms: u64) {
        while let Some((until, key)) = self.forgettable.front().copied() {
            if until > now_ms {
                return;
            }
            self.forgettable.pop_front();
            self.destroyed.remove(&key);
            let of_instance = (key.0, 0)..=(key.0, u32::MAX);
            if self.guests.range(of_instance).next().is_none() {
                self.known.remove(&key.0);
            }
        }
    }

    fn start(&mut self, order: Arc<Order>, actions: &mut Vec<Action>) {
        let key = (order.instance, order.number);
        let state = self.guests.get(&key).map(|guest| guest.state);
        let operations = match (order.step, state) {
            (Step::Prepare, Some(GuestState::Prepared | GuestState::Running))
            | (Step::Arrive | Step::Return, Some(GuestState::Running))
            | (Step::Leave, Some(GuestState::Left))
            | (Step::Offload, Some(GuestState::Offloaded)) => {
                return self.end_step(&order, None, actions);
            }
            (Step::Prepare, None) => vec![Operation::Prepare],
            (Step::Prepare, Some(_)) => vec![Operation::Destroy, Operation::Prepare],
            (Step::Arrive, None) => vec![Operation::Prepare, Operation::Spawn],
            (Step::Arrive, Some(GuestState::Prepared)) => vec![Operation::Spawn],
            (Step::Arrive, Some(_)) => {
                vec![Operation::Destroy, Operation::Prepare, Operation::Spawn]
            }
            (_, None | Some(GuestState::Making | GuestState::Prepared)) => {
                let error = DriverError::of_host("The host has no such guest.");
                return self.end_step(&order, Some(error.into()), actions);
            }
            (Step::Leave, Some(_)) => vec![Operation::Leave],
            (Step::Return, Some(_)) => vec![Operation::Return],
            (Step::Offload, Some(_)) => vec![Operation::Offload],
            (Step::Rebuild, Some(_)) => vec![Operation::Rebuild],
        };
        let is_new = matches!(order.step, Step::Prepare | Step::Arrive);
        if is_new {
            if state.is_none()
                && let Err(lack) = self.room.check(&order.amounts)
            {
                self.soft.build_refused();
                let failure = DriverError::of_host(lack).into();
                return self.end_step(&order, Some(failure), actions);
            }
            if state != Some(GuestState::Prepared) {
                self.put(key, Guest::made_by(&order));
            }
        }
        let while_busy = match is_new {
            true => GuestState::Making,
            false => GuestState::Unsure,
        };
        self.set_state(key, while_busy, actions);
        self.work(key, operations, Some(order), actions);
    }

    fn start_to_destroy(&mut self, key: GuestKey, now_ms: u64, actions: &mut Vec<Action>) {
        if self.guests.contains_key(&key) {
            self.work(key, vec![Operation::Destroy], None, actions);
        } else {
            self.gone(key, now_ms, actions);
        }
    }

    fn work(
        &mut self,
        key: GuestKey,
        operations: Vec<Operation>,
        order: Option<Arc<Order>>,
        actions: &mut Vec<Action>,
    ) {
        let undo_on_failure = order
            .as_ref()
            .is_some_and(|order| matches!(order.step, Step::Prepare | Step::Arrive));
        self.soft.work_began(&operations);
        let number = self.busy.begin(key, &operations, order.clone());
        actions.push(Action::Work(Work {
            number,
            guest: key,
            operations,
            undo_on_failure,
            order,
        }));
    }

    fn destroy_ended(
        &mut self,
        key: GuestKey,
        outcome: &Outcome,
        now_ms: u64,
        actions: &mut Vec<Action>,
    ) {
        if *outcome != Outcome::Done {
            // The cell asks for it again.
            self.set_state(key, GuestState::Making, actions);
            return;
        }
        self.take_away(key, actions);
        self.gone(key, now_ms, actions);
    }

    fn gone(&mut self, key: GuestKey, now_ms: u64, actions: &mut Vec<Action>) {
        let (instance, number) = key;
        actions.push(Action::Destroyed { instance, number });
        let until = now_ms.saturating_add(REMEMBERED_MS);
        self.forgettable.push_back((until, key));
    }

    fn step_ended(
        &mut self,
        key: GuestKey,
        done: &work_queue::RunningWork,
        outcome: Outcome,
        actions: &mut Vec<Action>,
    ) {
        let Some(order) = &done.order else { return };
        let failure = match outcome {
            Outcome::Done => {
                let state = match order.step {
                    Step::Prepare => GuestState::Prepared,
                    Step::Arrive | Step::Return | Step::Rebuild => GuestState::Running,
                    Step::Leave => GuestState::Left,
                    Step::Offload => GuestState::Offloaded,
                };
                self.set_state(key, state, actions);
                None
            }
            Outcome::Failed { error, was_undone } => {
                if was_undone {
                    self.take_away(key, actions);
                }
                Some(error.into())
            }
            // The order that superseded the work is answered instead.
            Outcome::Cancelled => return,
        };
        // An order that superseded the work but came too late to cancel it is answered instead.
        if matches!(done.then, work_queue::NextStep::Nothing) {
            self.end_step(order, failure, actions);
        }
    }

    /// Ends an attempt, and answers it if the session has asked for it.
    fn end_step(&mut self, order: &Order, failure: Option<Failure>, actions: &mut Vec<Action>) {
        if let Some(known) = self.known.get_mut(&order.instance)
            && known.attempt == order.attempt
        {
            known.answer = Some(failure.clone());
            self.answer(order, failure, actions);
        }
    }

    fn answer(&self, order: &Order, failure: Option<Failure>, actions: &mut Vec<Action>) {
        actions.push(Action::StepEnded {
            instance: order.instance,
            session: self.session,
            attempt: order.attempt,
            failure,
        });
    }

    fn put(&mut self, key: GuestKey, guest: Guest) {
        if let Some(before) = self.guests.get(&key) {
            self.room.give_back(&before.amounts);
        }
        self.room.take(&guest.amounts);
        self.guests.insert(key, guest);
        self.soft.changed(key.0);
    }

    fn set_state(&mut self, key: GuestKey, state: GuestState, actions: &mut Vec<Action>) {
        if let Some(guest) = self.guests.get_mut(&key)
            && (guest.state != state || state == GuestState::Making)
        {
            guest.state = state;
            actions.push(Action::Keep(key));
        }
    }

    fn take_away(&mut self, key: GuestKey, actions: &mut Vec<Action>) {
        if let Some(guest) = self.guests.remove(&key) {
            self.room.give_back(&guest.amounts);
            self.soft.changed(key.0);
            actions.push(Action::Erase(key));
        }
    }
}

/// How long destroyed guests are remembered: longer than a cell waits for any step, so that no
/// delayed order builds them again.
const REMEMBERED_MS: u64 = 20 * 60 * 1000;
