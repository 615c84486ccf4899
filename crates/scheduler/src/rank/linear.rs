//! Ranks by weighing every feasible host: the definition of a ranking.

use placewright_placement::slot_set::{SlotSet, bits};

use super::feasibility::Feasibility;
use super::weights::{RankedWeights, Weight, Weights};
use super::{Ranked, Ranker};
use crate::weighers::CompiledWeighers;

/// Tests every host, and weighs all that are feasible.
#[derive(Debug)]
pub struct Linear<'r, 'a> {
    /// The number of blocks of 64 slots in which hosts are.
    pub blocks: usize,
    /// The weighers of the request.
    pub weighers: &'r CompiledWeighers<'a>,
    /// If set, only these hosts are considered.
    pub among: Option<&'r SlotSet>,
    /// If set, it gets the contribution of each weigher to the scores of the hosts returned.
    pub weights: Option<&'r mut Weights>,
}

impl Ranker for Linear<'_, '_> {
    fn best<F: Feasibility>(&mut self, count: usize, feasibility: &F) -> Vec<Ranked> {
        let slots = self.feasible(feasibility);
        let scales = self.weighers.scales(&slots);
        let weighed = slots.iter().map(|slot| Ranked {
            slot: *slot,
            score: scales.weight(*slot),
        });
        let mut ranked: Vec<Ranked> = weighed.collect();
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.slot.cmp(&b.slot)));
        if let Some(weights) = &mut self.weights {
            let of_host = |one: &Ranked| scales.shares(one.slot).map(Weight::from).collect();
            weights.compared = slots.len();
            weights.of_hosts = ranked.iter().take(count).map(of_host).collect();
            let asked = &weights.asked;
            let is_asked = |(_, one): &(usize, &Ranked)| asked.binary_search(&one.slot).is_ok();
            let asked = ranked.iter().enumerate().filter(is_asked);
            let of_asked = asked.map(|(place, one)| RankedWeights {
                slot: one.slot,
                rank: place + 1,
                score: one.score,
                weights: of_host(one),
            });
            weights.of_asked = of_asked.collect();
        }
        ranked.truncate(count);
        ranked
    }
}

impl Linear<'_, '_> {
    /// All feasible hosts, in rising order of slot.
    fn feasible<F: Feasibility>(&self, feasibility: &F) -> Vec<u32> {
        let mut slots = Vec::new();
        for block in 0..self.blocks {
            let among = self.among.map_or(u64::MAX, |among| among.word(block));
            if among == 0 {
                continue;
            }
            let class = feasibility.class_block(block);
            let possible = among & class.possible();
            for slot in bits(feasibility.request_block(block, possible), block) {
                let is_decided = class.feasible >> (slot % 64) & 1 == 1;
                if (is_decided || feasibility.decide_for_class(slot))
                    && feasibility.is_feasible_for_request(slot)
                {
                    slots.push(slot);
                }
            }
        }
        slots
    }
}
