//! The ranking against the plain definition of the score.

use proptest::prelude::*;

use super::{Column, Ranked, Ranking, Term, Without};

/// A change of one host: slot, feasible, values.
type Change = (u32, bool, [u8; 3]);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec(
        (0u32..2500, prop::bool::weighted(0.8), any::<[u8; 3]>()),
        0..40,
    )
}

/// The best hosts, by looking at all of them.
fn brute_force(
    terms: &[Term],
    feasible: &[bool],
    columns: &[Column],
    left_out: &[u32],
    count: usize,
) -> Vec<Ranked> {
    let slots: Vec<u32> = (0..feasible.len())
        .map(|slot| u32::try_from(slot).expect("small"))
        .filter(|slot| feasible[*slot as usize] && !left_out.contains(slot))
        .collect();
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
    fn finds_what_looking_at_all_hosts_finds(
        start in changes(),
        rounds in prop::collection::vec((changes(), prop::collection::vec(0u32..2500, 0..5), 1usize..6), 1..12),
        coarse in any::<bool>(),
    ) {
        let terms = vec![
            Term { column: 0, multiplier: 1.0, low: Some(0.0), high: None },
            Term { column: 1, multiplier: 2.5, low: Some(0.0), high: None },
            Term { column: 2, multiplier: -1.0, low: None, high: None },
        ];
        let mut columns = vec![Column::default(); 3];
        let mut feasible = vec![false; 2500];
        // Coarse values make many ties.
        let value = |byte: u8| if coarse { f64::from(byte / 64) } else { f64::from(byte) };
        let set = |columns: &mut Vec<Column>, feasible: &mut Vec<bool>, change: &Change| {
            feasible[change.0 as usize] = change.1;
            for (column, byte) in columns.iter_mut().zip(change.2) {
                column.set(change.0, value(byte));
            }
        };
        for change in &start {
            set(&mut columns, &mut feasible, change);
        }
        let mask: Vec<u64> = feasible
            .chunks(64)
            .map(|bits| bits.iter().rev().fold(0, |word, bit| word << 1 | u64::from(*bit)))
            .collect();
        let mut ranking = Ranking::new(terms.clone(), mask, &columns);
        for (changes, left_out, count) in &rounds {
            for change in changes {
                set(&mut columns, &mut feasible, change);
                ranking.update(change.0, change.1, &columns);
            }
            let without = Without::hosts(left_out.iter().copied());
            let found = ranking.best(*count, &without, &columns);
            let expected = brute_force(&terms, &feasible, &columns, left_out, *count);
            prop_assert_eq!(found, expected);
            prop_assert_eq!(ranking.feasible_count(), feasible.iter().filter(|yes| **yes).count());
        }
    }
}
