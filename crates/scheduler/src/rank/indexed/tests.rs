//! The indexed ranking returns what scoring every host returns, after any sequence of changes.

use proptest::prelude::*;

use placewright_placement::tree_changes::ChangeKind;

use placewright_placement::slot_set::SlotSet;

use super::{ChangeLog, ClassIndex, Fleet, HostChange, ScoreCache};
use crate::hosts::column::Column;
use crate::rank::Ranked;
use crate::rank::feasibility::{BlockFeasibility, Feasibility};
use crate::weighers::Term;

/// The number of hosts.
const SLOT_COUNT: u32 = 2500;

/// A change of one host.
#[derive(Clone, Debug)]
struct Change {
    slot: u32,
    is_feasible: bool,
    /// By column: the new value.
    values: [u8; 3],
}

fn change_lists() -> impl Strategy<Value = Vec<Change>> {
    let change = (0..SLOT_COUNT, prop::bool::weighted(0.8), any::<[u8; 3]>());
    let change = change.prop_map(|(slot, is_feasible, values)| Change {
        slot,
        is_feasible,
        values,
    });
    prop::collection::vec(change, 0..40)
}

/// A [`Feasibility`] by a predicate for the class and one for the single request. Hosts with odd
/// slots are undecided, so that both kinds of tests are made.
struct ByPredicates<C, R> {
    is_feasible_for_class: C,
    is_feasible_for_request: R,
}

impl<C: Fn(u32) -> bool, R: Fn(u32) -> bool> Feasibility for ByPredicates<C, R> {
    fn test_block_for_class(&self, block: usize) -> BlockFeasibility {
        let start = u32::try_from(block * 64).expect("small");
        let feasible = (0..64).fold(0, |word, bit| {
            word | u64::from(bit % 2 == 0 && (self.is_feasible_for_class)(start + bit)) << bit
        });
        BlockFeasibility {
            feasible,
            undecided: 0xaaaa_aaaa_aaaa_aaaa,
        }
    }

    fn eligible_for_class(&self, _: usize) -> u64 {
        u64::MAX
    }

    fn passes_exact_test_for_class(&self, slot: u32) -> bool {
        (self.is_feasible_for_class)(slot)
    }

    fn is_feasible_for_class(&self, slot: u32) -> bool {
        (self.is_feasible_for_class)(slot)
    }

    fn filter_block_for_request(&self, block: usize, mask: u64) -> u64 {
        let start = u32::try_from(block * 64).expect("small");
        // For the single request, masks decide every third host of a block, and the exact test the others.
        let passes_mask =
            |bit: u32| !bit.is_multiple_of(3) || (self.is_feasible_for_request)(start + bit);
        (0..64).fold(0, |word, bit| {
            word | (mask >> bit & u64::from(passes_mask(bit))) << bit
        })
    }

    fn passes_exact_test_for_request(&self, slot: u32) -> bool {
        (self.is_feasible_for_request)(slot)
    }
}

/// The best hosts, found by scoring all of them.
fn brute_force(
    terms: &[Term],
    slot_count: u32,
    columns: &[Column],
    is_feasible: &impl Fn(u32) -> bool,
    count: usize,
) -> Vec<Ranked> {
    let slots: Vec<u32> = (0..slot_count).filter(|slot| is_feasible(*slot)).collect();
    let mut ranked: Vec<Ranked> = slots
        .iter()
        .map(|slot| Ranked {
            slot: *slot,
            score: 0.0,
        })
        .collect();
    for term in terms {
        let raw = |slot: &u32| {
            let raw = columns[term.column].get(*slot);
            raw.max(term.low.unwrap_or(raw))
                .min(term.high.unwrap_or(f64::INFINITY))
        };
        let low = term
            .low
            .unwrap_or_else(|| slots.iter().map(raw).fold(f64::INFINITY, f64::min));
        let high = term
            .high
            .unwrap_or_else(|| slots.iter().map(raw).fold(f64::NEG_INFINITY, f64::max));
        if high <= low {
            continue;
        }
        let factor = term.multiplier / (high - low);
        for host in &mut ranked {
            host.score += factor * (raw(&host.slot) - low);
        }
    }
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.slot.cmp(&b.slot)));
    ranked.truncate(count);
    ranked
}

