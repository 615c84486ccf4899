//! The running control plane, with an engine in memory. All of it is one test program, because each further one would
//! take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod audit;
mod builds;
mod kept_rankings;
mod one_placer;
mod pending_instances;
mod quotas;
mod repair;
mod replicas;
mod skipped_entries;
