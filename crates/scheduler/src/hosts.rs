//! The states of hosts besides their inventories, laid out for filters and weighers.
//!
//! [`table::HostTable`] holds all of them; the other modules are its parts.

pub mod aggregate;
pub mod amounts;
pub mod column;
pub mod fragmentation;
pub mod fragmentation_data;
pub mod places;
pub mod platform;
pub mod property_counts;
pub mod service_versions;
pub mod state;
pub mod table;
pub mod verdict;
