//! The interface between an agent and a hypervisor.
//!
//! A driver carries out one operation at a time on a guest, and operations on many guests
//! concurrently. Every operation has to be idempotent: it may have been carried out before, or
//! interrupted when the agent was killed, and has to bring the guest into the desired state from any
//! other state.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use placewright_conductor::cell_conductor::{Failure, Order};
use placewright_conductor::{HostId, InstanceId};
use thiserror::Error;

use crate::description::HostDescription;

/// Work of a driver. When the future is dropped, the work is cancelled, and all of it has to stop.
pub type DriverFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, DriverError>> + Send + 'a>>;

/// An operation of a driver on a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Check conditions that only the host can check, and prepare devices. Undone by
    /// [`Operation::Destroy`].
    Prepare,
    /// Start the guest; in a move, with the data of its old host.
    Spawn,
    /// Stop the guest and hand it over to another host; in a live move, hand it over running.
    Leave,
    /// Start a guest again after [`Operation::Leave`].
    Return,
    /// Stop the guest, and keep the data with which it is unshelved elsewhere.
    Offload,
    /// Rebuild the guest with the resources that it has.
    Rebuild,
    /// Remove the guest, with prepared devices and half-built parts.
    Destroy,
}

impl Operation {
    /// All operations, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Prepare,
        Self::Spawn,
        Self::Leave,
        Self::Return,
        Self::Offload,
        Self::Rebuild,
        Self::Destroy,
    ];

    /// The name in configuration and messages. It is also the name of the executable that the driver of
    /// `command.rs` runs for the operation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Spawn => "spawn",
            Self::Leave => "leave",
            Self::Return => "return",
            Self::Offload => "offload",
            Self::Rebuild => "rebuild",
            Self::Destroy => "destroy",
        }
    }

    /// The operation with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
    }
}

/// A request to a driver for one operation on one guest.
#[derive(Clone, Debug)]
pub struct DriverRequest {
    /// The operation to carry out.
    pub operation: Operation,
    /// The host that has, or is to have, the guest.
    pub host: HostId,
    /// The name of that host.
    pub host_name: Arc<str>,
    /// The instance that the guest belongs to.
    pub instance: InstanceId,
    /// The number of the guest: an instance that moves has two guests, which may be on one host.
    pub number: u32,
    /// The cell's order. [`Operation::Destroy`] may come without one.
    pub order: Option<Arc<Order>>,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct DriverError {
    /// A description of the failure, in a sentence, for the owner of the instance.
    pub message: String,
    /// Whether the operation may succeed on another host; false for an invalid image, for instance.
    pub may_retry: bool,
}

impl DriverError {
    /// The error of an operation that may succeed on another host.
    #[must_use]
    pub fn retriable(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            may_retry: true,
        }
    }
}

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        Self {
            message: error.message,
            may_retry: error.may_retry,
        }
    }
}

/// A guest that a driver lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedGuest {
    /// The host that has the guest.
    pub host: HostId,
    /// The instance that the guest belongs to.
    pub instance: InstanceId,
    /// The number of the guest among those of its instance.
    pub number: u32,
}

/// Builds and removes guests on hosts.
pub trait Driver: Send + Sync + 'static {
    /// Describes the present hosts. Called at the start and periodically.
    fn inspect(&self) -> DriverFuture<'_, Vec<HostDescription>>;

    /// Lists all guests of the hosts. Returns none if the driver cannot list them: then the agent's guest log alone
    /// says which guests there are. Called at the start.
    fn list(&self) -> DriverFuture<'_, Option<Vec<ListedGuest>>>;

    /// Carries out one operation.
    fn carry_out(&self, request: DriverRequest) -> DriverFuture<'_, ()>;
}
