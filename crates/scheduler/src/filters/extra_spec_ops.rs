//! The operators of extra specs, which constrain a host's value: `>= 4`, `<or> a <or> b`.

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
    /// The value contains all of the texts.
    ContainsAll(Vec<String>),
    /// The value is one of the texts.
    OneOf(Vec<String>),
    /// Never satisfied: the operand is missing, or is not the number that the operator needs.
    Unsatisfiable,
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
    /// Parses a requirement. Every text is valid; one that no value satisfies is
    /// [`Requirement::Unsatisfiable`].
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
            "<in>" => operand.map_or(Self::Unsatisfiable, |part| {
                Self::ContainsAll(vec![part.to_owned()])
            }),
            "<all-in>" => operand.map_or(Self::Unsatisfiable, |first_operand| {
                let parts = std::iter::once(first_operand).chain(words);
                Self::ContainsAll(parts.map(str::to_owned).collect())
            }),
            // Every second word is an operand; the words between are skipped without a check.
            "<or>" => operand.map_or(Self::Unsatisfiable, |first_operand| {
                let other_operands = words.skip(1).step_by(2);
                Self::OneOf(
                    std::iter::once(first_operand)
                        .chain(other_operands)
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
            .map_or(Self::Unsatisfiable, |number| Self::Number(op, number))
    }

    fn text(op: TextOp, operand: Option<&str>) -> Self {
        operand.map_or(Self::Unsatisfiable, |text| Self::Text(op, text.to_owned()))
    }

    /// Whether a value satisfies the requirement. A value that is not a number satisfies no
    /// comparison of numbers.
    #[must_use]
    pub(crate) fn is_met_by(&self, value: &str) -> bool {
        match self {
            Self::Equals(operand) => value == operand,
            Self::Number(op, operand) => parse_float(value).is_some_and(|number| match op {
                NumberOp::AtLeast => number >= *operand,
                NumberOp::Equal => number == *operand,
                NumberOp::NotEqual => number != *operand,
                NumberOp::AtMost => number <= *operand,
            }),
            Self::Text(op, operand) => match op {
                TextOp::Equal => value == operand,
                TextOp::NotEqual => value != operand,
                TextOp::Less => value < operand.as_str(),
                TextOp::AtMost => value <= operand.as_str(),
                TextOp::Greater => value > operand.as_str(),
                TextOp::AtLeast => value >= operand.as_str(),
            },
            Self::ContainsAll(parts) => parts.iter().all(|part| value.contains(part.as_str())),
            Self::OneOf(texts) => texts.iter().any(|choice| choice == value),
            Self::Unsatisfiable => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_compare_as_nova_documents() {
        for (requirement, value, is_met) in [
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
            assert_eq!(
                parsed.is_met_by(value),
                is_met,
                "{requirement:?} of {value:?}"
            );
        }
    }
}
