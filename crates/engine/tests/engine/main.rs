//! The engine with a small state machine, alone and with replicas. All of it is one test program, because each
//! further one would take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod bounds;
mod durability;
mod follow;
mod laws;
mod lost;
mod missed_leader;
mod network;
mod origins;
mod past;
mod recovery;
mod replicas;
mod slow_follower;
mod standby;
mod submit_after;
mod toy;
mod unknown;
mod writers;
