//! One host as a state machine: what is asked of it, what is being done, what it answers.
//!
//! Pure: no I/O, clock, random number or order of a hash map. What is to be done is written into a
//! list of [`Action`]s. It keeps to what `placewright_conductor::cell_conductor` expects of agents:
//! sessions, attempts that are begun once, guests that are never built after they were to be
//! destroyed.
//!
//! At most one piece of work is done with a guest at a time. What is asked for meanwhile waits until
//! that ended; if it takes its place, that is cancelled first.
//!
//! A new session does not interrupt work under way. Its guest is among those that the session begins
//! with, so the cell either asks for the same attempt again, and gets the answer when the work ends,
//! or has the guest destroyed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use placewright_conductor::cell_conductor::{Failure, Order, Step};
use placewright_conductor::{HostId, InstanceId};
use placewright_link::HostStart;

use crate::driver::{DriverError, Verb};
use crate::record::{Guest, GuestKey, GuestState};

mod busy;
mod room;
mod soft;

pub use busy::{Ending, Outcome};
pub use room::Room;

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Have the driver do something with a guest, then tell [`Host::ended`] of it.
    Work(Work),
    /// Give work up, then tell [`Host::ended`] that it was.
    Cancel(u64),
    /// Tell the cell that a step ended.
    StepEnded {
        /// Of which instance.
        instance: InstanceId,
        /// The session in which it was asked for.
        session: u64,
        /// Which attempt.
        attempt: u32,
        /// Why it failed, if it did.
        failure: Option<Failure>,
    },
    /// Tell the cell that there is no such guest.
    Destroyed {
        /// The instance.
        instance: InstanceId,
        /// The guest.
        number: u32,
    },
    /// Keep on record that the guest is like this now.
    Keep(GuestKey),
    /// Keep on record that there is no such guest any more.
    Erase(GuestKey),
}

/// Something for the driver.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Counts the work of the host.
    pub number: u64,
    /// The guest.
    pub guest: GuestKey,
    /// What, in this order. What fails ends it.
    pub verbs: Vec<Verb>,
    /// Whether the guest is to be destroyed if it fails.
    pub is_undone: bool,
    /// What the cell asked for.
    pub order: Option<Arc<Order>>,
}

/// An attempt that the session knows.
#[derive(Clone, Debug)]
struct Known {
    attempt: u32,
    /// How it ended; nothing while it is under way.
    answer: Option<Option<Failure>>,
}

/// One host.
#[derive(Clone, Debug)]
pub struct Host {
    id: HostId,
    session: u64,
    guests: BTreeMap<GuestKey, Guest>,
    /// The greatest attempt of each instance in this session.
    known: BTreeMap<InstanceId, Known>,
    /// The guests that this session was told to destroy.
    destroyed: BTreeSet<GuestKey>,
    /// When what is remembered of a destroyed guest may be forgotten, in milliseconds.
    forgettable: VecDeque<(u64, GuestKey)>,
    busy: busy::Busy,
    room: Room,
    soft: soft::Soft,
}

impl Host {
    /// A host with the guests that it has, and what it has room for.
    #[must_use]
    pub fn new(
        id: HostId,
        guests: impl IntoIterator<Item = (GuestKey, Guest)>,
        room: Room,
    ) -> Self {
        let mut host = Self {
            id,
            session: 0,
            guests: BTreeMap::new(),
            known: BTreeMap::new(),
            destroyed: BTreeSet::new(),
            forgettable: VecDeque::new(),
            busy: busy::Busy::default(),
            room,
            soft: soft::Soft::default(),
        };
        for (key, guest) in guests {
            host.put(key, guest);
        }
        host
    }

    /// Which host.
    #[must_use]
    pub fn id(&self) -> HostId {
        self.id
    }

    /// The session under way; 0 before the first.
    #[must_use]
    pub fn session(&self) -> u64 {
        self.session
    }

    /// A guest.
    #[must_use]
    pub fn guest(&self, key: GuestKey) -> Option<&Guest> {
        self.guests.get(&key)
    }

    /// Whether anything is being done.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// What the host has room for has changed.
    pub fn set_room(&mut self, mut room: Room) {
        for guest in self.guests.values() {
            room.take(&guest.amounts);
        }
        self.room = room;
    }

