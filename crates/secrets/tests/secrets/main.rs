//! Keys, and what is sealed with them. All of it is one test program, because each further one would take seconds to
//! build.

mod keys;
mod sealed;
mod specs;
