//! UUIDs that are derived from the names of hosts and nested providers.

use uuid::Uuid;

/// The name space of the UUIDs, which are name-based so that placement and the cell recognise a host
/// after it was reinstalled.
const NAME_SPACE: Uuid = Uuid::from_u128(0x6f2c_1f0a_8d3b_5e47_9a61_d0c4_7b58_2e93);

/// The UUID of a host or nested provider that is described by a name without a UUID.
#[must_use]
pub fn uuid_of_name(name: &str) -> Uuid {
    Uuid::new_v5(&NAME_SPACE, name.as_bytes())
}
