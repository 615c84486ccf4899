//! What clients ask of OpenStack Networking before they do anything else, in an installation without networks:
//! every list is empty, nothing has an id, and nothing can be made.

mod resources;
mod service;

pub use service::NetworkService;
