//! The pure scheduler: it translates requests, finds the feasible hosts, and ranks them.
//!
//! Nothing here does I/O, reads the time or draws a random number, and no result depends on the
//! order of a hash map. A request is a typed [`request::RequestSpec`]. The modules, each of which
//! uses only those listed before it:
//!
//! - [`translate`]: from a request to the queries that placement answers.
//! - [`hosts`]: the states of hosts besides their inventories.
//! - [`filters`] and [`weighers`], one file for each; [`expression`] for those that operators
//!   write, and [`policy`] for those that are enabled.
//! - [`rank`]: the order of the feasible hosts, computed from all of them or by an index.
//! - [`select`]: the scheduler as a whole, which callers use.

mod block;
mod clock;
pub mod config;
pub mod context;
pub mod expression;
pub mod filters;
pub mod hosts;
pub mod policy;
pub mod rank;
pub mod select;
pub mod translate;
mod values;
pub mod weighers;

// Shorter paths to modules that other crates use.
pub use hosts::{aggregate, amounts, platform, state as host_state, table as host_table};
pub use translate::{prefilter, prepare};

// Callers need the types of requests too.
pub use placewright_types::{error, extra_spec, flavor, image, request};
