//! The rules of admission control, in simulated time.

mod laws;
mod shares;
mod storing;
