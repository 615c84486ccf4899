//! The scheduler: its host table, its filters and weighers, and its decisions. All of it is one test program, because
//! each further one would take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod classes;
mod down_hosts;
mod host_changes;
mod host_table;
mod instance_hints;
mod nested;
mod options;
mod overrides;
mod packing;
mod prefilters;
mod rankings;
mod requests;
mod robust;
mod select;
mod spread;
mod translation;
mod worked_example;
