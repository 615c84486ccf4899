//! Errors in a request, and warnings about it.

use std::borrow::Cow;

use thiserror::Error;

/// A request that no host can serve because it is contradictory or invalid.
///
/// Every variant names the field as a caller would write it, such as
/// `flavor.extra_specs["hw:cpu_policy"]`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadRequest {
    /// The value is not one of those allowed.
    #[error("{field}: {value:?} is not one of {}", allowed.join(", "))]
    NotAllowed {
        /// The field with the wrong value.
        field: String,
        /// The value as the request has it.
        value: String,
        /// All values that are allowed.
        allowed: &'static [&'static str],
    },
    /// The value does not parse.
    #[error("{field}: {value:?} is not {expected}")]
    Malformed {
        /// The field with the wrong value.
        field: String,
        /// The value as the request has it.
        value: String,
        /// A description of the expected form, for the message.
        expected: &'static str,
    },
    /// Two fields contradict each other.
    #[error("{field} contradicts {other}: {reason}")]
    Conflict {
        /// The field that the error is reported for.
        field: String,
        /// The field that `field` contradicts.
        other: String,
        /// Why both cannot hold.
        reason: Cow<'static, str>,
    },
    /// A field is missing that another one requires.
    #[error("{field} is missing: {reason}")]
    Missing {
        /// The field that is missing, as the request would name it.
        field: String,
        /// Why the field is required, for the message.
        reason: Cow<'static, str>,
    },
    /// The value parses but breaks a rule.
    #[error("{field}: {reason}")]
    Invalid {
        /// The field with the wrong value.
        field: String,
        /// The rule that the value breaks, for the message.
        reason: Cow<'static, str>,
    },
}

impl BadRequest {
    /// The field that the error is reported for, as a caller would write it.
    #[must_use]
    pub fn field(&self) -> &str {
        match self {
            Self::NotAllowed { field, .. }
            | Self::Malformed { field, .. }
            | Self::Conflict { field, .. }
            | Self::Missing { field, .. }
            | Self::Invalid { field, .. } => field,
        }
    }

    /// An error for two fields that contradict each other. It is reported for the first.
    pub fn conflict(
        field: impl Into<String>,
        other: impl Into<String>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Conflict {
            field: field.into(),
            other: other.into(),
            reason: reason.into(),
        }
    }

    /// An error for a missing field that another one requires.
    pub fn missing(field: impl Into<String>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Missing {
            field: field.into(),
            reason: reason.into(),
        }
    }

    /// An error for a value that breaks a rule.
    pub fn invalid(field: impl Into<String>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid {
            field: field.into(),
            reason: reason.into(),
        }
    }

    /// An error for a value that is not of the expected form.
    pub fn malformed(
        field: impl Into<String>,
        value: impl Into<String>,
        expected: &'static str,
    ) -> Self {
        Self::Malformed {
            field: field.into(),
            value: value.into(),
            expected,
        }
    }
}

/// A part of a request that is ignored, although its author may expect an effect.
///
/// Requests are never refused because of warnings, which are part of the response.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Warning {
    /// Neither a standard resource class nor a custom one.
    #[error("{field} is ignored: there is no resource class {class:?}")]
    UnknownResourceClass {
        /// The field that is ignored.
        field: String,
        /// The name that no resource class has.
        class: String,
    },
    /// An amount that is not a whole number of at least 0.
    #[error("{field} is ignored: {value:?} is not a whole number of at least 0")]
    BadAmount {
        /// The field that is ignored.
        field: String,
        /// The value as the request has it.
        value: String,
    },
    /// The value of a trait is neither `required` nor `forbidden`.
    #[error("{field} is ignored: {value:?} is neither \"required\" nor \"forbidden\"")]
    BadTraitValue {
        /// The field that is ignored.
        field: String,
        /// The value as the request has it.
        value: String,
    },
    /// A group policy that does not exist.
    #[error("{field} is ignored: {value:?} is neither \"none\" nor \"isolate\"")]
    BadGroupPolicy {
        /// The field that is ignored.
        field: String,
        /// The value as the request has it.
        value: String,
    },
    /// An image property that no standard trait expresses, so that no host is required to have it.
    #[error("{field} is ignored: there is no standard trait {name}")]
    NoSuchTrait {
        /// The field that is ignored.
        field: String,
        /// The trait that would express the property.
        name: String,
    },
    /// A property that has an effect only for guests with UEFI firmware.
    #[error("{field} is ignored: the image's hw_firmware_type is not \"uefi\"")]
    NeedsUefi {
        /// The field that is ignored.
        field: String,
    },
}
