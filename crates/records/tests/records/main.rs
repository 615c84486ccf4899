//! The forms on disk and between roles, and what older releases wrote. All of it is one test program, because each
//! further one would take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod bodies;
mod commands;
mod common;
mod drawn;
mod golden;
mod growth;
mod kinds;
mod laws;
mod next;
mod placement;
mod typed;
mod values;
