//! The journal on etcd. All of it is one test program, because each further one would take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod access;
mod faults;
mod generated;
mod lost_messages;
mod quota;
mod store;
