//! The state machine of one host: orders of the cell, work under way, and responses.
//!
//! It is pure: it does no I/O, and depends on no clock, random number or iteration order of a hash map. Its effects are
//! appended to a list of [`Action`]s. It follows the protocol of `placewright_conductor::cell_conductor`: sessions,
//! attempts that are started only once, and guests that no delayed order builds again after the cell has ordered their
//! destruction.
//!
//! At most one piece of work is done with a guest at a time. A later order waits until that work
//! has ended. If the order supersedes the work, the work is cancelled first.
//!
//! A new session does not interrupt work under way. The guest is reported at the beginning of the
//! session, so the cell either repeats the order for the same attempt, and gets the response when
//! the work ends, or orders the guest to be destroyed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use placewright_conductor::cell_conductor::{Failure, Order, Step};
use placewright_conductor::{HostId, InstanceId};
use placewright_link::SessionStart;

use crate::driver::{DriverError, Operation};
use crate::guest_log::{Guest, GuestKey, GuestState};

mod physical_capacity;
mod reported_state;
mod work_under_way;

pub use physical_capacity::PhysicalCapacity;
pub use work_under_way::{Outcome, WorkResult};

/// An effect that the caller has to carry out.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Give work to the driver, then report its end with [`Host::end_work`].
    Work(Work),
    /// Cancel the work with this number, then report its end with [`Host::end_work`].
    Cancel(u64),
    /// Report to the cell that a step has ended.
    StepEnded {
        /// The instance that the step was for.
        instance: InstanceId,
        /// The session in which the step was ordered.
        session: u64,
        /// The attempt number of the order.
        attempt: u32,
        /// Why the step failed, if it did.
        failure: Option<Failure>,
    },
    /// Report to the cell that the guest does not exist any more.
    Destroyed {
        /// The instance that the guest belonged to.
        instance: InstanceId,
        /// The number of the guest.
        number: u32,
    },
    /// Write the guest's present state to the guest log.
    LogGuest(GuestKey),
    /// Remove the guest from the guest log.
    EraseGuest(GuestKey),
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
    /// Whether the work makes a guest. Such work needs a build permit, and if one of its operations
    /// fails, the guest is destroyed.
    pub makes_guest: bool,
    /// The cell's order of a step; none for work that only destroys the guest.
    pub order: Option<Arc<Order>>,
}

/// The latest attempt for an instance in the session.
#[derive(Clone, Debug)]
struct Attempt {
    number: u32,
    /// The result: `None` while the attempt is under way; then its failure, which is `None` if it succeeded.
    result: Option<Option<Failure>>,
}

/// The state of one host.
#[derive(Clone, Debug)]
pub struct Host {
    id: HostId,
    session: u64,
    guests: BTreeMap<GuestKey, Guest>,
    /// The latest attempt for each instance in this session.
    attempts: BTreeMap<InstanceId, Attempt>,
    /// The guests whose destruction the cell has ordered in this session.
    destroy_orders: BTreeSet<GuestKey>,
    /// When each destroyed guest may be removed from `destroy_orders`: the time in milliseconds, on the
    /// same clock as the `now_ms` arguments of the methods.
    destroyed_expiry: VecDeque<(u64, GuestKey)>,
    work: work_under_way::WorkUnderWay,
    capacity: PhysicalCapacity,
    reported: reported_state::ReportedState,
}

