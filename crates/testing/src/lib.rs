//! Code that the tests of several crates share. No program depends on it.
//!
//! Each part is a feature, so that the tests of an inner crate do not build the outer ones:
//!
//! | feature | module | what it is |
//! | --- | --- | --- |
//! | | [`random`] | random numbers from a seed |
//! | `fleets` | `fleet`, `model` | random fleets and queries, and a plain model of the search for candidates |
//! | `counters` | `counters` | the smallest machine for an engine |
//! | `replicas` | `replicas` | a network between replicas in one process, which can be cut |
//! | `world` | `world` | control, cells and agents as pure state machines, with a simulated network |
//! | `agents` | `agents` | agents that follow the protocol, on simulated hosts |
//! | `site` | `site` | a whole installation in memory |
//! | `keystone` | `keystone` | a fake Keystone: logins, validation of tokens, lists |

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "scaffolding: names say what it is, and a test stops where it goes wrong"
)]

#[cfg(feature = "agents")]
pub mod agents;
#[cfg(feature = "counters")]
pub mod counters;
#[cfg(feature = "fleets")]
pub mod fleet;
#[cfg(feature = "keystone")]
pub mod keystone;
#[cfg(feature = "fleets")]
pub mod model;
pub mod random;
#[cfg(feature = "replicas")]
pub mod replicas;
#[cfg(feature = "site")]
pub mod site;
#[cfg(feature = "world")]
pub mod world;
