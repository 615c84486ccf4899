//! Encryption of the secrets of instances (user data, the administrator's password) where they are
//! stored. *Sealed* is encrypted and bound to its record; *open* is in the clear.
//!
//! [`Sealed`] is one secret under a key of a [`Keyring`], bound to the record that it belongs to.
//! [`Sealer`] seals and opens the secrets of a specification: APIs and cells seal them before they
//! are part of a command, and open them for a message to a cell or to an agent. [`Secret`] is an open
//! secret in memory. [`KeySource`] says where keys come from: a file, or a command that, for example,
//! requests keys from a key manager.

mod body;
mod error;
mod fields;
mod key;
mod key_id;
mod keyring;
mod sealed;
mod sealer;
mod secret;
mod source;

pub use body::without_secrets;
pub use error::{KeyError, OpenError, SealError};
pub use fields::SecretFields;
pub use key::Key;
pub use key_id::KeyId;
pub use keyring::Keyring;
pub use sealed::{Binding, Sealed};
pub use sealer::{RequestSecrets, Sealer, SecretCounts, UserDataRetention};
pub use secret::Secret;
pub use source::{KeyCommand, KeySource, make_key_file, replace_key_file};
