//! The pace of placements while several projects send requests.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The maximum number of instances of a command that count for the delay of the next command. Without this maximum, a
/// single command for thousands of instances, which cannot be divided, would delay all others for a long time.
const INSTANCES_MAX: u32 = 256;

/// While several projects send requests, limits placements to the pace at which admission control accepts requests for
/// instances. Otherwise requests for many instances would take the processors and the disk from everybody's requests.
/// There is no limit while only one project sends requests, and before [`Self::set`] is called.
#[derive(Default)]
pub(super) struct Pace {
    limit: OnceLock<Limit>,
}

struct Limit {
    /// The time for each instance.
    instance_time: Duration,
    /// Whether several projects send requests.
    has_several_projects: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Pace {
    /// Sets the limit. Only the first call counts: a second one would have the same meaning.
    pub(super) fn set(
        &self,
        instance_time: Duration,
        has_several_projects: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        self.limit.get_or_init(|| Limit {
            instance_time,
            has_several_projects: Box::new(has_several_projects),
        });
    }

    /// Whether the pace is limited now.
    pub(super) fn is_limited(&self) -> bool {
        self.limit
            .get()
            .is_some_and(|limit| (limit.has_several_projects)())
    }

    /// The time from which the next placements may be submitted, if this number of placements is submitted now.
    /// `allowed_from` is the time from which the present ones were allowed.
    pub(super) fn next_placement_at(
        &self,
        placement_count: usize,
        allowed_from: Instant,
        now: Instant,
    ) -> Instant {
        let instance_time = self.limit.get().map(|limit| limit.instance_time);
        let counted =
            u32::try_from(placement_count).map_or(INSTANCES_MAX, |count| count.min(INSTANCES_MAX));
        allowed_from.max(now) + instance_time.unwrap_or_default().saturating_mul(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_wait_for_those_before_them_while_several_projects_send_requests() {
        let pace = Pace::default();
        assert!(!pace.is_limited());
        pace.set(Duration::from_millis(2), || true);
        assert!(pace.is_limited());
        let now = Instant::now();
        let first = pace.next_placement_at(64, now, now);
        assert_eq!(first - now, Duration::from_millis(128));
        let second = pace.next_placement_at(1, first, now);
        assert_eq!(second - first, Duration::from_millis(2));
        let undivided = pace.next_placement_at(1000, now, now);
        assert_eq!(undivided - now, Duration::from_millis(512));
    }
}
