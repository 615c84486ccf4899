//! The API of OpenStack Networking for an installation without networks, because many clients list networks before they
//! do anything else. Every list is empty, no object is found by an id, and nothing can be made.

mod resources;
mod service;

pub use service::NetworkService;
