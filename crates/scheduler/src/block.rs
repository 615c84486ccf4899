//! Vectorised loops over one block of 64 hosts, compiled for each instruction set.
//!
//! All versions give equal results, because nothing here rounds differently with wider registers.
//! The closures passed to `dispatch` are plain loops: a nested closure that is not inlined would
//! be compiled for the baseline instruction set.

use pulp::Arch;
#[cfg(target_arch = "x86_64")]
use pulp::x86::V4;

/// The number of hosts in a block: the bits of one mask word.
pub(crate) const BLOCK_HOSTS: usize = 64;

/// The maximum of two numbers that are not NaN: one instruction, unlike `f64::max`.
#[inline(always)]
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The minimum of two numbers that are not NaN.
#[inline(always)]
pub(crate) fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// The number of lanes processed together where a mask has to be expanded; four mask bits index a
/// table.
const LANES: usize = 4;

/// By value of four mask bits: 0.0 for a set bit, minus infinity for a clear one.
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

#[inline(always)]
fn penalties(mask: u64, chunk: usize) -> &'static [f64; LANES] {
    // Four bits always index a table of sixteen.
    &PENALTIES[usize::try_from(mask >> (chunk * LANES) & 0xf).unwrap_or(0)]
}

/// The minimum and the maximum over the hosts of the mask; infinities for an empty mask.
pub(crate) fn range(values: &[f64; BLOCK_HOSTS], mask: u64) -> (f64, f64) {
    #[cfg(target_arch = "x86_64")]
    if let Some(v4) = V4::try_new() {
        return wide::range(v4, values, mask);
    }
    Arch::new().dispatch(
        #[inline(always)]
        || any_range(values, mask),
    )
}

#[inline(always)]
fn any_range(values: &[f64; BLOCK_HOSTS], mask: u64) -> (f64, f64) {
    let mut highs = [f64::NEG_INFINITY; LANES];
    let mut lows = [f64::INFINITY; LANES];
    for (chunk, values) in values.chunks_exact(LANES).enumerate() {
        let penalties = penalties(mask, chunk);
        for lane in 0..LANES {
            highs[lane] = larger(highs[lane], values[lane] + penalties[lane]);
            lows[lane] = smaller(lows[lane], values[lane] - penalties[lane]);
        }
    }
    let mut ends = (f64::INFINITY, f64::NEG_INFINITY);
    for lane in 0..LANES {
        ends = (smaller(ends.0, lows[lane]), larger(ends.1, highs[lane]));
    }
    ends
}

/// The maximum over the hosts of the mask; minus infinity for an empty mask.
pub(crate) fn most(values: &[f64; BLOCK_HOSTS], mask: u64) -> f64 {
    if mask == 0 {
        return f64::NEG_INFINITY;
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(v4) = V4::try_new() {
        return wide::most(v4, values, mask);
    }
    Arch::new().dispatch(
        #[inline(always)]
        || any_most(values, mask),
    )
}

#[inline(always)]
fn any_most(values: &[f64; BLOCK_HOSTS], mask: u64) -> f64 {
    let mut tops = [f64::NEG_INFINITY; 2 * LANES];
    for (chunk, values) in values.chunks_exact(2 * LANES).enumerate() {
        let (one, other) = (penalties(mask, 2 * chunk), penalties(mask, 2 * chunk + 1));
        for lane in 0..LANES {
            tops[lane] = larger(tops[lane], values[lane] + one[lane]);
            tops[LANES + lane] = larger(tops[LANES + lane], values[LANES + lane] + other[lane]);
        }
    }
    let mut most = f64::NEG_INFINITY;
    for top in tops {
        most = larger(most, top);
    }
    most
}

/// The AVX-512 versions, whose mask registers make them 5 ns a block instead of 24.
#[cfg(target_arch = "x86_64")]
mod wide {
    use pulp::x86::V4;

    use super::BLOCK_HOSTS;

    const LANES: usize = 8;

    pub(super) fn range(v4: V4, values: &[f64; BLOCK_HOSTS], mask: u64) -> (f64, f64) {
        v4.vectorize(
            #[inline(always)]
            || {
                let f = v4.avx512f;
                let mut lows = f._mm512_set1_pd(f64::INFINITY);
                let mut highs = f._mm512_set1_pd(f64::NEG_INFINITY);
                let (chunks, _) = values.as_chunks::<LANES>();
                for (number, values) in chunks.iter().enumerate() {
                    let mask = mask.to_le_bytes()[number];
                    let values = pulp::cast(*values);
                    lows = f._mm512_mask_min_pd(lows, mask, lows, values);
                    highs = f._mm512_mask_max_pd(highs, mask, highs, values);
                }
                (f._mm512_reduce_min_pd(lows), f._mm512_reduce_max_pd(highs))
            },
        )
    }

    pub(super) fn most(v4: V4, values: &[f64; BLOCK_HOSTS], mask: u64) -> f64 {
        v4.vectorize(
            #[inline(always)]
            || {
                let f = v4.avx512f;
                let mut tops = f._mm512_set1_pd(f64::NEG_INFINITY);
                let (chunks, _) = values.as_chunks::<LANES>();
                for (number, values) in chunks.iter().enumerate() {
                    let mask = mask.to_le_bytes()[number];
                    tops = f._mm512_mask_max_pd(tops, mask, tops, pulp::cast(*values));
                }
                f._mm512_reduce_max_pd(tops)
            },
        )
    }
}

/// Which values are at least `least`, one bit each.
pub(crate) fn at_least(values: &[f64; BLOCK_HOSTS], least: f64) -> u64 {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut mask = 0;
            for (bit, value) in values.iter().enumerate() {
                mask |= u64::from(*value >= least) << bit;
            }
            mask
        },
    )
}

