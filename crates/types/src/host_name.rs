//! UUIDs that are derived from the names of hosts and nested providers.

use uuid::Uuid;

/// The name space of version-5 UUIDs, which are hashes of names. A host that was reinstalled under its old name
/// therefore has its old UUID, by which placement and its cell recognise it.
const NAME_SPACE: Uuid = Uuid::from_u128(0x6f2c_1f0a_8d3b_5e47_9a61_d0c4_7b58_2e93);

/// The UUID of a host or nested provider that is described by a name without a UUID.
#[must_use]
pub fn uuid_of_name(name: &str) -> Uuid {
    Uuid::new_v5(&NAME_SPACE, name.as_bytes())
}
