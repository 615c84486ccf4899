//! For tests only: whether a recorded history of operations on a running installation is linearizable, that is,
//! whether there is an order of all operations that explains every answer, in which each operation is between its
//! call and its return.
//!
//! - [`check`] searches for such an order, for any [`Model`].
//! - [`provider`] is the model of a resource provider with its consumers.
//! - [`history`] reads histories that `tests/replicas` recorded.

pub mod check;
pub mod history;
mod operation_set;
pub mod provider;
mod timeline;

pub use check::{Operation, Verdict, check};

/// The behaviour of an object, one operation after the other.
pub trait Model {
    /// The state of the object.
    type State: Clone + Eq + std::hash::Hash + std::fmt::Debug;
    /// The requests of clients to the object.
    type Input: std::fmt::Debug;
    /// The answers of the object, as far as they are compared.
    type Output: PartialEq + std::fmt::Debug;

    /// The state before the first operation.
    fn initial() -> Self::State;

    /// The answer to an operation on this state, and the state after it.
    fn step(state: &Self::State, input: &Self::Input) -> (Self::Output, Self::State);
}
