//! The Placement API: checks, routes and handlers.

pub(crate) mod accept;
pub(crate) mod call;
pub(crate) mod json;
pub(crate) mod microversion;
pub(crate) mod own;
pub(crate) mod pattern;
pub(crate) mod python;
pub(crate) mod query;
pub(crate) mod refusals;
pub(crate) mod render;
pub(crate) mod resources;
pub(crate) mod routes;
pub(crate) mod schema;
pub(crate) mod schemas;
pub(crate) mod service;
pub(crate) mod uuids;
