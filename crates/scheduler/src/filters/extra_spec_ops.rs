//! The operator language of extra specs, which constrains a host's value: `>= 4`, `<or> a <or> b`.

use crate::values::{parse_float, words};

/// A condition on a value, parsed from an extra spec.
///
/// Source: Nova's `ComputeCapabilitiesFilter` documentation. `=` means "at least" for historical
/// reasons. A requirement without an operator is equality of texts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Requirement {
    /// Equal to this text, character by character.
    Equals(String),
    /// A comparison of numbers.
    Number(NumberOp, f64),
    /// A comparison of texts.
    Text(TextOp, String),
    /// Contains all of the texts.
    ContainsAll(Vec<String>),
    /// Is one of the texts.
    OneOf(Vec<String>),
    /// Never satisfied: an operator without an operand, or one for numbers without a number.
    Nothing,
}

/// How numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberOp {
    /// At least the operand: `=` and `>=`.
    AtLeast,
    /// Equal to the operand: `==`.
    Equal,
    /// Not equal to the operand: `!=`.
    NotEqual,
    /// At most the operand: `<=`.
    AtMost,
}

/// How texts are compared, lexicographically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextOp {
    /// Equal to the operand: `s==`.
    Equal,
    /// Not equal to the operand: `s!=`.
    NotEqual,
    /// Before the operand: `s<`.
    Less,
    /// Before or equal to the operand: `s<=`.
    AtMost,
    /// After the operand: `s>`.
    Greater,
    /// After or equal to the operand: `s>=`.
    AtLeast,
}

impl Requirement {
    /// Parses a requirement. Every text is valid; what cannot be satisfied is
    /// [`Requirement::Nothing`].
    #[must_use]
    pub(crate) fn parse(text: &str) -> Self {
        let mut words = words(text);
        let operator = words.next().unwrap_or_default();
        let operand = words.next();
        match operator {
            "=" | ">=" => Self::number(NumberOp::AtLeast, operand),
            "==" => Self::number(NumberOp::Equal, operand),
            "!=" => Self::number(NumberOp::NotEqual, operand),
            "<=" => Self::number(NumberOp::AtMost, operand),
            "s==" => Self::text(TextOp::Equal, operand),
            "s!=" => Self::text(TextOp::NotEqual, operand),
            "s<" => Self::text(TextOp::Less, operand),
            "s<=" => Self::text(TextOp::AtMost, operand),
            "s>" => Self::text(TextOp::Greater, operand),
            "s>=" => Self::text(TextOp::AtLeast, operand),
            "<in>" => operand.map_or(Self::Nothing, |part| {
                Self::ContainsAll(vec![part.to_owned()])
            }),
            "<all-in>" => operand.map_or(Self::Nothing, |first| {
                let parts = std::iter::once(first).chain(words);
                Self::ContainsAll(parts.map(str::to_owned).collect())
            }),
            // Every second word is an operand; the words between are skipped without a check.
            "<or>" => operand.map_or(Self::Nothing, |first| {
                let others = words.skip(1).step_by(2);
                Self::OneOf(
                    std::iter::once(first)
                        .chain(others)
                        .map(str::to_owned)
                        .collect(),
                )
            }),
            _ => Self::Equals(text.to_owned()),
        }
    }

    fn number(op: NumberOp, operand: Option<&str>) -> Self {
        operand
            .and_then(parse_float)
            .map_or(Self::Nothing, |number| Self::Number(op, number))
    }

    fn text(op: TextOp, operand: Option<&str>) -> Self {
        operand.map_or(Self::Nothing, |text| Self::Text(op, text.to_owned()))
    }

    /// Whether a value satisfies the requirement. A value that is not a number satisfies no
    /// comparison of numbers.
    #[must_use]
    pub(crate) fn is_met_by(&self, value: &str) -> bool {
        match self {
            Self::Equals(wanted) => value == wanted,
            Self::Number(op, wanted) => parse_float(value).is_some_and(|number| match op {
                NumberOp::AtLeast => number >= *wanted,
                NumberOp::Equal => number == *wanted,
                NumberOp::NotEqual => number != *wanted,
                NumberOp::AtMost => number <= *wanted,
            }),
            Self::Text(op, wanted) => match op {
                TextOp::Equal => value == wanted,
                TextOp::NotEqual => value != wanted,
                TextOp::Less => value < wanted.as_str(),
                TextOp::AtMost => value <= wanted.as_str(),
                TextOp::Greater => value > wanted.as_str(),
                TextOp::AtLeast => value >= wanted.as_str(),
            },
            Self::ContainsAll(parts) => parts.iter().all(|part| value.contains(part.as_str())),
            Self::OneOf(choices) => choices.iter().any(|choice| choice == value),
            Self::Nothing => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_mean_what_operators_of_extra_specs_mean() {
        for (requirement, value, met) in [
            ("4", "4", true),
            ("4", "4.0", false),
            ("= 4", "5", true),
            ("== 4", "4.0", true),
            ("!= 4", "5", true),
            (">= 4 ignored", "3", false),
            ("<= 4", " 4 ", true),
            (">= 4", "many", false),
            (">= many", "4", false),
            (">=", ">=", false),
            (">=4", ">=4", true),
            ("s== abc", "abc", true),
            ("s!= abc", "abd", true),
            ("s< abc", "abb", true),
            ("s<= abc", "abc", true),
            ("s> abc", "abd", true),
            ("s>= abc", "abb", false),
            ("<in> gcc", "/opt/gcc/bin", true),
            ("<all-in> aes mmx", "['aes', 'mmx']", true),
            ("<all-in> aes sse", "['aes', 'mmx']", false),
            ("<or> a <or> b", "b", true),
            ("<or> a b", "b", false),
            ("<or> a x b", "b", true),
            ("<or>", "<or>", false),
            ("", "", true),
        ] {
            let parsed = Requirement::parse(requirement);
            assert_eq!(parsed.is_met_by(value), met, "{requirement:?} of {value:?}");
        }
    }
}
