//! Explains a ranking: the contribution of each weigher to each host's score.

use crate::weighers::Share;

/// The contributions of weighers to the scores of ranked hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    /// The slots of hosts of which the caller asks, wherever they are in the ranking; rising.
    pub(crate) asked: Vec<u32>,
    /// The number of feasible hosts that were compared.
    pub compared: usize,
    /// By ranked host: the contribution of each weigher. Empty where a single host is feasible and
    /// nothing is weighed.
    pub of_hosts: Vec<Vec<Weight>>,
    /// Of the hosts that the caller asks of, those that were compared, best first.
    pub of_asked: Vec<RankedWeights>,
}

/// A host's place in the ranking, with the contribution of each weigher to its score.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedWeights {
    /// The slot of the host.
    pub slot: u32,
    /// Its place among all hosts that were compared; the best host has place 1.
    pub rank: usize,
    /// Its score.
    pub score: f64,
    /// As in [`Weights::of_hosts`].
    pub weights: Vec<Weight>,
}

/// The contribution of a weigher to the score of a host; see [`Share`].
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// The name of the weigher.
    pub weigher: String,
    /// The host's raw value, within the declared ends.
    pub number: f64,
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
            number: share.number,
            normalised: share.normalised,
            multiplier: share.multiplier,
            share: share.share,
        }
    }
}
