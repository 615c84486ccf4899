//! What is secret of an instance (user data, the administrator's password), sealed.
//!
//! [`Sealed`] is one secret under a key of a [`Keyring`], bound to the record that it belongs to.
//! [`Sealer`] seals and opens the secrets of a specification: APIs and cells seal what comes in
//! before it becomes a command, and open it when it leaves for a cell or for a driver. [`Secret`]
//! holds what is open. [`KeySource`] says where keys come from: a file, or a command that asks a
//! service for keys.

mod body;
mod error;
mod fields;
mod hidden;
mod key;
mod key_id;
mod keyring;
mod sealed;
mod sealer;
mod source;

pub use body::without_fields;
pub use error::{KeyError, OpenError, SealError};
pub use fields::Fields;
pub use hidden::Secret;
pub use key::Key;
pub use key_id::KeyId;
pub use keyring::Keyring;
pub use sealed::{Binding, Sealed};
pub use sealer::{HeldSecrets, RequestSeal, Sealer, UserDataUntil};
pub use source::{KeyCommand, KeySource, make_key_file, replace_key_file};
