//! Typed UUIDs, so that an instance, a host and a cell cannot be confused.

use std::fmt;

use placewright_placement::ConsumerUuid;
// Ids that are numbers, such as those of sessions and claims, are below this one.
pub use placewright_types::limits::NUMBER_END;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! typed_uuid {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

typed_uuid!(
    /// An instance: the server of the compute API, and the consumer of the resources that are allocated for it.
    InstanceId
);
typed_uuid!(
    /// A cell: a set of hosts with a conductor and a journal of its own.
    CellId
);
typed_uuid!(
    /// A host: the UUID of its compute node, which is the root of its provider tree.
    HostId
);
typed_uuid!(
    /// A migration: the consumer of an instance's former allocations until its move is settled.
    MigrationId
);

impl CellId {
    /// The pseudo cell of instances for which no host was found. It has no hosts.
    pub const CELL0: Self = Self(Uuid::nil());
}

impl InstanceId {
    /// The instance as a consumer of placement.
    #[must_use]
    pub fn consumer(self) -> ConsumerUuid {
        ConsumerUuid::from_uuid(self.0)
    }
}

impl MigrationId {
    /// The migration as a consumer of placement.
    #[must_use]
    pub fn consumer(self) -> ConsumerUuid {
        ConsumerUuid::from_uuid(self.0)
    }
}