proptest! {
    #[test]
    fn the_index_finds_what_scoring_all_hosts_finds(
        start in change_lists(),
        // Each round: the changes of hosts, the hosts that the request excludes, how many hosts are wanted, and a
        // number: the hosts whose slots are its multiples are feasible for the request.
        rounds in prop::collection::vec((change_lists(), prop::collection::vec(0..SLOT_COUNT, 0..5), 1usize..6, prop::sample::select(vec![1u32, 1, 1, 3, 70])), 1..12),
        (has_coarse_values, third_declares_low) in any::<(bool, bool)>(),
    ) {
        let terms = vec![
            Term { column: 0, multiplier: 1.0, low: Some(0.0), high: None },
            Term { column: 1, multiplier: 2.5, low: Some(0.0), high: None },
            Term { column: 2, multiplier: -1.0, low: third_declares_low.then_some(0.0), high: None },
        ];
        let mut columns = vec![Column::default(); 3];
        let mut feasible = vec![false; SLOT_COUNT as usize];
        // Coarse values produce many ties.
        let value = |byte: u8| if has_coarse_values { f64::from(byte / 64) } else { f64::from(byte) };
        let set = |columns: &mut Vec<Column>, feasible: &mut Vec<bool>, change: &Change| {
            feasible[change.slot as usize] = change.is_feasible;
            for (column, byte) in columns.iter_mut().zip(change.values) {
                column.set(change.slot, value(byte));
            }
        };
        for change in &start {
            set(&mut columns, &mut feasible, change);
        }
        let block_count = feasible.len().div_ceil(64);
        let mut hosts = SlotSet::default();
        (0..SLOT_COUNT).for_each(|slot| { hosts.insert(slot); });
        let mut log = ChangeLog::default();
        let mut scores = ScoreCache::new(terms.clone());
        // Two indexes share a score cache; the second is used in every third round.
        let mut indexes: [Option<ClassIndex>; 2] = [None, None];
        for (round, (changes, excluded, count, feasible_every)) in rounds.iter().enumerate() {
            for change in changes {
                set(&mut columns, &mut feasible, change);
                let kind = if change.is_feasible { ChangeKind::CapacityChange } else { ChangeKind::CapacityLoss };
                log.append(std::iter::once(HostChange { slot: change.slot, kind }));
            }
            // Every `feasible_every`th host is feasible for the request, unless the request excludes it.
            let is_feasible_for_request = |slot: u32| slot.is_multiple_of(*feasible_every) && !excluded.contains(&slot);
            let is_second_class = round % 3 == 2;
            let is_feasible_for_class = |slot: u32| {
                feasible.get(slot as usize).copied().unwrap_or(false) && !(is_second_class && slot.is_multiple_of(5))
            };
            let feasibility = ByPredicates { is_feasible_for_class, is_feasible_for_request };
            let index = &mut indexes[usize::from(is_second_class)];
            let fleet = Fleet { log: &log, columns: &columns, hosts: &hosts };
            let current = index.take().and_then(|mut index| {
                let is_current = index.catch_up(block_count, &fleet);
                is_current.then_some(index)
            });
            let index = index
                .insert(current.unwrap_or_else(|| ClassIndex::new(&terms, block_count, &fleet)));
            let found = index.best(&mut scores, *count, &feasibility, &fleet);
            let is_feasible = |slot: u32| is_feasible_for_request(slot) && is_feasible_for_class(slot);
            let expected = brute_force(&terms, SLOT_COUNT, &columns, &is_feasible, *count);
            prop_assert_eq!(found, expected);
        }
    }
}
