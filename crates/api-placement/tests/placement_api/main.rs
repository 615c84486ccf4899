//! Placement's API through its service. All of it is one test program, because each further one would take seconds to
//! build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod appends;
mod bodies;
mod cached_candidates;
mod pages;
mod replicas;
mod requests;
mod resources;
