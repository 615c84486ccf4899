//! Tokens that the installation issues itself, and the accounts with which an installation begins.
//!
//! A token says who it is for, in which scope, and until when, and is signed with a key that is kept in the journal,
//! sealed. So every replica checks tokens by itself: it verifies the signature, and looks the user, the project, the
//! roles and revocations up in control's present state. Nothing is written when a token is issued.

mod details;
mod first;
mod handle;
mod scope;
mod token;
mod token_keys;

pub use details::TokenDetails;
pub use first::{FirstPasswords, new_id, random_audit_number, random_secret};
pub use handle::Accounts;
pub use scope::{RequestedScope, ScopeRefusal};
pub use token::{Method, TokenContent, TokenRefusal, TokenScope};
