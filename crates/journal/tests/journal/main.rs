//! The journal on SQLite, its backups and its mark. All of it is one test program, because each further one would
//! take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod backup;
mod conformance;
mod copy;
mod large_appends;
mod mark;
mod opening;
mod preallocated_log;
mod sqlite;