impl Host {
    /// A host with its guests from the guest log and its physical capacity.
    #[must_use]
    pub fn new(
        id: HostId,
        guests: impl IntoIterator<Item = (GuestKey, Guest)>,
        capacity: PhysicalCapacity,
    ) -> Self {
        let mut host = Self {
            id,
            session: 0,
            guests: BTreeMap::new(),
            attempts: BTreeMap::new(),
            destroy_orders: BTreeSet::new(),
            destroyed_expiry: VecDeque::new(),
            work: work_under_way::WorkUnderWay::default(),
            capacity,
            reported: reported_state::ReportedState::default(),
        };
        for (key, guest) in guests {
            host.insert_guest(key, guest);
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

    /// A guest in its present state, as [`Action::LogGuest`] writes it to the guest log; `None` if the host has no such
    /// guest.
    #[must_use]
    pub fn guest(&self, key: GuestKey) -> Option<&Guest> {
        self.guests.get(&key)
    }

    /// Whether any work is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.work.is_empty()
    }

    /// Sets the physical capacity after it has changed.
    pub fn set_capacity(&mut self, mut capacity: PhysicalCapacity) {
        for guest in self.guests.values() {
            capacity.allocate(&guest.amounts);
        }
        self.capacity = capacity;
    }

    /// Begins a session. Its number has to be greater than those of earlier sessions.
    pub fn begin_session(&mut self, session: u64, name: &str) -> SessionStart {
        self.session = session;
        self.attempts.clear();
        self.destroy_orders.clear();
        self.destroyed_expiry.clear();
        self.work.drop_queued_steps();
        self.reported.begin_session();
        SessionStart {
            host: self.id,
            name: name.to_owned(),
            session,
            guests: self.guests.keys().copied().collect(),
        }
    }

    /// Handles the cell's order for a step. Orders of other sessions and of earlier attempts are ignored, and so are
    /// orders for guests whose destruction is ordered. Before the first session every order is ignored. An order whose
    /// attempt has ended already gets the same response again.
    pub fn handle_order(&mut self, session: u64, order: Order, actions: &mut Vec<Action>) {
        let key = (order.instance, order.guest_number);
        if session != self.session || session == 0 {
            return;
        }
        if let Some(attempt) = self.attempts.get(&order.instance) {
            if attempt.number == order.attempt
                && let Some(failure) = attempt.result.clone()
            {
                self.respond(&order, failure, actions);
            }
            if attempt.number >= order.attempt {
                return;
            }
        }
        if self.destroy_orders.contains(&key) {
            return;
        }
        let attempt = Attempt {
            number: order.attempt,
            result: None,
        };
        self.attempts.insert(order.instance, attempt);
        let order = Arc::new(order);
        if self.work.is_under_way(key) {
            // Nothing is cancelled if the work is for the same attempt (ordered in an earlier session),
            // destroys the guest, or is cancelled already.
            if let Some(work_number) = self.work.queue_step(key, order) {
                actions.push(Action::Cancel(work_number));
            }
            return;
        }
        self.start_step(order, actions);
    }

    /// Handles the cell's order to destroy a guest. Orders of other sessions are ignored. `now_ms` must never decrease
    /// between calls.
    pub fn handle_destroy(
        &mut self,
        session: u64,
        key: GuestKey,
        now_ms: u64,
        actions: &mut Vec<Action>,
    ) {
        if session != self.session || session == 0 {
            return;
        }
        self.destroy_orders.insert(key);
        if self.work.is_under_way(key) {
            if let Some(work_number) = self.work.queue_destroy(key) {
                actions.push(Action::Cancel(work_number));
            }
        } else {
            self.start_destroy(key, now_ms, actions);
        }
    }

    /// Handles the end of work. `now_ms` must never decrease between calls.
    pub fn end_work(&mut self, result: WorkResult, now_ms: u64, actions: &mut Vec<Action>) {
        let key = result.guest;
        let Some(ended) = self.work.end(key, result.number) else {
            return;
        };
        self.reported
            .count_work_end(&ended.operations, &result.outcome);
        if ended.operations == [Operation::Destroy] {
            self.end_destroy(key, &result.outcome, now_ms, actions);
        } else {
            self.end_step(key, &ended, result.outcome, actions);
        }
        match ended.queued {
            work_under_way::QueuedOrder::Nothing => {}
            work_under_way::QueuedOrder::Destroy => self.start_destroy(key, now_ms, actions),
            work_under_way::QueuedOrder::Step(order) => self.start_step(order, actions),
        }
    }

    /// Forgets guests that were destroyed so long ago that no delayed order for them is expected. The latest attempt
    /// for the instance of such a guest is forgotten with it, unless the host has another guest of that instance.
    pub fn forget_destroyed(&mut self, now_ms: u64) {
        while let Some((expires_ms, key)) = self.destroyed_expiry.front().copied() {
            if expires_ms > now_ms {
                return;
            }
            self.destroyed_expiry.pop_front();
            self.destroy_orders.remove(&key);
            let (instance, _) = key;
            let of_instance = (instance, 0)..=(instance, u32::MAX);
            if self.guests.range(of_instance).next().is_none() {
                self.attempts.remove(&instance);
            }
        }
    }

    /// Starts the work of a step. The attempt ends at once if the guest is in the wanted state already, or the step is
    /// not possible.
    fn start_step(&mut self, order: Arc<Order>, actions: &mut Vec<Action>) {
        let key = (order.instance, order.guest_number);
        let state = self.guests.get(&key).map(|guest| guest.state);
        let operations = match (order.step, state) {
            (Step::Prepare, Some(GuestState::Prepared | GuestState::Running))
            | (Step::Arrive | Step::Return, Some(GuestState::Running))
            | (Step::Leave, Some(GuestState::Left))
            | (Step::Offload, Some(GuestState::Offloaded)) => {
                return self.end_attempt(&order, None, actions);
            }
            (Step::Prepare, None) => vec![Operation::Prepare],
            (Step::Prepare, Some(_)) => vec![Operation::Destroy, Operation::Prepare],
            (Step::Arrive, None) => vec![Operation::Prepare, Operation::Spawn],
            (Step::Arrive, Some(GuestState::Prepared)) => vec![Operation::Spawn],
            (Step::Arrive, Some(_)) => {
                vec![Operation::Destroy, Operation::Prepare, Operation::Spawn]
            }
            (_, None | Some(GuestState::Incomplete | GuestState::Prepared)) => {
                let error = DriverError::retriable("The host has no such guest.");
                return self.end_attempt(&order, Some(error.into()), actions);
            }
            (Step::Leave, Some(_)) => vec![Operation::Leave],
            (Step::Return, Some(_)) => vec![Operation::Return],
            (Step::Offload, Some(_)) => vec![Operation::Offload],
            (Step::Rebuild, Some(_)) => vec![Operation::Rebuild],
        };
        let makes_guest = matches!(order.step, Step::Prepare | Step::Arrive);
        if makes_guest {
            // The amounts of a guest that exists already are counted as used, so only a new guest is checked.
            if state.is_none()
                && let Err(shortfall) = self.capacity.check(&order.amounts)
            {
                if order.step == Step::Arrive {
                    self.reported.count_refused_build();
                }
                let failure = DriverError::retriable(shortfall).into();
                return self.end_attempt(&order, Some(failure), actions);
            }
            if state != Some(GuestState::Prepared) {
                self.insert_guest(key, Guest::for_order(&order));
            }
        }
        if order.step == Step::Rebuild {
            self.change_image(key, &order);
        }
        let state_meanwhile = match makes_guest {
            true => GuestState::Incomplete,
            false => GuestState::Uncertain,
        };
        self.set_state(key, state_meanwhile, actions);
        self.start_work(key, operations, Some(order), actions);
    }

    /// Starts to destroy a guest, or confirms at once that there is no such guest.
    fn start_destroy(&mut self, key: GuestKey, now_ms: u64, actions: &mut Vec<Action>) {
        if self.guests.contains_key(&key) {
            self.start_work(key, vec![Operation::Destroy], None, actions);
        } else {
            self.confirm_destroyed(key, now_ms, actions);
        }
    }

    fn start_work(
        &mut self,
        key: GuestKey,
        operations: Vec<Operation>,
        order: Option<Arc<Order>>,
        actions: &mut Vec<Action>,
    ) {
        let makes_guest = order
            .as_ref()
            .is_some_and(|order| matches!(order.step, Step::Prepare | Step::Arrive));
        self.reported.count_work_start(&operations);
        let number = self.work.begin(key, &operations, order.clone());
        actions.push(Action::Work(Work {
            number,
            guest: key,
            operations,
            makes_guest,
            order,
        }));
    }

    fn end_destroy(
        &mut self,
        key: GuestKey,
        outcome: &Outcome,
        now_ms: u64,
        actions: &mut Vec<Action>,
    ) {
        if *outcome != Outcome::Done {
            // The cell repeats the order.
            self.set_state(key, GuestState::Incomplete, actions);
            return;
        }
        self.remove_guest(key, actions);
        self.confirm_destroyed(key, now_ms, actions);
    }

    /// Reports to the cell that the guest does not exist. If its destruction was ordered in this session, no order of
    /// the session makes this guest again for [`REMEMBERED_MS`] after the first such report.
    fn confirm_destroyed(&mut self, key: GuestKey, now_ms: u64, actions: &mut Vec<Action>) {
        let (instance, number) = key;
        actions.push(Action::Destroyed { instance, number });
        let expires_ms = now_ms.saturating_add(REMEMBERED_MS);
        self.destroyed_expiry.push_back((expires_ms, key));
    }

    fn end_step(
        &mut self,
        key: GuestKey,
        ended: &work_under_way::RunningWork,
        outcome: Outcome,
        actions: &mut Vec<Action>,
    ) {
        let Some(order) = &ended.order else { return };
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
                    self.remove_guest(key, actions);
                }
                Some(error.into())
            }
            // The response is given for the order that superseded the work.
            Outcome::Cancelled => return,
        };
        // If another order is queued, it superseded the work but came too late to cancel it. The
        // response is given for that order.
        if matches!(ended.queued, work_under_way::QueuedOrder::Nothing) {
            self.end_attempt(order, failure, actions);
        }
    }

    /// Records the result of an attempt, and responds to the cell. There is no response for an attempt of an earlier
    /// session that was not ordered again in this one.
    fn end_attempt(&mut self, order: &Order, failure: Option<Failure>, actions: &mut Vec<Action>) {
        if let Some(attempt) = self.attempts.get_mut(&order.instance)
            && attempt.number == order.attempt
        {
            attempt.result = Some(failure.clone());
            self.respond(order, failure, actions);
        }
    }

    fn respond(&self, order: &Order, failure: Option<Failure>, actions: &mut Vec<Action>) {
        actions.push(Action::StepEnded {
            instance: order.instance,
            session: self.session,
            attempt: order.attempt,
            failure,
        });
    }

    /// Adds or replaces a guest, and counts its amounts as used.
    fn insert_guest(&mut self, key: GuestKey, guest: Guest) {
        if let Some(replaced) = self.guests.get(&key) {
            self.capacity.release(&replaced.amounts);
        }
        self.capacity.allocate(&guest.amounts);
        self.guests.insert(key, guest);
        self.reported.note_instance_change(key);
    }

    /// Gives a guest that is rebuilt the properties of its new image.
    fn change_image(&mut self, key: GuestKey, order: &Order) {
        let properties = Guest::for_order(order).image_properties;
        if let Some(guest) = self.guests.get_mut(&key)
            && guest.image_properties != properties
        {
            guest.image_properties = properties;
            self.reported.note_image_change(key);
        }
    }

    /// Sets the state of a guest, and logs it. A new guest is incomplete from the beginning, and is
    /// logged for the first time here.
    fn set_state(&mut self, key: GuestKey, state: GuestState, actions: &mut Vec<Action>) {
        if let Some(guest) = self.guests.get_mut(&key)
            && (guest.state != state || state == GuestState::Incomplete)
        {
            guest.state = state;
            actions.push(Action::LogGuest(key));
        }
    }

    fn remove_guest(&mut self, key: GuestKey, actions: &mut Vec<Action>) {
        if let Some(guest) = self.guests.remove(&key) {
            self.capacity.release(&guest.amounts);
            self.reported.note_instance_change(key);
            actions.push(Action::EraseGuest(key));
        }
    }
}

/// How long destroyed guests are remembered: longer than a cell waits for a step by default, so that a delayed order
/// does not build them again.
const REMEMBERED_MS: u64 = 20 * 60 * 1000;
