//! The linear ranking, which weighs every feasible host. It defines the correct result.

use placewright_placement::slot_set::{SlotSet, bits};

use super::feasibility::Feasibility;
use super::weights::{RankedWeights, Weight, Weights};
use super::{Ranked, Ranker};
use crate::weighers::CompiledWeighers;

/// Tests every host, and weighs all that are feasible.
#[derive(Debug)]
pub struct Linear<'r, 'a> {
    /// The number of blocks up to that of the last host.
    pub block_count: usize,
    /// The weighers of the request.
    pub weighers: &'r CompiledWeighers<'a>,
    /// If set, only these hosts are considered.
    pub listed: Option<&'r SlotSet>,
    /// If set, the contributions of the weighers to the scores are written here.
    pub weights: Option<&'r mut Weights>,
    /// If set, the number of feasible hosts and the ends of the weighers' ranges are written here.
    pub ranges: Option<&'r mut Ranges>,
}

/// The number of feasible hosts, and for each weigher the ends of its range over them.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// The number of feasible hosts.
    pub feasible: usize,
    /// For each weigher the raw values that count as 0 and as 1; empty if a single host is feasible.
    pub ends: Vec<(f64, f64)>,
}

impl Ranker for Linear<'_, '_> {
    fn best<F: Feasibility>(&mut self, count: usize, feasibility: &F) -> Vec<Ranked> {
        let slots = self.feasible(feasibility);
        let scales = self.weighers.scales(&slots);
        let scored = slots.iter().map(|slot| Ranked {
            slot: *slot,
            score: scales.score(*slot),
        });
        let mut ranked: Vec<Ranked> = scored.collect();
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.slot.cmp(&b.slot)));
        if let Some(ranges) = &mut self.ranges {
            ranges.feasible = slots.len();
            ranges.ends = scales.ends().collect();
        }
        if let Some(weights) = &mut self.weights {
            let host_weights =
                |ranked: &Ranked| scales.shares(ranked.slot).map(Weight::from).collect();
            weights.compared = slots.len();
            weights.of_best = ranked.iter().take(count).map(host_weights).collect();
            let requested = &weights.requested_slots;
            let is_requested =
                |(_, ranked): &(usize, &Ranked)| requested.binary_search(&ranked.slot).is_ok();
            let requested = ranked.iter().enumerate().filter(is_requested);
            let of_requested = requested.map(|(index, ranked)| RankedWeights {
                slot: ranked.slot,
                rank: index + 1,
                score: ranked.score,
                weights: host_weights(ranked),
            });
            weights.of_requested = of_requested.collect();
        }
        ranked.truncate(count);
        ranked
    }
}

impl Linear<'_, '_> {
    /// All feasible hosts, in rising order of slot.
    fn feasible<F: Feasibility>(&self, feasibility: &F) -> Vec<u32> {
        let mut slots = Vec::new();
        for block in 0..self.block_count {
            let listed = self.listed.map_or(u64::MAX, |listed| listed.word(block));
            if listed == 0 {
                continue;
            }
            let class = feasibility.test_block_for_class(block);
            let possible = listed & class.possible();
            for slot in bits(feasibility.filter_block_for_request(block, possible), block) {
                let is_surely_feasible = class.feasible >> (slot % 64) & 1 == 1;
                if (is_surely_feasible || feasibility.passes_exact_test_for_class(slot))
                    && feasibility.passes_exact_test_for_request(slot)
                {
                    slots.push(slot);
                }
            }
        }
        slots
    }
}
