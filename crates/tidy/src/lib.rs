//! Tests that read the workspace's own source: how long files and functions are, which crate uses
//! which, and which modules of a crate use one another in a circle.
//!
//! Arrows between crates and modules have no exceptions. Sizes have: what is not as it should be
//! today is listed in `known/`, with its present size. The lists only shrink: [`known::hold`] fails
//! when something grows or joins, and also when something got better and its list does not say so
//! yet. Nothing of this crate is part of the product.

pub mod functions;
pub mod known;
pub mod manifests;
pub mod mentions;
pub mod modules;
pub mod source;
