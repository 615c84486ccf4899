//! The syntax of extra-spec keys that concern resources.

/// The meaning of an extra-spec key to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraSpecKey<'a> {
    /// `resources[S]:CLASS`: an amount of a resource class in group `S`.
    Resources {
        /// The group; empty for the unsuffixed one.
        suffix: &'a str,
        /// The name of the resource class.
        class: &'a str,
    },
    /// `trait[S]:NAME`: a trait that group `S` requires or forbids.
    Trait {
        /// The group; empty for the unsuffixed one.
        suffix: &'a str,
        /// The name of the trait.
        name: &'a str,
    },
    /// `placewright:any_trait[S]`: a set of traits of which group `S` requires at least one. Placement's
    /// queries can express it (`required=in:A,B`), Nova's extra specs cannot.
    AnyTrait {
        /// The group; empty for the unsuffixed one.
        suffix: &'a str,
    },
    /// `group_policy`: whether suffixed groups may share a provider.
    GroupPolicy,
    /// A key that is none of these, such as `hw:cpu_policy`.
    Other,
}

/// The longest suffix of a request group. Source: Placement, microversion 1.33.
const SUFFIX_LENGTH_MAX: usize = 64;

impl<'a> ExtraSpecKey<'a> {
    /// Parses a key of an extra spec.
    #[must_use]
    pub fn parse(key: &'a str) -> Self {
        if key == "group_policy" {
            return Self::GroupPolicy;
        }
        let Some((head, name)) = key.split_once(':') else {
            return Self::Other;
        };
        // A final newline is dropped, as by the regular expressions of Nova.
        let name = name.strip_suffix('\n').unwrap_or(name);
        if name.contains('\n') {
            return Self::Other;
        }
        if head == "placewright" {
            return match name.strip_prefix("any_trait") {
                Some(suffix) if suffix.is_empty() || is_suffix(suffix) => Self::AnyTrait { suffix },
                Some(_) | None => Self::Other,
            };
        }
        if let Some(suffix) = head.strip_prefix("resources") {
            if suffix.is_empty() || is_suffix(suffix) {
                return Self::Resources {
                    suffix,
                    class: name,
                };
            }
        } else if let Some(suffix) = head.strip_prefix("trait")
            && (suffix.is_empty() || is_suffix(suffix))
        {
            return Self::Trait { suffix, name };
        }
        Self::Other
    }
}

/// Whether a text is a valid suffix of a request group: 1 to 64 letters, digits, `_` and `-`.
#[must_use]
pub fn is_suffix(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=SUFFIX_LENGTH_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_parsed() {
        let resources = |suffix, class| ExtraSpecKey::Resources { suffix, class };
        let trait_key = |suffix, name| ExtraSpecKey::Trait { suffix, name };
        let long = format!("resources{}:VCPU", "x".repeat(65));
        let cases = [
            ("resources:VCPU", resources("", "VCPU")),
            ("resources1:VCPU", resources("1", "VCPU")),
            ("resources_a-B:CUSTOM_X", resources("_a-B", "CUSTOM_X")),
            ("resources:a:b", resources("", "a:b")),
            ("trait:X", trait_key("", "X")),
            // The suffix is `s`.
            ("traits:X", trait_key("s", "X")),
            ("trait.1:X", ExtraSpecKey::Other),
            (
                "placewright:any_trait",
                ExtraSpecKey::AnyTrait { suffix: "" },
            ),
            (
                "placewright:any_trait_G1",
                ExtraSpecKey::AnyTrait { suffix: "_G1" },
            ),
            ("placewright:any_trait.1", ExtraSpecKey::Other),
            ("placewright:other", ExtraSpecKey::Other),
            ("resources", ExtraSpecKey::Other),
            ("hw:cpu_policy", ExtraSpecKey::Other),
            ("group_policy", ExtraSpecKey::GroupPolicy),
            (&long, ExtraSpecKey::Other),
        ];
        for (key, parsed) in cases {
            assert_eq!(ExtraSpecKey::parse(key), parsed, "{key:?}");
        }
    }
}
