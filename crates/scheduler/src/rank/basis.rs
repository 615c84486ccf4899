//! What the order of the best hosts rests on: the weighers' ranges and the values of these hosts. It is taken from what
//! a ranking has computed anyway, so that it costs little beside the ranking.

use smallvec::SmallVec;

use super::Ranked;
use crate::hosts::table::HostTable;
use crate::weighers::CompiledWeigher;

/// The weighers of a ranking with the ends of their ranges, and the raw values of its best hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Basis {
    /// The maximum length of `hosts`.
    pub(crate) hosts_max: usize,
    /// Whether the hosts were found with the fallback query, because none was feasible with the first one.
    pub is_from_fallback: bool,
    /// The number of hosts that the scheduler knows.
    pub known_hosts: usize,
    /// The number of feasible hosts; `None` if the search ended before it had seen all of them.
    pub feasible: Option<usize>,
    /// The weighers that can tell the feasible hosts apart, or add to their scores, in the order in which shares are
    /// added. Empty for a single feasible host, which is not weighed.
    pub weighers: Vec<BasisWeigher>,
    /// The best hosts, best first.
    pub hosts: Vec<BasisHost>,
}

/// A weigher with its range over the feasible hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct BasisWeigher {
    /// The name of the weigher.
    pub name: String,
    /// The multiplier where no aggregate overrides it.
    pub multiplier: f64,
    /// The raw value that counts as 0.
    pub low: f64,
    /// The raw value that counts as 1.
    pub high: f64,
}

/// One of the best hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct BasisHost {
    /// The slot of the host.
    pub slot: u32,
    /// For each weigher the host's raw value, clamped to the declared ends.
    pub raw_values: SmallVec<[f64; 6]>,
    /// For each weigher the multiplier that applies to the host; empty if all are those of the weighers.
    pub multipliers: SmallVec<[f64; 2]>,
}

impl Basis {
    /// A basis to be filled by a ranking, with at most this many hosts.
    #[must_use]
    pub fn of_best(hosts_max: usize) -> Self {
        Self {
            hosts_max,
            ..Self::default()
        }
    }

    /// Fills the basis: `weighed` are the weighers that have an effect, with the ends of their ranges over the feasible
    /// hosts, of which `ranked` are the best.
    pub(crate) fn fill<'w, 'a: 'w>(
        &mut self,
        hosts: &HostTable,
        weighed: impl Iterator<Item = (&'w CompiledWeigher<'a>, (f64, f64))>,
        ranked: &[Ranked],
    ) {
        self.known_hosts = hosts.slots().len();
        // Between equal ends every raw value counts as 0.
        let weighed = weighed.filter(|(_, (low, high))| low != high && self.feasible != Some(1));
        let weighed: SmallVec<[(&CompiledWeigher<'_>, (f64, f64)); 6]> = weighed.collect();
        let weighers = weighed.iter().map(|(weigher, (low, high))| BasisWeigher {
            name: weigher.name.to_owned(),
            multiplier: weigher.multiplier,
            low: *low,
            high: *high,
        });
        self.weighers = weighers.collect();
        let best = ranked.iter().take(self.hosts_max).map(|host| {
            let each_weigher = || weighed.iter().map(|(weigher, _)| *weigher);
            let multiplier = |weigher: &CompiledWeigher<'_>| weigher.multiplier_of(host.slot);
            let has_own = each_weigher().any(|weigher| multiplier(weigher) != weigher.multiplier);
            BasisHost {
                slot: host.slot,
                raw_values: each_weigher()
                    .map(|weigher| weigher.raw_value(hosts, host.slot))
                    .collect(),
                multipliers: match has_own {
                    true => each_weigher().map(multiplier).collect(),
                    false => SmallVec::new(),
                },
            }
        });
        self.hosts = best.collect();
    }
}
