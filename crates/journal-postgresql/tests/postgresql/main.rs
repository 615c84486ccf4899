//! The journal on PostgreSQL. All of it is one test program, because each further one would take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod access;
mod durable;
mod faults;
mod lost_messages;
mod store;
