//! The Identity REST API of Placewright: the part of OpenStack Identity v3 that clients need, for an installation
//! that has no Keystone.
//!
//! [`IdentityService`] answers requests without sockets. Control keeps users, projects, roles and assignments
//! ([`placewright_control::accounts::Accounts`]), and [`placewright_auth::Passwords`] checks passwords. This crate
//! parses requests, calls both, and formats the answers. With [`OwnTokenCheck`] the other services of the process check
//! tokens by a function call. [`Catalog`] lists the installation's services for clients.
//!
//! There is one file for each resource; `routes.rs` is the table of paths and their handlers.
//! `docs/identity.md` lists what is supported.

mod access;
mod application_credentials;
mod assignments;
mod call;
mod catalog;
mod discovery;
mod domains;
mod error;
mod fields;
mod listing;
mod own_token_check;
mod projects;
mod roles;
mod routes;
mod service;
mod services;
mod sign_in;
mod sign_in_body;
mod time;
mod token_json;
mod tokens;
mod users;

pub use catalog::{Catalog, CatalogEntry};
pub use own_token_check::OwnTokenCheck;
pub use service::{IdentityOptions, IdentityService};
