//! The pure scheduler: what a request asks for, which hosts may serve it, and which is best.
//!
//! Nothing here does I/O, reads a clock, draws a random number or lets the order of a hash map
//! out. A request comes in as a typed [`request::RequestSpec`].

pub mod request;