    /// Begins a session. Its number has to be greater than those before.
    pub fn begin_session(&mut self, session: u64, name: &str) -> HostStart {
        self.session = session;
        self.known.clear();
        self.destroyed.clear();
        self.forgettable.clear();
        self.busy.forget_what_waits();
        self.soft.begin();
        HostStart {
            host: self.id,
            name: name.to_owned(),
            session,
            guests: self.guests.keys().copied().collect(),
        }
    }

    /// The cell asks for a step.
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
        let known = Known {
            attempt,
            answer: None,
        };
        self.known.insert(order.instance, known);
        let order = Arc::new(order);
        if self.busy.is_at(key) {
            // The same attempt, asked for in an earlier session, goes on.
            if let Some(number) = self.busy.wait_with(key, order) {
                actions.push(Action::Cancel(number));
            }
            return;
        }
        self.start(order, actions);
    }

    /// The cell wants a guest destroyed.
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

    /// Work ended. `now_ms` only ever grows.
    pub fn ended(&mut self, ending: Ending, now_ms: u64, actions: &mut Vec<Action>) {
        let key = ending.guest;
        let Some(done) = self.busy.end(key, ending.number) else {
            return;
        };
        self.soft.work_ended(&done.verbs, &ending.outcome);
        if done.verbs == [Verb::Destroy] {
            self.destroy_ended(key, &ending.outcome, now_ms, actions);
        } else {
            self.step_ended(key, &done, ending.outcome, actions);
        }
        match done.then {
            busy::Then::Nothing => {}
            busy::Then::Destroy => self.start_to_destroy(key, now_ms, actions),
            busy::Then::Step(order) => self.start(order, actions),
        }
    }

    /// Forgets destroyed guests whose time is over: orders are never that late.
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
        let verbs = match (order.step, state) {
            (Step::Prepare, Some(GuestState::Prepared | GuestState::Running))
            | (Step::Arrive | Step::Return, Some(GuestState::Running))
            | (Step::Leave, Some(GuestState::Left))
            | (Step::Offload, Some(GuestState::Offloaded)) => {
                return self.end_step(&order, None, actions);
            }
            (Step::Prepare, None) => vec![Verb::Prepare],
            (Step::Prepare, Some(_)) => vec![Verb::Destroy, Verb::Prepare],
            (Step::Arrive, None) => vec![Verb::Prepare, Verb::Spawn],
            (Step::Arrive, Some(GuestState::Prepared)) => vec![Verb::Spawn],
            (Step::Arrive, Some(_)) => vec![Verb::Destroy, Verb::Prepare, Verb::Spawn],
            (_, None | Some(GuestState::Making | GuestState::Prepared)) => {
                let error = DriverError::of_host("The host has no such guest.");
                return self.end_step(&order, Some(error.into()), actions);
            }
            (Step::Leave, Some(_)) => vec![Verb::Leave],
            (Step::Return, Some(_)) => vec![Verb::Return],
            (Step::Offload, Some(_)) => vec![Verb::Offload],
            (Step::Rebuild, Some(_)) => vec![Verb::Rebuild],
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
        self.work(key, verbs, Some(order), actions);
    }

    fn start_to_destroy(&mut self, key: GuestKey, now_ms: u64, actions: &mut Vec<Action>) {
        if self.guests.contains_key(&key) {
            self.work(key, vec![Verb::Destroy], None, actions);
        } else {
            self.gone(key, now_ms, actions);
        }
    }

    fn work(
        &mut self,
        key: GuestKey,
        verbs: Vec<Verb>,
        order: Option<Arc<Order>>,
        actions: &mut Vec<Action>,
    ) {
        let is_undone = order
            .as_ref()
            .is_some_and(|order| matches!(order.step, Step::Prepare | Step::Arrive));
        self.soft.work_began(&verbs);
        let number = self.busy.begin(key, &verbs, order.clone());
        actions.push(Action::Work(Work {
            number,
            guest: key,
            verbs,
            is_undone,
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
            // It will be asked for again.
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
        done: &busy::Under,
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
            Outcome::Failed { error, is_undone } => {
                if is_undone {
                    self.take_away(key, actions);
                }
                Some(error.into())
            }
            // Whatever took its place is answered for.
            Outcome::Cancelled => return,
        };
        // Something else that took its place came too late to cancel it.
        if matches!(done.then, busy::Then::Nothing) {
            self.end_step(order, failure, actions);
        }
    }

    /// The attempt is over, and answered for if the session knows it.
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

/// How long destroyed guests are remembered: longer than a cell waits for any step, so that no order
/// from before builds them again.
const REMEMBERED_MS: u64 = 20 * 60 * 1000;
