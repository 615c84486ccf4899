//! What the page for operators is served. All of it is one test program, because each further one would take seconds
//! to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod common;
mod fleet;
mod page;
mod past;
mod replay_page;
