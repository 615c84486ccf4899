//! The pure scheduler: what a request asks for, which hosts may serve it, and which is best.
//!
//! Nothing here does I/O, reads a clock, draws a random number or lets the order of a hash map
//! out. A request comes in as a typed [`request::RequestSpec`].

pub mod cpu_set;
pub mod error;
pub mod extra_spec;
pub mod flavor;
pub mod image;
pub mod prefilter;
pub mod prepare;
pub mod ranking;
pub mod request;
mod text;
pub mod translate;
