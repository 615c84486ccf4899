//! What is kept of a ranking, so that a server's place can be explained later.

use uuid::Uuid;

/// The maximum number of hosts of a ranking that are kept: the best one and the next best ones.
pub const RANKED_HOSTS_MAX: usize = 5;
/// The maximum number of hosts that are kept of those that other claims took in earlier rounds.
pub const LOST_HOSTS_MAX: usize = 8;
/// The maximum number of cells that are kept of those that were avoided because they were silent.
pub const AVOIDED_CELLS_MAX: usize = 8;

/// How hosts were ranked for one instance: the part of it that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// The last entry of the journal in the state that was ranked.
    pub sequence: u64,
    /// The number of searches before this one whose hosts other claims took first.
    pub round: u32,
    /// The number of other instances of the same claim for which the same round had found hosts before. The state does
    /// not have these instances yet; the search counted what they take as used.
    pub siblings: u32,
    /// The number of hosts that the scheduler knew.
    pub known_hosts: u32,
    /// The number of feasible hosts; `None` if the search ended before it had seen all of them.
    pub feasible: Option<u32>,
    /// The number of hosts that were ranked, which are the best of the feasible ones.
    pub ranked: u32,
    /// The number of hosts that the claim named, to be tried in their order.
    pub named: u32,
    /// The number of hosts that were left out: the one that the instance is to leave, those that the request's other
    /// instances fill, those that were taken by other claims in earlier rounds.
    pub excluded: u32,
    /// Cells whose hosts were left out because the cells were silent and other hosts were feasible.
    pub avoided_cells: Vec<Uuid>,
    /// Whether hosts were found with the fallback query, because none was feasible with the first one.
    pub is_from_fallback: bool,
    /// The weighers that tell the feasible hosts apart; none if a single host was feasible.
    pub weighers: Vec<RankedWeigher>,
    /// The best hosts, best first.
    pub hosts: Vec<RankedHost>,
    /// Hosts that claims of earlier rounds named, and that other claims took first.
    pub lost_hosts: Vec<Uuid>,
    /// Why the claim of the round before was refused; empty if none was.
    pub last_refusal: String,
}

/// A weigher with its range over the feasible hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankedWeigher {
    /// The name of the weigher, as in the configuration.
    pub name: String,
    /// The multiplier where no aggregate overrides it.
    pub multiplier: f64,
    /// The raw value that counts as 0.
    pub low: f64,
    /// The raw value that counts as 1.
    pub high: f64,
}

/// One of the best hosts of a ranking.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankedHost {
    /// The UUID of the host's root provider.
    pub host: Uuid,
    /// For each weigher the host's raw value.
    pub raw_values: Vec<f64>,
    /// For each weigher the multiplier that applies to the host; empty if all are those of the weighers.
    pub multipliers: Vec<f64>,
}

/// The part of a weigher in the score of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScorePart<'a> {
    /// The name of the weigher.
    pub weigher: &'a str,
    /// The host's raw value.
    pub raw_value: f64,
    /// The raw value on the scale from 0 to 1.
    pub normalised: f64,
    /// The multiplier that applies to the host.
    pub multiplier: f64,
    /// The product of multiplier and normalised value.
    pub share: f64,
}

impl Ranking {
    /// The parts of a host's score.
    pub fn score_parts<'a>(
        &'a self,
        host: &'a RankedHost,
    ) -> impl Iterator<Item = ScorePart<'a>> + 'a {
        let with_values = self.weighers.iter().zip(&host.raw_values).enumerate();
        with_values.map(|(index, (weigher, raw_value))| {
            let own = host.multipliers.get(index).copied();
            let multiplier = own.unwrap_or(weigher.multiplier);
            let normalised = (raw_value - weigher.low) / (weigher.high - weigher.low);
            ScorePart {
                weigher: &weigher.name,
                raw_value: *raw_value,
                normalised,
                multiplier,
                share: multiplier * normalised,
            }
        })
    }

    /// The score of a host: the sum of its parts. Only the scores of one ranking can be compared.
    #[must_use]
    pub fn score(&self, host: &RankedHost) -> f64 {
        let parts = self.score_parts(host);
        parts.fold(0.0, |sum, part| sum + part.share)
    }
}
