//! The scheduler's API through its service, on small fleets. All of it is one test program, because each further one
//! would take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod fleet;
mod many;
mod scheduler;
mod scheduler_bad_input;
mod scheduler_capacity;
mod scheduler_discovery;
mod scheduler_reasons;
mod scheduler_versions;
