//! Control's runtime: everything around the state machine that [`placewright_conductor::control`]
//! is.
//!
//! - [`Conductor`] is the handle that APIs use: commands, reads, acts of cells.
//! - It answers what cells ask of placement ([`placewright_link::PlacementLink`]).
//! - [`Views`] is what the cells said last.

mod asks;
mod conductor;
mod options;
mod views;

pub use conductor::{Answer, Conductor, now};
pub use options::Options;
pub use views::{CellView, Views};
