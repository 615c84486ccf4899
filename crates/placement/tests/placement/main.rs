//! The state machine of placement, and its candidate search. All of it is one test program, because each further one
//! would take seconds to build.

mod candidates;
mod common;
mod explain;
mod laws;
mod room;
mod wide_trees;
