//! The pure scheduler: what a request asks for, which hosts may serve it, and which is best.
//!
//! Nothing here does I/O, reads a clock, draws a random number or lets the order of a hash map
//! out. A request comes in as a typed [`request::RequestSpec`].

pub mod aggregate;
pub mod amounts;
pub mod config;
pub mod cpu_set;
pub mod dynamic;
pub mod error;
pub mod expression;
pub mod extra_spec;
pub mod extra_spec_ops;
pub mod filter;
pub mod flavor;
pub mod host_attributes;
pub mod host_state;
pub mod host_table;
pub mod image;
pub mod packing;
pub mod platform;
pub mod policy;
pub mod prefilter;
pub mod prepare;
pub mod ranking;
pub mod request;
pub mod select;
mod text;
pub mod translate;
pub mod verdict;
pub mod version;
pub mod weigher;
