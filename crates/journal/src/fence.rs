//! The checks that keep the replicas of one journal consistent. A test build can leave one of them out on purpose.
//!
//! `tests/replicas/linearizable` leaves a check out to prove that the test notices it. Only a build with the feature
//! `fault-injection` can do that.

/// A check without which a history of several replicas is not linearizable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Each append compares the journal's end with the entry up to which its replica has read.
    Append,
    /// A replica asks the journal for its end before it answers a read.
    Confirm,
}

impl Fence {
    /// Whether the environment variable `PLACEWRIGHT_TEST_WITHOUT` says that this process leaves the check out.
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
