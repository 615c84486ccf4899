//! The resources that operators and users manage besides servers and flavors: server groups,
//! aggregates, zones, services, hypervisors, key pairs, limits, quotas.

pub(crate) mod aggregates;
pub(crate) mod hosts;
pub(crate) mod hypervisors;
pub(crate) mod keypairs;
pub(crate) mod limits;
pub(crate) mod quotas;
pub(crate) mod server_groups;
pub(crate) mod services;
pub(crate) mod zones;

use uuid::Uuid;

/// The integer id of an object with a UUID, which old microversions show. It depends on the UUID
/// alone, and collisions are rare.
pub(crate) fn legacy_id(uuid: Uuid) -> u32 {
    let low = uuid.as_u128() & 0x7fff_ffff;
    u32::try_from(low).unwrap_or(0).max(1)
}
