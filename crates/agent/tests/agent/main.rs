//! The agent, its host and its log of guests. All of it is one test program, because each further one would take
//! seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod agent;
mod cell;
mod command;
mod guest_log;
mod guest_log_on_disk;
mod host;
mod host_orders;
