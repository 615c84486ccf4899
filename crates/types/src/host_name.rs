//! UUIDs that are made of the names of hosts and of their parts.

use uuid::Uuid;

/// The name space of UUIDs that are made from the names of hosts and their parts, so that a
/// reinstalled host is the same one to placement and to its cell.
const NAME_SPACE: Uuid = Uuid::from_u128(0x6f2c_1f0a_8d3b_5e47_9a61_d0c4_7b58_2e93);

/// The UUID of a host, or of a part of one, that was given a name and no UUID.
#[must_use]
pub fn uuid_of_name(name: &str) -> Uuid {
    Uuid::new_v5(&NAME_SPACE, name.as_bytes())
}
