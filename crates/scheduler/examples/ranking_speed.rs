//! How long a repeated decision takes in the ranking alone, without the claim.
//!
//! `cargo run --release -p placewright-scheduler --example ranking_speed`

use std::time::Instant;

use placewright_scheduler::ranking::{Column, Ranking, Term, Without};

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
    let salts: Vec<u64> = (0..classes).map(|_| next(&mut seed)).collect();
    let fits = |free: &[f64; 3], class: usize, slot: usize| {
        let trait_ok = classes == 1 || (slot as u64).wrapping_mul(salts[class] | 1) >> 7 & 3 != 0;
        trait_ok
            && free
                .iter()
                .zip(&sizes[class])
                .all(|(free, wanted)| free >= wanted)
    };
    let mut rankings: Vec<Ranking> = (0..classes)
        .map(|class| {
            let mut mask = vec![0u64; hosts.div_ceil(64)];
            for slot in 0..hosts {
                if fits(&fleet.free[slot], class, slot) {
                    mask[slot / 64] |= 1 << (slot % 64);
                }
            }
            Ranking::new(terms.clone(), mask, &fleet.columns)
        })
        .collect();
    let mut log: Vec<usize> = Vec::new();
    let mut seen = vec![0usize; classes];
    let mut times = Vec::new();
    let decisions = 20_000;
    for round in 0..decisions {
        let class = round % classes;
        let start = Instant::now();
        let ranking = &mut rankings[class];
        for slot in &log[seen[class]..] {
            let fits = fits(&fleet.free[*slot], class, *slot);
            ranking.update(u32::try_from(*slot).unwrap_or(0), fits, &fleet.columns);
        }
        seen[class] = log.len();
        let best = ranking.best(3, &Without::default(), &fleet.columns);
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
