//! Tests that read the workspace's own source: the length of files and functions, the dependencies between crates,
//! cycles among the modules of a crate, and doc comments that say too little. Further tests compare pages of the
//! documentation with the source.
//!
//! The rules for dependencies between crates and modules have no exceptions. The limits of sizes have some: files and
//! functions beyond a limit are listed in `known/`, with their present sizes. The lists only shrink:
//! [`known::check_list`] fails when an entry grows or would be new, and also when a file or function got smaller and
//! its list does not say so yet. Nothing of this crate is part of the product.

pub mod doc_comments;
pub mod functions;
pub mod known;
pub mod manifests;
pub mod mentions;
pub mod modules;
pub mod source;
