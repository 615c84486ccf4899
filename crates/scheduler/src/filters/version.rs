//! Versions in the format of Python packages: `2.6`, `1!2.0rc1`, `7.0.post2`.
//!
//! Source: the version specifiers of the Python Packaging User Guide (PEP 440).

use std::cmp::Ordering;

/// A version. The order is exact only if one of the two is a final release, as the version of a hypervisor
/// ([`Self::from_number`]) always is: two pre-releases of the same release (`2.0a1`, `2.0b1`) compare equal, and so do
/// two post-releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    epoch: u64,
    /// The release numbers, without trailing zeros.
    release: Vec<u64>,
    stage: Stage,
}

/// The order of a version relative to the final release with the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// A development, alpha, beta or candidate release.
    PreRelease,
    /// The final release itself.
    Final,
    /// A post-release, or a local version.
    PostRelease,
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

/// Takes leading digits off a text, as a number; `None` if the text does not begin with a digit.
fn take_number(text: &mut &str) -> Option<u64> {
    let end = text.find(|character: char| !character.is_ascii_digit());
    let (digits, remaining) = text.split_at(end.unwrap_or(text.len()));
    if digits.is_empty() {
        return None;
    }
    *text = remaining;
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// A text without a leading `-`, `_` or `.`.
fn without_separator(text: &str) -> &str {
    text.strip_prefix(['-', '_', '.']).unwrap_or(text)
}

/// Takes one of some words off a text, with a separator before it, and with the number after it, if there is one, and
/// the separator between. Returns whether there was such a word.
fn take_marker(text: &mut &str, words: &[&str]) -> bool {
    let start = without_separator(text);
    let Some(remaining) = words.iter().find_map(|word| start.strip_prefix(word)) else {
        return false;
    };
    let mut after = without_separator(remaining);
    *text = if take_number(&mut after).is_some() {
        after
    } else {
        remaining
    };
    true
}

impl Version {
    /// Parses a version; `None` if the text is not a version.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_lowercase();
        let mut remaining = text.strip_prefix('v').unwrap_or(&text);
        let mut first_number = take_number(&mut remaining)?;
        let mut epoch = 0;
        if let Some(after) = remaining.strip_prefix('!') {
            remaining = after;
            // The first number was the epoch, and the release begins with the second.
            epoch = std::mem::replace(&mut first_number, take_number(&mut remaining)?);
        }
        let mut release = vec![first_number];
        while let Some(mut after) = remaining.strip_prefix('.') {
            let Some(next) = take_number(&mut after) else {
                break;
            };
            release.push(next);
            remaining = after;
        }
        while release.len() > 1 && release.last() == Some(&0) {
            release.pop();
        }
        let words = ["alpha", "a", "beta", "b", "preview", "pre", "c", "rc"];
        let is_pre = take_marker(&mut remaining, &words);
        let mut is_post = false;
        // `2.6-1` is short for `2.6.post1`.
        let mut implicit_post = remaining.strip_prefix('-').unwrap_or_default();
        if take_number(&mut implicit_post).is_some() {
            remaining = implicit_post;
            is_post = true;
        } else if take_marker(&mut remaining, &["post", "rev", "r"]) {
            is_post = true;
        }
        let is_development = take_marker(&mut remaining, &["dev"]);
        let is_local = match remaining.strip_prefix('+') {
            Some(local) => {
                let mut parts = local.split(['-', '_', '.']);
                let is_part = |part: &str| {
                    !part.is_empty()
                        && part
                            .chars()
                            .all(|character| character.is_ascii_alphanumeric())
                };
                if !parts.all(is_part) {
                    return None;
                }
                true
            }
            None if remaining.is_empty() => false,
            None => return None,
        };
        let stage = match (is_pre, is_post, is_development, is_local) {
            (true, ..) | (false, false, true, _) => Stage::PreRelease,
            (false, true, ..) | (false, false, false, true) => Stage::PostRelease,
            (false, false, false, false) => Stage::Final,
        };
        Some(Self {
            epoch,
            release,
            stage,
        })
    }

    /// The version that a hypervisor reports as one number: 6002001 is 6.2.1. `None` if the number
    /// is not positive.
    #[must_use]
    pub(crate) fn from_number(number: i32) -> Option<Self> {
        let mut remaining = u64::try_from(number).ok().filter(|number| *number > 0)?;
        let mut release = Vec::new();
        while remaining != 0 {
            release.insert(0, remaining % 1000);
            remaining /= 1000;
        }
        while release.len() > 1 && release.last() == Some(&0) {
            release.pop();
        }
        Some(Self {
            epoch: 0,
            release,
            stage: Stage::Final,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_relative_to_final_releases() {
        let hypervisor = Version::from_number(6_002_000).expect("positive");
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
        for malformed in [
            "", "six", "6.", "6..2", "6.2x", "6.2+", "6.2+a..b", "!6", "1!",
        ] {
            assert_eq!(Version::parse(malformed), None, "{malformed}");
        }
    }
}
