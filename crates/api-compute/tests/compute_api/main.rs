//! The compute API through its service, with a control plane and a cell in memory. All of it is one test program,
//! because each further one would take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod accepted;
mod action_records;
mod api;
mod bounds;
mod discovery;
mod images;
mod moves;
mod operators;
mod ports_and_devices;
mod quotas;
mod rebuild;
mod reschedule;
mod secrets;
mod servers;
mod topology;
mod topology_levels;
mod topology_of_flavors;
