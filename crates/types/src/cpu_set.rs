//! Sets of guest processors, and the text that describes them.

use std::collections::BTreeSet;

use crate::text::whole_number;

/// Numbers of guest processors.
pub type CpuSet = BTreeSet<u32>;

/// The exclusive upper bound of processor numbers. It limits the memory that a request can cause to
/// be allocated, and is far above what any hypervisor supports.
pub const CPU_LIMIT: u32 = 1 << 16;

/// Parses a description such as `1-4,^3,6`: numbers, ranges, and `^` for exclusions.
///
/// Returns `None` for a description that does not parse or reaches [`CPU_LIMIT`].
#[must_use]
pub fn parse_cpu_set(description: &str) -> Option<CpuSet> {
    let mut included = CpuSet::new();
    let mut excluded = CpuSet::new();
    for part in description.split(',') {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        let (target, range) = match part.strip_prefix('^') {
            Some(rest) => (&mut excluded, rest),
            None => (&mut included, part),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (cpu_number(first)?, cpu_number(last)?),
            None => (cpu_number(range)?, cpu_number(range)?),
        };
        if first > last {
            return None;
        }
        target.extend(first..=last);
    }
    included.retain(|cpu| !excluded.contains(cpu));
    Some(included)
}

fn cpu_number(text: &str) -> Option<u32> {
    let number = u32::try_from(whole_number(text)?).ok()?;
    (number < CPU_LIMIT).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_parsed() {
        let cases: [(&str, Option<&[u32]>); 11] = [
            ("1-4,^3,6", Some(&[1, 2, 4, 6])),
            (" 0 , 2 - 3 ,,", Some(&[0, 2, 3])),
            ("0-7,^2-5", Some(&[0, 1, 6, 7])),
            ("^1", Some(&[])),
            ("", Some(&[])),
            ("3-1", None),
            ("-1", None),
            ("a", None),
            ("1-", None),
            ("^", None),
            ("0-99999999", None),
        ];
        for (description, expected) in cases {
            let expected = expected.map(|cpus| cpus.iter().copied().collect::<CpuSet>());
            assert_eq!(parse_cpu_set(description), expected, "{description:?}");
        }
    }
}
