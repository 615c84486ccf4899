//! The HTTP service: checks, routes and handlers.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod cors;
pub(crate) mod date;
pub(crate) mod door;
pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod large;
pub(crate) mod microversion;
pub(crate) mod own;
pub(crate) mod pattern;
pub(crate) mod placement;
pub(crate) mod python;
pub(crate) mod query;
pub(crate) mod refusals;
pub(crate) mod reply;
pub(crate) mod request_id;
pub(crate) mod room;
pub(crate) mod routes;
pub(crate) mod schema;
pub(crate) mod schemas;
pub(crate) mod service;
pub(crate) mod uuids;
