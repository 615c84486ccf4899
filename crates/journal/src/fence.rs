//! What keeps replicas of one journal consistent, and that a test build can do without on purpose.
//!
//! `tests/replicas/linearizable` leaves a fence out to show that it would notice. Only a build with the feature
//! `fault-injection` can.

/// A check without which a history of several replicas is not linearizable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// An append compares the journal's end with the one that its replica has read to.
    Append,
    /// A replica asks for the journal's end before it answers reads.
    Confirm,
}

impl Fence {
    /// Whether this process was told to do without the fence, by the variable `PLACEWRIGHT_TEST_WITHOUT`.
    #[must_use]
    pub fn is_left_out(self) -> bool {
        #[cfg(feature = "fault-injection")]
        {
            static LEFT_OUT: std::sync::OnceLock<Option<Fence>> = std::sync::OnceLock::new();
            let left_out = LEFT_OUT.get_or_init(|| {
                match std::env::var("PLACEWRIGHT_TEST_WITHOUT").as_deref() {
                    Ok("append") => Some(Self::Append),
                    Ok("confirm") => Some(Self::Confirm),
                    _ => None,
                }
            });
            *left_out == Some(self)
        }
        #[cfg(not(feature = "fault-injection"))]
        false
    }
}
