//! The verdict of a filter over all hosts, in the most compact form that it allows.

use std::borrow::Cow;
use std::fmt;

use placewright_placement::slot_set::SlotSet;

/// Up to this many sets are merged word by word; beyond it, a look-up for each slot is faster.
const SETS_MAX: usize = 16;

/// A filter's verdict for one request.
///
/// The forms are ordered by cost: decided for all hosts at once, for 64 at a time, or for each
/// host that passed everything else.
pub enum Verdict<'a> {
    /// Every host passes the filter.
    All,
    /// No host passes the filter.
    None,
    /// Only hosts in the set pass.
    Within(Cow<'a, SlotSet>),
    /// Only hosts outside of the set pass.
    Outside(Cow<'a, SlotSet>),
    /// Hosts of some kinds pass, such as those of a platform or combination of aggregates.
    Partition(Partition<'a>),
    /// A predicate that has to be evaluated host by host.
    Each(Box<dyn Fn(u32) -> bool + Send + Sync + 'a>),
    /// As [`Self::Each`], of a predicate that reads free amounts, counts of instances or the load.
    /// What is kept of a class of requests does not follow all of their changes. So this one is
    /// evaluated in each search, whatever its filter says of itself.
    EachByAmounts(Box<dyn Fn(u32) -> bool + Send + Sync + 'a>),
}

impl fmt::Debug for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "All",
            Self::None => "None",
            Self::Within(_) => "Within",
            Self::Outside(_) => "Outside",
            Self::Partition(_) => "Partition",
            Self::Each(_) => "Each",
            Self::EachByAmounts(_) => "EachByAmounts",
        })
    }
}

/// A partition of hosts into kinds, each of which passes or does not.
#[derive(Clone, Debug)]
pub struct Partition<'a> {
    kind_of: &'a [u32],
    passes: Vec<bool>,
    /// The hosts of the kinds that pass, or of those that do not; empty if both are too many to
    /// merge.
    few: Vec<&'a SlotSet>,
    few_pass: bool,
}

impl<'a> Partition<'a> {
    /// The verdict over kinds, from the kind of each slot, and for each kind its hosts and whether
    /// they pass. A slot whose kind is out of range does not pass.
    pub fn verdict(
        kind_of: &'a [u32],
        kinds: impl Iterator<Item = (&'a SlotSet, bool)>,
    ) -> Verdict<'a> {
        let (mut passes, mut passing, mut failing) = (Vec::new(), Vec::new(), Vec::new());
        for (hosts, does_pass) in kinds {
            passes.push(does_pass);
            if !hosts.is_empty() {
                if does_pass {
                    passing.push(hosts);
                } else {
                    failing.push(hosts);
                }
            }
        }
        if failing.is_empty() {
            return Verdict::All;
        }
        if passing.is_empty() {
            return Verdict::None;
        }
        let few_pass = passing.len() <= failing.len();
        let mut few = if few_pass { passing } else { failing };
        if few.len() > SETS_MAX {
            few.clear();
        }
        Verdict::Partition(Self {
            kind_of,
            passes,
            few,
            few_pass,
        })
    }

    fn passes(&self, slot: u32) -> bool {
        let kind = self.kind_of.get(slot as usize).copied();
        let verdict = kind.and_then(|kind| self.passes.get(kind as usize));
        verdict.copied().unwrap_or(false)
    }

    fn word(&self, word: usize) -> u64 {
        if self.few.is_empty() {
            let start = word * 64;
            let end = (start + 64).min(self.kind_of.len());
            let kinds = self.kind_of.get(start..end).unwrap_or_default();
            let bit = |kind: &u32| self.passes.get(*kind as usize).copied().unwrap_or(false);
            let bits = kinds.iter().map(bit).enumerate();
            return bits.fold(0, |mask, (place, bit)| mask | u64::from(bit) << place);
        }
        let joined = self.few.iter().fold(0, |mask, set| mask | set.word(word));
        if self.few_pass { joined } else { !joined }
    }
}

impl Verdict<'_> {
    /// A verdict that only these hosts pass.
    #[must_use]
    pub fn only(slots: impl IntoIterator<Item = u32>) -> Self {
        Self::Within(Cow::Owned(collect(slots)))
    }

    /// A verdict that all but these hosts pass.
    #[must_use]
    pub fn all_but(slots: impl IntoIterator<Item = u32>) -> Self {
        let refused = collect(slots);
        if refused.is_empty() {
            Self::All
        } else {
            Self::Outside(Cow::Owned(refused))
        }
    }

    /// Which of the 64 slots from `64 * word` on may pass. Hosts that need the predicate count as
    /// passing, and so do slots without a host.
    #[must_use]
    #[inline]
    pub fn word(&self, word: usize) -> u64 {
        match self {
            Self::All | Self::Each(_) | Self::EachByAmounts(_) => !0,
            Self::None => 0,
            Self::Within(set) => set.word(word),
            Self::Outside(set) => !set.word(word),
            Self::Partition(kinds) => kinds.word(word),
        }
    }

    /// Whether a host passes.
    #[must_use]
    pub fn passes(&self, slot: u32) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Within(set) => set.contains(slot),
            Self::Outside(set) => !set.contains(slot),
            Self::Partition(kinds) => kinds.passes(slot),
            Self::Each(asks) | Self::EachByAmounts(asks) => asks(slot),
        }
    }

    /// Whether the predicate has to be evaluated in addition to the masks.
    #[must_use]
    pub fn needs_predicate(&self) -> bool {
        matches!(self, Self::Each(_) | Self::EachByAmounts(_))
    }

    /// Whether a host's verdict can change with the amounts that are free on it.
    #[must_use]
    pub fn reads_amounts(&self) -> bool {
        matches!(self, Self::EachByAmounts(_))
    }
}

fn collect(slots: impl IntoIterator<Item = u32>) -> SlotSet {
    let mut set = SlotSet::default();
    for slot in slots {
        set.insert(slot);
    }
    set
}
