//! The regular expressions of Placement's schemas, implemented by hand because there are few.
//!
//! As in Python, `$` also matches before a final newline, so `CUSTOM_X\n` is accepted as a name.

/// One of the regular expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// The name of a resource class, trait or consumer type.
    Name,
    /// The name of a custom resource class or trait.
    CustomName,
    /// A UUID as a key of an object: 36 hexadecimal digits and dashes in any order.
    Uuid36,
    /// A text that contains the suffix of a request group. Other characters may be around it, because the reference's
    /// expression has no `^` and no `$`.
    GroupSuffix,
    /// The consumer type in `GET /usages`. As in the reference, anything may follow `all`.
    ConsumerTypeQuery,
    /// The limit of the number of candidates.
    Limit,
    /// A query key with an optional number, such as `resources` or `resources1`: the prefix, and the
    /// source of the expression.
    Numbered(&'static str, &'static str),
    /// A query key with an optional suffix, such as `resources` or `resources_NIC-1`: the prefix, and
    /// the source of the expression.
    Suffixed(&'static str, &'static str),
}

impl Pattern {
    /// The source of the expression, as schemas show it.
    pub(crate) fn source(self) -> &'static str {
        match self {
            Pattern::Name => "^[A-Z0-9_]+$",
            Pattern::CustomName => "^CUSTOM_[A-Z0-9_]+$",
            Pattern::Uuid36 => "^[0-9a-fA-F-]{36}$",
            Pattern::GroupSuffix => "[a-zA-Z0-9_-]{1,64}",
            Pattern::ConsumerTypeQuery => "^[A-Z0-9_]+$|^all|^unknown$",
            Pattern::Limit => "^[1-9][0-9]*$",
            Pattern::Numbered(_, source) | Pattern::Suffixed(_, source) => source,
        }
    }

    /// Whether the expression matches within a text.
    pub(crate) fn matches(self, text: &str) -> bool {
        match self {
            Pattern::Name => is_name(without_final_newline(text)),
            Pattern::CustomName => without_final_newline(text)
                .strip_prefix("CUSTOM_")
                .is_some_and(is_name),
            Pattern::Uuid36 => {
                let text = without_final_newline(text);
                text.len() == 36 && all_in(text, |byte| byte.is_ascii_hexdigit() || byte == b'-')
            }
            Pattern::GroupSuffix => text.bytes().any(is_suffix_byte),
            Pattern::ConsumerTypeQuery => {
                let name = without_final_newline(text);
                is_name(name) || text.starts_with("all") || name == "unknown"
            }
            Pattern::Limit => is_positive_number(without_final_newline(text)),
            Pattern::Numbered(prefix, _) => group_number(text, prefix).is_some(),
            Pattern::Suffixed(prefix, _) => group_suffix(text, prefix).is_some(),
        }
    }
}

/// The text without one final newline, before which `$` matches.
fn without_final_newline(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && all_in(text, |byte| {
            byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
        })
}

/// Whether each byte of a text is in a set. All bytes are looked at, because short texts that match are the usual case,
/// and without branches many bytes are compared at a time.
fn all_in(text: &str, is_in_set: impl Fn(u8) -> bool) -> bool {
    text.bytes()
        .fold(true, |are_all, byte| are_all & is_in_set(byte))
}

fn is_suffix_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_positive_number(text: &str) -> bool {
    !text.starts_with('0') && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The number after `prefix` in a query key; empty if the key has no number (microversions 1.25 to 1.32). None if the
/// key is another one.
pub(crate) fn group_number<'a>(key: &'a str, prefix: &str) -> Option<&'a str> {
    let suffix = without_final_newline(key.strip_prefix(prefix)?);
    (suffix.is_empty() || is_positive_number(suffix)).then_some(suffix)
}

/// The suffix after `prefix` in a query key; empty if the key has no suffix (from microversion 1.33). None if the key
/// is another one.
pub(crate) fn group_suffix<'a>(key: &'a str, prefix: &str) -> Option<&'a str> {
    let suffix = without_final_newline(key.strip_prefix(prefix)?);
    (suffix.len() <= 64 && suffix.bytes().all(is_suffix_byte)).then_some(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_their_expressions_match() {
        for (pattern, matching, not_matching) in [
            (
                Pattern::Name,
                &["A", "A_1", "CUSTOM_X\n"][..],
                &["", "a", "A-", "A\n\n", "\n"][..],
            ),
            (
                Pattern::CustomName,
                &["CUSTOM_X", "CUSTOM_X\n"],
                &["CUSTOM_", "X", "CUSTOM_x"],
            ),
            (
                Pattern::Uuid36,
                &[
                    "11111111-1111-1111-1111-111111111111",
                    "------------------------------------",
                ],
                &[
                    "11111111111111111111111111111111",
                    "g1111111-1111-1111-1111-111111111111",
                ],
            ),
            (Pattern::GroupSuffix, &["a", "é_"], &["", "é", "."]),
            (
                Pattern::ConsumerTypeQuery,
                &["ALL", "all", "allx", "unknown\n"],
                &["unknownx", "x"],
            ),
            (
                Pattern::Limit,
                &["1", "10", "1\n"],
                &["0", "01", "", "-1", "a", "٣"],
            ),
            (
                Pattern::Numbered("required", ""),
                &["required", "required12"],
                &["required0", "requiredx"],
            ),
            (
                Pattern::Suffixed("required", ""),
                &["required", "required_x-1"],
                &["required.", "require"],
            ),
        ] {
            for text in matching {
                assert!(pattern.matches(text), "{pattern:?} {text:?}");
            }
            for text in not_matching {
                assert!(!pattern.matches(text), "{pattern:?} {text:?}");
            }
        }
        assert_eq!(
            group_suffix(&format!("resources{}", "x".repeat(65)), "resources"),
            None
        );
    }
}
