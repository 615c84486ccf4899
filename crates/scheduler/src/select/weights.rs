//! Why a host ranks where it does: what each weigher gives it.

use crate::weigher::Share;

/// What weighers give the hosts of a ranking.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    /// How many hosts were compared.
    pub compared: usize,
    /// By host of the ranking: what each weigher gives it. Nothing where one host is compared with
    /// nobody.
    pub of_hosts: Vec<Vec<Weight>>,
}

/// What a weigher gives a host, as [`Share`] has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// The weigher.
    pub weigher: String,
    /// The host's number.
    pub number: f64,
    /// The number on the scale of the hosts compared, from 0 to 1.
    pub normalised: f64,
    /// How much it counts.
    pub multiplier: f64,
    /// What it comes to.
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
