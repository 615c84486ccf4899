//! The forms of data on disk (journals, snapshots, guest logs) and between roles (messages).
//!
//! The structs themselves are defined elsewhere and know nothing of this crate. This crate declares
//! which of their fields are written, in which order, and since which version:
//!
//! - [`form`] encodes numbers, texts, lists, and rows. A row carries its length, so that a reader
//!   skips fields that it does not know, and takes the default for fields that an older writer did
//!   not have. `declare.rs` has the macros of the declarations.
//! - `forms/*.rs` declare most rows: placement's changes and commands, the conductors' rows and commands, specs and
//!   their bodies, messages between control and cells, host states.
//! - [`control`], [`cell`] and [`guests`] write whole records and snapshots, and read those of this
//!   and all older releases.
//! - [`server`] writes and reads the bodies of specs.
//! - [`command`] writes and reads control's commands, which its replicas hand to the one that leads.
//! - [`offer`] writes and reads the candidates that a replica of control offered and another one claims.
//! - [`ranking`] writes and reads what is kept of a ranking with the decision that it led to.
//! - [`message`] writes and reads the messages between control and cells, in each version that this
//!   release supports.
//!
//! ARCHITECTURE.md ("Forms and versions") says how to add a field.

pub mod cell;
pub mod control;
#[macro_use]
mod declare;
pub mod command;
mod error;
pub mod form;
mod forms;
pub mod guests;
pub mod message;
pub mod offer;
mod packed;
pub mod ranking;
pub mod server;
mod tables;

pub use error::ReadError;
pub use form::{Form, FormError, Layout, Reader, Writer};
