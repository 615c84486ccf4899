//! Hash maps with a fixed hasher. Their order must never reach a result: look up, never iterate.

/// A hash map for look-ups. The fixed state makes two runs take the same path; it is the `quality`
/// variant because keys (UUIDs, names) come from clients.
pub(crate) type Map<K, V> = hashbrown::HashMap<K, V, foldhash::quality::FixedState>;
