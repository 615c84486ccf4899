//! The forms of data on disk (journals, snapshots, agents' records) and between roles (messages).
//!
//! The structs that the code works on are defined elsewhere and know nothing of this crate. Here it
//! is declared which of their fields are written, in which order, and since when:
//!
//! - [`form`] has the bytes: numbers, texts, lists, and rows that carry their length, so that a
//!   reader passes over fields that it does not know, and takes the default for those that an older
//!   writer did not have. `declare.rs` has the macros of the declarations.
//! - `forms/*.rs` declare each row: placement's facts, the conductors' rows, messages between
//!   control and cells, the soft state of hosts.
//! - [`control`], [`cell`] and [`guests`] write and read whole records and snapshots, with their
//!   version, also those of older releases.
//! - [`server`] writes and reads the bodies of specs: what is kept of a server besides its place.
//! - [`message`] writes and reads what control and cells say to each other, in each version that
//!   this release speaks.
//!
//! ARCHITECTURE.md ("Forms and versions") says how to add a field.

pub mod cell;
pub mod control;
#[macro_use]
mod declare;
mod error;
pub mod form;
mod forms;
pub mod guests;
pub mod message;
mod packed;
pub mod server;
mod tables;

pub use error::ReadError;
pub use form::{Form, FormError, Layout, Reader, Writer};
