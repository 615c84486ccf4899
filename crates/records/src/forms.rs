//! The declarations of all rows; see `declare.rs` for what they mean.

mod hosts;
mod instances;
mod messages;
mod of_cell;
mod of_control;
mod placement;
mod quotas;
mod requests;
mod servers;
