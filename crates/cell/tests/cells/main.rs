//! Cells with agents and control, on a simulated network. All of it is one test program, because each further one
//! would take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod builds;
mod durable_orders;
mod follow;
mod removed_hosts;
mod replicas;
mod restart;
mod simulation;
mod site;
