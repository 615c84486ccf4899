//! The inner loops over one block of 64 hosts, written so that the compiler makes them vectors.

use placewright_placement::column::bits_of;

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

/// The largest score among the hosts of the mask; minus infinity without any.
pub(super) fn most(scores: &[f64; BLOCK_HOSTS], mask: u64) -> f64 {
    if mask == 0 {
        return f64::NEG_INFINITY;
    }
    let mut tops = [f64::NEG_INFINITY; 2 * LANES];
    for (chunk, scores) in scores.chunks_exact(2 * LANES).enumerate() {
        let (one, other) = (penalties(mask, 2 * chunk), penalties(mask, 2 * chunk + 1));
        for lane in 0..LANES {
            tops[lane] = larger(tops[lane], scores[lane] + one[lane]);
            tops[LANES + lane] = larger(tops[LANES + lane], scores[LANES + lane] + other[lane]);
        }
    }
    tops.into_iter().fold(f64::NEG_INFINITY, larger)
}

/// The place of the largest score among the hosts of the mask, the first of several; nothing
/// without any.
pub(super) fn first_best(scores: &[f64; BLOCK_HOSTS], mask: u64) -> Option<usize> {
    const FEW: u32 = 8;
    if mask.count_ones() > FEW {
        let equals = at_least(scores, most(scores, mask)) & mask;
        return (equals != 0).then(|| equals.trailing_zeros() as usize);
    }
    let mut rest = mask;
    let mut top = None;
    while rest != 0 {
        let place = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        if top.is_none_or(|top: usize| scores[place] > scores[top]) {
            top = Some(place);
        }
    }
    top
}

/// Which values are at least so much, one bit each.
pub(super) fn at_least(values: &[f64; BLOCK_HOSTS], least: f64) -> u64 {
    let mut answers = [0; BLOCK_HOSTS];
    for (answer, value) in answers.iter_mut().zip(values) {
        *answer = u8::from(*value >= least);
    }
    bits_of(&answers)
}

/// Which values are at most so much, one bit each.
pub(super) fn at_most(values: &[f64; BLOCK_HOSTS], most: f64) -> u64 {
    let mut answers = [0; BLOCK_HOSTS];
    for (answer, value) in answers.iter_mut().zip(values) {
        *answer = u8::from(*value <= most);
    }
    bits_of(&answers)
}

/// Adds one term to the scores of a block, its raw values brought within bounds first.
pub(super) fn add_share(
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
