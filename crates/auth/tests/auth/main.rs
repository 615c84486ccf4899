//! Tokens, passwords, policies and their limits. All of it is one test program, because each further one would take
//! seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod claims;
mod limits;
mod passwords;
mod policies;
mod reference;
mod tokens;
