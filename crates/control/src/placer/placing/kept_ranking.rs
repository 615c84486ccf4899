//! What is kept of a ranking with the claim that it leads to, so that it can be said later why a server is where it is.

use placewright_conductor::RankingRecord;
use placewright_conductor::decision::cut_reason;
use placewright_types::ranking::{
    AVOIDED_CELLS_MAX, LOST_HOSTS_MAX, RANKED_HOSTS_MAX, RankedHost, RankedWeigher, Ranking,
};
use uuid::Uuid;

use super::super::search::CandidatesFound;
use super::{Placing, SearchContext, Selected};

impl Placing {
    /// The record of the ranking that found hosts for the instance at `index`; empty if no record is to be kept.
    /// `first` is the index in `found` of the first host that the claim names. Other instances of the request fill the
    /// hosts before it. So the record counts these hosts as excluded, and not as ranked. `excluded_count` is the number
    /// of all excluded hosts, these included.
    pub(super) fn kept_ranking(
        &self,
        context: &SearchContext<'_>,
        index: usize,
        found: &CandidatesFound,
        (first, excluded_count): (usize, usize),
    ) -> RankingRecord {
        let (Some(sequence), Some(basis)) = (context.ranking_record_sequence, &found.basis) else {
            return RankingRecord::default();
        };
        let avoided_cells = match found.has_avoided_cells {
            true => context.avoided_cells,
            false => &[],
        };
        let hosts = context.scheduler.hosts();
        let filled = &found.hosts[..first];
        let is_filled = |slot: u32| filled.iter().any(|host| host.slot == slot);
        let others = basis.hosts.iter().filter(|host| !is_filled(host.slot));
        let ranked_hosts = others.filter_map(|host| {
            Some(RankedHost {
                host: hosts.get(host.slot)?.uuid,
                raw_values: host.raw_values.to_vec(),
                multipliers: host.multipliers.to_vec(),
            })
        });
        let weighers = basis.weighers.iter().map(|weigher| RankedWeigher {
            name: weigher.name.clone(),
            multiplier: weigher.multiplier,
            low: weigher.low,
            high: weigher.high,
        });
        let progress = &self.instances[index];
        let last_refusal = self.last_refusal.as_ref();
        let ranking = Ranking {
            sequence,
            round: self.round,
            siblings: self.found_count,
            known_hosts: saturated(basis.known_hosts),
            feasible: basis
                .feasible
                .map(|feasible| saturated(feasible.saturating_sub(first))),
            ranked: saturated(found.ranked.saturating_sub(first)),
            named: saturated(found.hosts.len() - first),
            excluded: saturated(excluded_count),
            avoided_cells: first_of(avoided_cells, AVOIDED_CELLS_MAX),
            is_from_fallback: basis.is_from_fallback,
            weighers: weighers.collect(),
            hosts: ranked_hosts.take(RANKED_HOSTS_MAX).collect(),
            lost_hosts: progress.lost_hosts.clone(),
            last_refusal: last_refusal
                .map(|refusal| cut_reason(refusal.to_string()))
                .unwrap_or_default(),
        };
        RankingRecord(placewright_records::ranking::encode(&ranking).into())
    }
}

/// Adds the hosts that a claim named in vain to `lost_hosts`, until it has [`LOST_HOSTS_MAX`] hosts.
pub(super) fn add_lost(lost_hosts: &mut Vec<Uuid>, selected: &Selected) {
    let (first, _) = selected
        .found
        .position(selected.first_named)
        .unwrap_or((0, 0));
    let named = selected.found.hosts.iter().skip(first);
    let room = LOST_HOSTS_MAX.saturating_sub(lost_hosts.len());
    lost_hosts.extend(named.map(|host| host.provider).take(room));
}

fn first_of(list: &[Uuid], max: usize) -> Vec<Uuid> {
    list.iter().take(max).copied().collect()
}

fn saturated(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
