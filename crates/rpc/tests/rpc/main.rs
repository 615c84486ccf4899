//! The links between roles, and peers that wish ill. All of it is one test program, because each further one would
//! take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod absurd;
mod addresses;
mod connection_limits;
mod enrolment;
mod generated;
mod growth;
mod hostile;
mod identities;
mod loopback;
mod peers;
mod replicas;
mod versions;
