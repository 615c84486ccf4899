//! The state machine of the conductors, and a simulation of cells and agents. All of it is one test program, because
//! each further one would take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod absurd;
mod accounts;
mod alternates;
mod control_restored;
mod decisions;
mod delete_against_build;
mod host_mappings;
mod images;
mod moves;
mod quota_rules;
mod quotas;
mod records;
mod reschedule;
mod simulation;
