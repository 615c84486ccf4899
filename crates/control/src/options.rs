//! What can be chosen about control's runtime.

use std::time::Duration;

/// How control has things done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many hosts of the same cell an instance gets besides the chosen one, for builds that
    /// fail. Default 2.
    pub alternates: usize,
    /// Whether a resize may end on the host where the instance is. Default true.
    pub resize_to_same_host: bool,
    /// A cell that was silent for so long is down. Default 5 s.
    pub cell_down_after: Duration,
    /// How long a cell may take for an answer. Default 10 s.
    pub answer_timeout: Duration,
    /// What a cell accepted but has not finished, or did not answer, is sent again after this much
    /// time; then after twice as much, up to `resend_max`. Default 5 s.
    pub resend_min: Duration,
    /// The longest time between two sendings. Default 60 s.
    pub resend_max: Duration,
    /// Most messages in one delivery. Default 256.
    pub messages_max: usize,
    /// How often what does not add up is looked for. Default 30 s.
    pub audit_every: Duration,
    /// What makes no progress for so long is stuck: longer than any step may take. Default 15 min.
    pub stuck_after: Duration,
    /// What is suspected of not adding up is looked at again after so long, and is a finding if it
    /// is still so. Default 2 s.
    pub confirm_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            alternates: 2,
            resize_to_same_host: true,
            cell_down_after: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(10),
            resend_min: Duration::from_secs(5),
            resend_max: Duration::from_secs(60),
            messages_max: 256,
            audit_every: Duration::from_secs(30),
            stuck_after: Duration::from_secs(15 * 60),
            confirm_after: Duration::from_secs(2),
        }
    }
}