/// Which values are at most `most`, one bit each.
pub(crate) fn at_most(values: &[f64; BLOCK_HOSTS], most: f64) -> u64 {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut mask = 0;
            for (bit, value) in values.iter().enumerate() {
                mask |= u64::from(*value <= most) << bit;
            }
            mask
        },
    )
}

/// Adds the share of one term to the scores of a block, clamping its raw values first.
pub(crate) fn add_share(
    scores: &mut [f64; BLOCK_HOSTS],
    values: &[f64; BLOCK_HOSTS],
    factor: f64,
    low: f64,
    bounds: (f64, f64),
) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (score, value) in scores.iter_mut().zip(values) {
                *score += factor * (smaller(larger(*value, bounds.0), bounds.1) - low);
            }
        },
    );
}

/// The index of the first element equal to a number.
#[inline]
pub(crate) fn position(numbers: &[f64], one: f64) -> Option<usize> {
    let (chunks, rest) = numbers.as_chunks::<8>();
    let has = |numbers: &[f64]| {
        numbers
            .iter()
            .fold(false, |has, other| has | (*other == one))
    };
    let start = match chunks.iter().position(|chunk| has(chunk)) {
        Some(chunk) => chunk * 8,
        None => numbers.len() - rest.len(),
    };
    let place = numbers[start..].iter().position(|other| *other == one)?;
    Some(start + place)
}

/// The maximum of some numbers; minus infinity for none.
pub(crate) fn top(numbers: &[f64]) -> f64 {
    Arch::new().dispatch(
        #[inline(always)]
        || any_top(numbers),
    )
}

#[inline(always)]
fn any_top(numbers: &[f64]) -> f64 {
    let (chunks, rest) = numbers.as_chunks::<8>();
    let mut tops = [f64::NEG_INFINITY; 8];
    for chunk in chunks {
        for (top, number) in tops.iter_mut().zip(chunk) {
            *top = larger(*top, *number);
        }
    }
    let mut most = f64::NEG_INFINITY;
    for top in tops {
        most = larger(most, top);
    }
    for number in rest {
        most = larger(most, *number);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_the_same_whatever_the_lanes() {
        let values: [f64; BLOCK_HOSTS] =
            std::array::from_fn(|place| f64::from(u32::try_from(place * 37 % 61).unwrap_or(0)));
        for mask in [0, 1, 1 << 63, u64::MAX, 0xf0f0_1234_0000_8001, 0x00ff_0000] {
            let among = || (0..BLOCK_HOSTS).filter(|bit| mask >> bit & 1 == 1);
            let high = among()
                .map(|bit| values[bit])
                .fold(f64::NEG_INFINITY, f64::max);
            let low = among().map(|bit| values[bit]).fold(f64::INFINITY, f64::min);
            assert_eq!(range(&values, mask), (low, high));
            assert_eq!(any_range(&values, mask), (low, high));
            assert_eq!(most(&values, mask), high);
            assert_eq!(any_most(&values, mask), high);
            for one in [30.0, 59.0, 61.0] {
                let place = values.iter().position(|other| *other == one);
                assert_eq!(position(&values, one), place);
                let place = values[..29].iter().position(|other| *other == one);
                assert_eq!(position(&values[..29], one), place);
            }
        }
        let mask_of = |does: &dyn Fn(f64) -> bool| {
            (0..BLOCK_HOSTS).fold(0, |mask, bit| mask | u64::from(does(values[bit])) << bit)
        };
        assert_eq!(at_least(&values, 30.0), mask_of(&|value| value >= 30.0));
        assert_eq!(at_most(&values, 30.0), mask_of(&|value| value <= 30.0));
        assert_eq!(
            top(&values[..63]),
            values[..63].iter().copied().fold(0.0, f64::max)
        );
    }
}
