//! The inner loops over one block of 64 hosts, written so that the compiler makes them vectors.

use super::{BLOCK_HOSTS, larger, smaller};

/// Lanes taken together; the mask of a quarter word is a look-up.
const LANES: usize = 4;

/// For each four bits, 0 where a bit is set and minus infinity where it is not.
static PENALTIES: [[f64; LANES]; 1 << LANES] = {
    let mut table = [[0.0; LANES]; 1 << LANES];
    let mut bits = 0;
    while bits < table.len() {
        let mut lane = 0;
        while lane < LANES {
            if bits >> lane & 1 == 0 {
                table[bits][lane] = f64::NEG_INFINITY;
            }
            lane += 1;
        }
        bits += 1;
    }
    table
};

fn penalties(mask: u64, chunk: usize) -> &'static [f64; LANES] {
    // Four bits always index a table of sixteen.
    &PENALTIES[usize::try_from(mask >> (chunk * LANES) & 0xf).unwrap_or(0)]
}

/// The smallest and the largest value among the hosts of the mask; infinities without any.
pub(super) fn range(values: &[f64; BLOCK_HOSTS], mask: u64) -> (f64, f64) {
    let mut highs = [f64::NEG_INFINITY; LANES];
    let mut lows = [f64::INFINITY; LANES];
    for (chunk, values) in values.chunks_exact(LANES).enumerate() {
        let penalties = penalties(mask, chunk);
        for lane in 0..LANES {
            highs[lane] = larger(highs[lane], values[lane] + penalties[lane]);
            lows[lane] = smaller(lows[lane], values[lane] - penalties[lane]);
        }
    }
    (
        lows.into_iter().fold(f64::INFINITY, smaller),
        highs.into_iter().fold(f64::NEG_INFINITY, larger),
    )
}

/// The place of the largest score among the hosts of the mask, the first of several; 0 without any.
pub(super) fn first_best(scores: &[f64; BLOCK_HOSTS], mut mask: u64) -> usize {
    let mut top = (0, f64::NEG_INFINITY);
    while mask != 0 {
        let place = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        if scores[place] > top.1 {
            top = (place, scores[place]);
        }
    }
    top.0
}

/// Which values are at least so much, one bit each.
pub(super) fn at_least(values: &[f64; BLOCK_HOSTS], least: f64) -> u64 {
    let mut mask = 0;
    for (byte, values) in values.chunks_exact(8).enumerate() {
        let mut bits = 0u8;
        for (bit, value) in values.iter().enumerate() {
            bits |= u8::from(*value >= least) << bit;
        }
        mask |= u64::from(bits) << (byte * 8);
    }
    mask
}

/// Adds one term to the scores of a block, its raw values brought within bounds first.
pub(super) fn add(
    scores: &mut [f64; BLOCK_HOSTS],
    values: &[f64; BLOCK_HOSTS],
    factor: f64,
    low: f64,
    bounds: (f64, f64),
) {
    for (score, value) in scores.iter_mut().zip(values) {
        *score += factor * (smaller(larger(*value, bounds.0), bounds.1) - low);
    }
}
