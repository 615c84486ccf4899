//! Explains a ranking: the contribution of each weigher to each host's score.

use crate::weighers::Share;

/// The contributions of weighers to the scores of ranked hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    /// Slots for which the caller requests the contributions, whatever their rank; in rising order.
    pub(crate) requested_slots: Vec<u32>,
    /// Whether the hosts were found with the fallback query, because none was feasible with the first one.
    pub is_from_fallback: bool,
    /// The number of feasible hosts that were compared.
    pub compared: usize,
    /// For each of the best hosts, in order: the contribution of each weigher. For a single feasible host the list of
    /// contributions is empty, because nothing is weighed then.
    pub of_best: Vec<Vec<Weight>>,
    /// For the requested hosts that were compared, best first: their ranks and contributions.
    pub of_requested: Vec<RankedWeights>,
}

/// A host's rank, with the contribution of each weigher to its score.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedWeights {
    /// The slot of the host.
    pub slot: u32,
    /// The rank of the host among all hosts that were compared; the best one has rank 1.
    pub rank: usize,
    /// The sum of the shares of the weighers.
    pub score: f64,
    /// The contribution of each weigher.
    pub weights: Vec<Weight>,
}

/// An owned copy of a [`Share`]: the contribution of a weigher to the score of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// The name of the weigher.
    pub weigher: String,
    /// The host's raw value, clamped to the ends of the range that its weigher declares, if any.
    pub raw_value: f64,
    /// The raw value normalised over the compared hosts, from 0 to 1.
    pub normalised: f64,
    /// The multiplier that applies to the host.
    pub multiplier: f64,
    /// The product of multiplier and normalised value.
    pub share: f64,
}

impl From<Share<'_>> for Weight {
    fn from(share: Share<'_>) -> Self {
        Self {
            weigher: share.weigher.to_owned(),
            raw_value: share.raw_value,
            normalised: share.normalised,
            multiplier: share.multiplier,
            share: share.share,
        }
    }
}
