//! What builds instances: the seam between an agent and a hypervisor.
//!
//! A driver is asked for one thing at a time about one guest, and for many guests at a time. What
//! it is asked for may have been done before, or half done when the agent was killed: every
//! operation brings a guest into a state, whatever state it is in.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use placewright_conductor::cell_conductor::{Failure, Order};
use placewright_conductor::{HostId, InstanceId};
use thiserror::Error;

use crate::description::HostDescription;

/// Work that ends some time. Dropped before that, it is given up: nothing of it may go on.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = Result<T, DriverError>> + Send + 'a>>;

/// What can be asked of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Check what only the host knows, and have its devices ready. Undone by [`Verb::Destroy`].
    Prepare,
    /// Have the guest run; in a move, with what it was on its old host.
    Spawn,
    /// Stop the guest and hand it over to another host; of a live move: hand it over running.
    Leave,
    /// Have a guest run again that was to leave.
    Return,
    /// Stop the guest, and keep what is needed to have it elsewhere later.
    Offload,
    /// Build the guest anew, with the resources that it has.
    Rebuild,
    /// Have nothing of the guest any more, prepared devices and half-built parts included.
    Destroy,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Prepare,
        Self::Spawn,
        Self::Leave,
        Self::Return,
        Self::Offload,
        Self::Rebuild,
        Self::Destroy,
    ];

    /// Its name in configuration, messages and for executables.
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

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }
}

/// What a driver is asked for.
#[derive(Clone, Debug)]
pub struct Task {
    /// What.
    pub verb: Verb,
    /// The host.
    pub host: HostId,
    /// Its name.
    pub host_name: Arc<str>,
    /// The instance.
    pub instance: InstanceId,
    /// The number of the guest: an instance that moves has two, perhaps on one host.
    pub number: u32,
    /// What the cell asked for. [`Verb::Destroy`] may come without.
    pub order: Option<Arc<Order>>,
}

/// Why a driver could not do something.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct DriverError {
    /// What happened, in a sentence, for the owner of the instance.
    pub message: String,
    /// Whether another host may do better. Not if the image is bad, say.
    pub may_retry: bool,
}

impl DriverError {
    /// An error that another host may not have.
    #[must_use]
    pub fn of_host(message: impl Into<String>) -> Self {
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

/// A guest that a driver knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedGuest {
    /// Where.
    pub host: HostId,
    /// Of which instance.
    pub instance: InstanceId,
    /// Which.
    pub number: u32,
}

/// What builds instances on hosts.
pub trait Driver: Send + Sync + 'static {
    /// The hosts that it looks after, as they are now. Asked at the start and from time to time.
    fn inspect(&self) -> Doing<'_, Vec<HostDescription>>;

    /// All guests that the hosts have; nothing if the driver knows none but those that it was
    /// asked for, so that the agent's record says all. Asked at the start.
    fn list(&self) -> Doing<'_, Option<Vec<ListedGuest>>>;

    /// Does something.
    fn carry_out(&self, task: Task) -> Doing<'_, ()>;
}
