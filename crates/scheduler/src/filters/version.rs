//! Versions as Python packages write them: `2.6`, `1!2.0rc1`, `7.0.post2`.
//!
//! Source: the version specifiers of the Python Packaging User Guide (PEP 440).

use std::cmp::Ordering;

/// A version, as far as its order relative to final releases goes.
///
/// Two pre-releases of one number (`2.0a1`, `2.0b1`) may compare equal here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    epoch: u64,
    /// The numbers, without zeros at the end.
    release: Vec<u64>,
    stage: Stage,
}

/// The order of a version relative to the final release of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// A development, alpha, beta or candidate release.
    Before,
    /// The final release itself.
    Plain,
    /// A post-release, or a local version.
    After,
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |version: &Self| (version.epoch, version.release.clone(), version.stage);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Consumes digits from the front.
fn number(text: &mut &str) -> Option<u64> {
    let end = text.find(|character: char| !character.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    if digits.is_empty() {
        return None;
    }
    *text = rest;
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// Strips a leading `-`, `_` or `.`.
fn separator(text: &str) -> &str {
    text.strip_prefix(['-', '_', '.']).unwrap_or(text)
}

/// Consumes one of some words, with separators around it and a number after it.
fn marker(text: &mut &str, words: &[&str]) -> bool {
    let start = separator(text);
    let Some(rest) = words.iter().find_map(|word| start.strip_prefix(word)) else {
        return false;
    };
    let mut after = separator(rest);
    *text = if number(&mut after).is_some() {
        after
    } else {
        rest
    };
    true
}

impl Version {
    /// Parses a version; `None` if the text is not one.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_lowercase();
        let mut rest = text.strip_prefix('v').unwrap_or(&text);
        let mut first = number(&mut rest)?;
        let mut epoch = 0;
        if let Some(after) = rest.strip_prefix('!') {
            rest = after;
            epoch = std::mem::replace(&mut first, number(&mut rest)?);
        }
        let mut release = vec![first];
        while let Some(mut after) = rest.strip_prefix('.') {
            let Some(next) = number(&mut after) else {
                break;
            };
            release.push(next);
            rest = after;
        }
        while release.len() > 1 && release.last() == Some(&0) {
            release.pop();
        }
        let words = ["alpha", "a", "beta", "b", "preview", "pre", "c", "rc"];
        let is_pre = marker(&mut rest, &words);
        let mut is_post = false;
        let mut implicit = rest.strip_prefix('-').unwrap_or_default();
        if number(&mut implicit).is_some() {
            rest = implicit;
            is_post = true;
        } else if marker(&mut rest, &["post", "rev", "r"]) {
            is_post = true;
        }
        let is_development = marker(&mut rest, &["dev"]);
        let is_local = match rest.strip_prefix('+') {
            Some(local) => {
                let mut parts = local.split(['-', '_', '.']);
                let is_part = |part: &str| {
                    !part.is_empty()
                        && part
                            .chars()
                            .all(|character| character.is_ascii_alphanumeric())
                };
                parts.all(is_part).then_some(true)?
            }
            None => rest.is_empty().then_some(false)?,
        };
        let stage = match (is_pre, is_post, is_development, is_local) {
            (true, ..) | (false, false, true, _) => Stage::Before,
            (false, true, ..) | (false, false, false, true) => Stage::After,
            (false, false, false, false) => Stage::Plain,
        };
        Some(Self {
            epoch,
            release,
            stage,
        })
    }

    /// The version that a hypervisor reports as one number: 6002001 is 6.2.1; `None` for less than
    /// 1.
    #[must_use]
    pub(crate) fn of_number(number: i32) -> Option<Self> {
        let mut rest = u64::try_from(number).ok().filter(|number| *number > 0)?;
        let mut release = Vec::new();
        while rest != 0 {
            release.insert(0, rest % 1000);
            rest /= 1000;
        }
        while release.len() > 1 && release.last() == Some(&0) {
            release.pop();
        }
        Some(Self {
            epoch: 0,
            release,
            stage: Stage::Plain,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_around_plain_releases() {
        let hypervisor = Version::of_number(6_002_000).expect("positive");
        for (text, order) in [
            ("6.2", Ordering::Equal),
            ("v6.2.0.0", Ordering::Equal),
            ("6.2.1", Ordering::Less),
            ("6.10", Ordering::Less),
            ("6", Ordering::Greater),
            ("1!1.0", Ordering::Less),
            ("6.2rc1", Ordering::Greater),
            ("6.2.dev3", Ordering::Greater),
            ("6.2a1.post1", Ordering::Greater),
            ("6.2.post1", Ordering::Less),
            ("6.2-1", Ordering::Less),
            ("6.2.post1.dev2", Ordering::Less),
            ("6.2+ubuntu.1", Ordering::Less),
            ("6.2.ALPHA", Ordering::Greater),
        ] {
            let version = Version::parse(text).expect("a version");
            assert_eq!(hypervisor.cmp(&version), order, "{text}");
        }
        for wrong in [
            "", "six", "6.", "6..2", "6.2x", "6.2+", "6.2+a..b", "!6", "1!",
        ] {
            assert_eq!(Version::parse(wrong), None, "{wrong}");
        }
    }
}
