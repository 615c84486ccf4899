//! The pure scheduler: what a request asks for, which hosts may serve it, and which is best.
//!
//! Nothing here does I/O, takes the time or draws a random number, and no result depends on the
//! order of a hash map. A request comes in as a typed [`request::RequestSpec`]. The folders, each of which uses
//! only those before it:
//!
//! - [`translate`]: from a request to what placement is asked.
//! - [`hosts`]: what is known of hosts besides their inventories.
//! - [`filters`] and [`weighers`], one file each; [`expression`] for those that operators write,
//!   and [`policy`] for those that are enabled.
//! - [`rank`]: the order of the feasible hosts, by looking at all of them or by an index.
//! - [`select`]: all of it together; what callers use.

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

// Whoever schedules needs the types of requests too.
pub use placewright_types::{error, extra_spec, flavor, image, request};
