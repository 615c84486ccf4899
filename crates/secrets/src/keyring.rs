//! The keys of an installation: the current one, which seals, and older ones, which only open.

use std::fmt::Write as _;

use zeroize::Zeroizing;

use crate::error::KeyError;
use crate::key::Key;
use crate::key_id::KeyId;

/// The current key, which seals, and older keys, which only open secrets that were sealed with them.
#[derive(Clone, Debug)]
pub struct Keyring {
    current: Key,
    older: Vec<Key>,
}

impl Keyring {
    /// A keyring with one random key.
    ///
    /// # Errors
    ///
    /// [`KeyError::NoRandomness`].
    pub fn random() -> Result<Self, KeyError> {
        Ok(Self {
            current: Key::random()?,
            older: Vec::new(),
        })
    }

    /// Reads keys, one a line; the first is the current one. Empty lines and lines that begin with
    /// `#` are ignored. `origin` names the file or command in errors.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if there is no key, a line is not a key, or a key occurs twice.
    pub fn parse(origin: &str, text: &str) -> Result<Self, KeyError> {
        let mut keys: Vec<Key> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let key = Key::parse(text).ok_or_else(|| KeyError::NotAKey {
                origin: origin.to_owned(),
                line,
            })?;
            if keys.iter().any(|known| known.id() == key.id()) {
                return Err(KeyError::Twice {
                    origin: origin.to_owned(),
                    id: key.id(),
                });
            }
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        let current = keys.next().ok_or_else(|| KeyError::NoKey {
            origin: origin.to_owned(),
        })?;
        Ok(Self {
            current,
            older: keys.collect(),
        })
    }

    /// The text of a key file with these keys.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::from(
            "# Keys of Placewright for secrets, one a line. The first one seals, the others still\n\
             # open. Whoever has this file and the store can read the secrets in the store.\n",
        ));
        for key in std::iter::once(&self.current).chain(&self.older) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# {}\n{}", key.id(), key.line().as_str());
        }
        text
    }

    /// The key that seals.
    #[must_use]
    pub fn current(&self) -> &Key {
        &self.current
    }

    /// The ids of the keys that only open, the newest first.
    pub fn older(&self) -> impl Iterator<Item = KeyId> + '_ {
        self.older.iter().map(Key::id)
    }

    /// The key with an id; `None` if the keyring does not have it.
    #[must_use]
    pub fn key(&self, id: KeyId) -> Option<&Key> {
        let mut keys = std::iter::once(&self.current).chain(&self.older);
        keys.find(|key| key.id() == id)
    }

    /// Returns the same keys with a new current one, which makes the former current key an older one.
    #[must_use]
    pub fn rotated(mut self, key: Key) -> Self {
        let replaced = std::mem::replace(&mut self.current, key);
        self.older.insert(0, replaced);
        self
    }

    /// Returns the same keys without an older one; `None` if the key is not among the older ones.
    #[must_use]
    pub fn without(mut self, id: KeyId) -> Option<Self> {
        let index = self.older.iter().position(|key| key.id() == id)?;
        self.older.remove(index);
        Some(self)
    }
}
