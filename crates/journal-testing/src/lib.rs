//! For tests of journals: the contract that every implementation keeps, and servers of the engines.

mod contract;

pub use contract::{CHECKS, NamedCheck, check_contract};
