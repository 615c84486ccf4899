//! The declarations of most rows and enums; `declare.rs` has the macros.

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
