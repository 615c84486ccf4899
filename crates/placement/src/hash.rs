//! Hash maps with a fixed hasher. Their order must never reach a result: look up, never iterate.

/// A hash map for look-ups. The hasher has a fixed seed, so that two runs take the same path. The price is that a
/// client could choose keys that collide. It is the `quality` variant of foldhash, because callers of [`hash_of`] use
/// parts of the hashes.
pub(crate) type Map<K, V> = hashbrown::HashMap<K, V, foldhash::quality::FixedState>;

/// The hash of a key for tables that keep their keys elsewhere.
pub(crate) fn hash_of(key: &(impl std::hash::Hash + ?Sized)) -> u64 {
    std::hash::BuildHasher::hash_one(&foldhash::quality::FixedState::default(), key)
}
