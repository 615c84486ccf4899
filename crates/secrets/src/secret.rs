//! Secret values in memory: never printed, and overwritten when they are dropped.

use std::fmt;

use serde::{Serialize, Serializer};
use zeroize::{Zeroize, Zeroizing};

/// A secret value: [`Debug`](fmt::Debug), [`Display`](fmt::Display) and [`Serialize`] show nothing
/// of it, and its memory is overwritten when it is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret<T: Zeroize>(Zeroizing<T>);

impl<T: Zeroize> Secret<T> {
    /// Wraps a secret value.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Zeroizing::new(value))
    }

    /// The value itself, for the code that cannot work without it.
    #[must_use]
    pub fn expose(&self) -> &T {
        &self.0
    }
}

/// The text that is printed in place of a secret.
const REDACTED: &str = "***";

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

impl<T: Zeroize> fmt::Display for Secret<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

impl<T: Zeroize> Serialize for Secret<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}
