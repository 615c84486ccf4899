//! How long a repeated decision takes in the ranking alone, without the claim.
//!
//! `cargo run --release -p placewright-scheduler --example ranking_speed`

use std::time::Instant;

use placewright_scheduler::ranking::{Column, Ranking, Term};

struct Fleet {
    columns: Vec<Column>,
    free: Vec<[f64; 3]>,
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn fleet(hosts: usize, seed: &mut u64) -> Fleet {
    let mut columns = vec![Column::default(); 3];
    let mut free = Vec::with_capacity(hosts);
    for slot in 0..hosts {
        let busy = 60 + next(seed) % 40;
        let share = (100 - busy) as f64 / 100.0;
        let row = [
            (256.0 * share).floor() * 1024.0,
            (64.0 * 4.0 * share).floor(),
            2_000.0 * share,
        ];
        for (column, value) in columns.iter_mut().zip(row) {
            column.set(u32::try_from(slot).unwrap_or(0), value);
        }
        free.push(row);
    }
    Fleet { columns, free }
}

fn main() {
    for hosts in [10_000usize, 100_000] {
        for classes in [1usize, 10, 100] {
            run(hosts, classes);
        }
    }
}

fn run(hosts: usize, classes: usize) {
    let mut seed = 42;
    let mut fleet = fleet(hosts, &mut seed);
    let terms: Vec<Term> = (0..3)
        .map(|column| Term {
            column,
            multiplier: 1.0,
            low: Some(0.0),
            high: None,
        })
        .collect();
    let sizes: Vec<[f64; 3]> = (0..classes)
        .map(|_| {
            let cpus = (1 + next(&mut seed) % 8) as f64;
            [cpus * 2048.0, cpus, 20.0]
        })
        .collect();
    // Ten kinds of requests by traits and aggregates; a tenth of the classes each.
    let kinds = classes.min(10);
    let mut rankings: Vec<Ranking> = (0..kinds)
        .map(|kind| {
            let words = (0..hosts.div_ceil(64)).map(|block| {
                let all = if (block + 1) * 64 <= hosts {
                    u64::MAX
                } else {
                    (1 << (hosts % 64)) - 1
                };
                let mut bits = || next(&mut seed) << 33 ^ next(&mut seed) << 11 ^ next(&mut seed);
                if kind == 0 {
                    all
                } else {
                    all & (bits() | bits())
                }
            });
            Ranking::new(terms.clone(), words.collect(), &fleet.columns)
        })
        .collect();
    let mut seen = vec![0usize; kinds];
    let mut log: Vec<usize> = Vec::new();
    let mut times = Vec::new();
    let decisions = 20_000;
    for round in 0..decisions {
        let class = round % classes;
        let start = Instant::now();
        let kind = class % kinds;
        let ranking = &mut rankings[kind];
        for slot in &log[seen[kind]..] {
            let slot = u32::try_from(*slot).unwrap_or(0);
            ranking.update(slot, ranking.is_feasible(slot), &fleet.columns);
        }
        seen[kind] = log.len();
        let (columns, wanted) = (&fleet.columns, &sizes[class]);
        let mask = |block: usize| {
            let rooms = columns.iter().zip(wanted);
            rooms.fold(u64::MAX, |word, (column, wanted)| {
                word & column.at_least(block, *wanted)
            })
        };
        let best = ranking.best(3, &mask, &fleet.columns);
        times.push(start.elapsed().as_nanos());
        let Some(first) = best.first() else { break };
        let slot = first.slot as usize;
        for (column, free) in fleet.free[slot].iter_mut().enumerate() {
            *free -= sizes[class][column];
            fleet.columns[column].set(first.slot, *free);
        }
        log.push(slot);
        // Something ends somewhere, so that the fleet stays as full as it is.
        let slot = usize::try_from(next(&mut seed)).unwrap_or(0) % hosts;
        for (column, free) in fleet.free[slot].iter_mut().enumerate() {
            *free += sizes[class][column];
            fleet.columns[column].set(u32::try_from(slot).unwrap_or(0), *free);
        }
        log.push(slot);
    }
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize] as f64 / 1000.0;
    println!(
        "{hosts:>7} hosts {classes:>4} classes: p50 {:.2} us, p90 {:.2}, p99 {:.2}, max {:.2}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.99999)
    );
}
