//! The verdict of a filter over all hosts, in the cheapest form that the filter allows.

use std::borrow::Cow;
use std::fmt;

use placewright_placement::slot_set::SlotSet;

/// Up to this number of sets of hosts, the sets are merged word by word; with more, looking up the part of
/// each slot is faster.
const MERGED_SETS_MAX: usize = 16;

/// A filter's verdict for one request.
///
/// The variants are ordered by cost: decided for all hosts at once, for 64 hosts at a time, or for
/// each host that passes all other filters.
pub enum Verdict<'a> {
    /// Every host passes the filter.
    All,
    /// No host passes the filter.
    None,
    /// Only hosts in the set pass.
    Within(Cow<'a, SlotSet>),
    /// Only hosts outside of the set pass.
    AllBut(Cow<'a, SlotSet>),
    /// The hosts of some parts of a partition pass, such as those with certain platforms.
    Partition(Partition<'a>),
    /// A predicate that has to be evaluated host by host.
    Each(Box<dyn Fn(u32) -> bool + Send + Sync + 'a>),
    /// As [`Self::Each`], with a predicate that reads free amounts, counts of instances or the load.
    /// Cached results of a request class are not updated after every change of these, so the predicate
    /// is evaluated in each search, even if its filter is once per request.
    EachByAmounts(Box<dyn Fn(u32) -> bool + Send + Sync + 'a>),
}

impl fmt::Debug for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "All",
            Self::None => "None",
            Self::Within(_) => "Within",
            Self::AllBut(_) => "Outside",
            Self::Partition(_) => "Partition",
            Self::Each(_) => "Each",
            Self::EachByAmounts(_) => "EachByAmounts",
        })
    }
}

/// A partition of the hosts, of which some parts pass.
#[derive(Clone, Debug)]
pub struct Partition<'a> {
    /// By slot: the part of the host.
    part_of: &'a [u32],
    /// By part: whether its hosts pass.
    passes: Vec<bool>,
    /// The hosts of each part that passes or of each part that does not, whichever parts are fewer. Empty if
    /// these are too many to merge.
    listed: Vec<&'a SlotSet>,
    /// Whether the listed parts are those that pass.
    are_listed_passing: bool,
}

impl<'a> Partition<'a> {
    /// The verdict over a partition, from the part of each slot, and for each part its hosts and whether they pass. A
    /// slot whose part is out of range has no host; what the verdict says of it has no meaning.
    pub fn verdict(
        part_of: &'a [u32],
        parts: impl Iterator<Item = (&'a SlotSet, bool)>,
    ) -> Verdict<'a> {
        let (mut passes, mut passing, mut failing) = (Vec::new(), Vec::new(), Vec::new());
        for (hosts, does_pass) in parts {
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
        let are_listed_passing = passing.len() <= failing.len();
        let mut listed = if are_listed_passing { passing } else { failing };
        if listed.len() > MERGED_SETS_MAX {
            listed.clear();
        }
        Verdict::Partition(Self {
            part_of,
            passes,
            listed,
            are_listed_passing,
        })
    }

    fn passes(&self, slot: u32) -> bool {
        let part = self.part_of.get(slot as usize).copied();
        let verdict = part.and_then(|part| self.passes.get(part as usize));
        verdict.copied().unwrap_or(false)
    }

    /// The verdicts on the 64 hosts of a word, as a mask of the hosts that pass.
    fn word(&self, word: usize) -> u64 {
        if self.listed.is_empty() {
            let start = word * 64;
            let end = (start + 64).min(self.part_of.len());
            let parts = self.part_of.get(start..end).unwrap_or_default();
            let bit = |part: &u32| self.passes.get(*part as usize).copied().unwrap_or(false);
            let bits = parts.iter().map(bit).enumerate();
            return bits.fold(0, |mask, (index, bit)| mask | u64::from(bit) << index);
        }
        let union = self
            .listed
            .iter()
            .fold(0, |mask, set| mask | set.word(word));
        if self.are_listed_passing {
            union
        } else {
            !union
        }
    }
}

impl Verdict<'_> {
    /// The verdict that only these hosts pass.
    #[must_use]
    pub fn only(slots: impl IntoIterator<Item = u32>) -> Self {
        Self::Within(Cow::Owned(collect(slots)))
    }

    /// The verdict that all hosts but these pass.
    #[must_use]
    pub fn all_but(slots: impl IntoIterator<Item = u32>) -> Self {
        let failing = collect(slots);
        if failing.is_empty() {
            Self::All
        } else {
            Self::AllBut(Cow::Owned(failing))
        }
    }

    /// The mask of the hosts that may pass among the 64 slots from `64 * word` on. Where a
    /// predicate has to decide, all slots count as passing. Slots without a host may be in the mask.
    #[must_use]
    #[inline]
    pub fn word(&self, word: usize) -> u64 {
        match self {
            Self::All | Self::Each(_) | Self::EachByAmounts(_) => !0,
            Self::None => 0,
            Self::Within(set) => set.word(word),
            Self::AllBut(set) => !set.word(word),
            Self::Partition(partition) => partition.word(word),
        }
    }

    /// Whether a host passes.
    #[must_use]
    pub fn passes(&self, slot: u32) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Within(set) => set.contains(slot),
            Self::AllBut(set) => !set.contains(slot),
            Self::Partition(partition) => partition.passes(slot),
            Self::Each(predicate) | Self::EachByAmounts(predicate) => predicate(slot),
        }
    }

    /// Whether the predicate has to be evaluated in addition to the masks.
    #[must_use]
    pub fn needs_predicate(&self) -> bool {
        matches!(self, Self::Each(_) | Self::EachByAmounts(_))
    }

    /// Whether a host's verdict can change with its free amounts.
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
