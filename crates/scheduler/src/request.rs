//! What somebody asks the scheduler for.

/// Everything that decides where one or more equal instances go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestSpec {}
