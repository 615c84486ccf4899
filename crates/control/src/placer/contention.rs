//! How many hosts a claim should name, and which ones, when many schedulers compete for the same
//! hosts.
//!
//! A claim takes the first of its candidates that still fits. Each further candidate costs a
//! little, and a claim of which none fits costs a second decision. So a claim names few hosts
//! while the best one usually fits, and more when other schedulers were often faster. A scheduler
//! without experience starts with many, because all may have just started from the same state.

use placewright_scheduler::rank::Ranked;

/// An adaptive number of hosts, derived from the outcome of the last claims.
#[derive(Clone, Copy, Debug)]
pub struct Contention {
    /// The number of hosts times [`SCALE`], so that it can decrease slowly.
    scaled_hosts: usize,
    /// The number of consecutive claims that got the first host they named.
    streak: usize,
}

/// The least number of hosts that a first claim names.
pub(super) const HOSTS_MIN: usize = 3;
/// The greatest number of hosts that a first claim names.
const HOSTS_MAX: usize = 64;
/// After a claim that found `n` hosts full, the next ones name at least this many times `n`.
const HOSTS_PER_FALLEN: usize = 4;
/// The number of hosts decreases by one after this many claims, if claims find full hosts now and then.
const SCALE: usize = 16;
/// The decrease accelerates during a streak of claims without a fallen host: it doubles after this many
/// of them, triples after twice as many, and so on.
const STREAK: usize = 16;

impl Default for Contention {
    fn default() -> Self {
        Self {
            scaled_hosts: HOSTS_MAX * SCALE,
            streak: 0,
        }
    }
}

impl Contention {
    /// The number of hosts that a first claim should name.
    #[must_use]
    pub fn host_count(&self) -> usize {
        self.scaled_hosts / SCALE
    }

    /// Records a claim that found `fallen_count` hosts full before it got one.
    pub fn record(&mut self, fallen_count: usize) {
        let wanted = HOSTS_PER_FALLEN.saturating_mul(fallen_count).min(HOSTS_MAX);
        let scaled_min = wanted.max(HOSTS_MIN) * SCALE;
        if fallen_count > 0 {
            self.streak = 0;
        }
        let decrease = 1 + self.streak / STREAK;
        self.scaled_hosts = self.scaled_hosts.saturating_sub(decrease).max(scaled_min);
        self.streak += usize::from(fallen_count == 0);
    }

    /// Records a claim for which no host was left, so that a second decision was needed.
    pub fn record_failure(&mut self) {
        *self = Self::default();
    }
}

/// Selects `count` hosts of a ranking for a claim, in its order: the first half from the top, and the rest from further
/// down, where each scheduler number selects different hosts.
///
/// Every scheduler tries the best hosts first. When those fill up before the schedulers have caught up
/// with the state, they fall back on different hosts, and their claims need no second decision.
#[must_use]
pub(super) fn spread(ranked: &[Ranked], count: usize, scheduler_number: usize) -> Vec<Ranked> {
    if ranked.len() <= count {
        return ranked.to_vec();
    }
    let (head, tail) = ranked.split_at(count.div_ceil(2));
    let wanted = count - head.len();
    let step = (tail.len() / wanted.max(1)).max(1);
    let own_share = tail.iter().skip(scheduler_number % step).step_by(step);
    head.iter().chain(own_share.take(wanted)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state after many claims that got the first host they named.
    fn without_contention() -> Contention {
        let mut contention = Contention::default();
        for _ in 0..200 {
            contention.record(0);
        }
        contention
    }

    #[test]
    fn a_new_scheduler_names_many_hosts_and_few_once_it_meets_no_contention() {
        let mut contention = Contention::default();
        assert_eq!(contention.host_count(), HOSTS_MAX);
        let mut claims = 0;
        while contention.host_count() > HOSTS_MIN {
            contention.record(0);
            claims += 1;
        }
        assert!((100..200).contains(&claims), "{claims}");
    }

    #[test]
    fn hosts_grow_with_fallen_ones_and_shrink_slowly_while_there_are_some() {
        let mut contention = without_contention();
        assert_eq!(contention.host_count(), HOSTS_MIN);
        contention.record(5);
        assert_eq!(contention.host_count(), 20);
        for _ in 0..SCALE {
            contention.record(0);
        }
        assert_eq!(contention.host_count(), 19);
        for _ in 0..SCALE {
            contention.record(1);
        }
        assert_eq!(contention.host_count(), 18);
        contention.record_failure();
        assert_eq!(contention.host_count(), HOSTS_MAX);
    }

    #[test]
    fn schedulers_share_the_best_hosts_and_differ_in_the_rest() {
        let ranked: Vec<Ranked> = (0..40).map(|slot| Ranked { slot, score: 1.0 }).collect();
        let slots = |scheduler| -> Vec<u32> {
            let picked = spread(&ranked, 8, scheduler);
            picked.iter().map(|host| host.slot).collect()
        };
        assert_eq!(slots(0), [0, 1, 2, 3, 4, 13, 22, 31]);
        assert_eq!(slots(1), [0, 1, 2, 3, 5, 14, 23, 32]);
        assert_eq!(spread(&ranked[..3], 8, 5), ranked[..3]);
    }
}
