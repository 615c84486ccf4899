//! The declarations of all rows; see `declare.rs` for what they mean.

mod accounts;
mod cell_rows;
mod conductor_commands;
mod control_rows;
mod hosts;
mod images;
mod instances;
mod messages;
mod placement;
mod placement_commands;
mod quotas;
mod requests;
mod servers;
