//! What a caller may do: rules in oslo.policy's language, compiled once and checked often.
//!
//! The language and the way defaults, deprecated defaults and a file combine are oslo.policy's (as of
//! its release 6). Where that logs a mistake and carries on, this refuses to start: unknown rules in
//! a reference, references in a circle, rules that cannot be read, rules without a value. Checks that
//! ask another server (`http:`, `https:`) are refused too.

mod check;
mod compile;
mod credential;
mod error;
mod file;
mod parse;
mod rules;
mod sample;
mod target;
mod template;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::identity::{Identity, Scope};
use compile::Rules;

pub use error::{PolicyError, PolicyWarning, RuleProblem};
pub use rules::{Operation, Rule, RuleDefault};
pub use sample::sample_policy;
pub use target::Target;

/// Where policies come from. The section `[policy]` of the configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// A file (YAML or JSON) with rules that override the defaults.
    pub file: Option<PathBuf>,
    /// Off: a default that replaced an older one also allows what that one allowed.
    pub enforce_new_defaults: bool,
    /// Whether a request of system or domain scope is refused. The reference always does.
    pub enforce_scope: bool,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            file: None,
            enforce_new_defaults: true,
            enforce_scope: true,
        }
    }
}

/// The rules in force.
#[derive(Debug)]
pub struct Policy {
    rules: Rules,
    enforce_scope: bool,
}

/// A caller may not do that: 403.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forbidden {
    /// The operation.
    pub rule: Rule,
    /// Why.
    pub reason: ForbiddenReason,
}

/// Why a caller may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForbiddenReason {
    /// The rule says no.
    Rule,
    /// The request is made for the system or a domain, and the operation is for projects.
    Scope(Scope),
}

impl fmt::Display for Forbidden {
    /// The reference's sentence, whatever the reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy does not allow {} to be performed.", self.rule)
    }
}

impl std::error::Error for Forbidden {}

impl Policy {
    /// Reads the file of the configuration, if it names one, and compiles the rules.
    ///
    /// # Errors
    /// When the file cannot be read or what it says cannot work; the message names each rule that
    /// is wrong and the place in it.
    pub fn load(config: &PolicyConfig) -> Result<(Self, Vec<PolicyWarning>), PolicyError> {
        let overrides = match &config.file {
            Some(path) => file::read(path)?,
            None => file::Overrides::default(),
        };
        Self::compile(config, &overrides)
    }

    /// The same from the text of a file; `path` is for messages only.
    ///
    /// # Errors
    /// As [`Policy::load`].
    pub fn from_text(
        config: &PolicyConfig,
        path: &Path,
        text: &str,
    ) -> Result<(Self, Vec<PolicyWarning>), PolicyError> {
        Self::compile(config, &file::parse(path, text)?)
    }

    fn compile(
        config: &PolicyConfig,
        overrides: &file::Overrides,
    ) -> Result<(Self, Vec<PolicyWarning>), PolicyError> {
        let (rules, warnings) = compile::compile(overrides, config.enforce_new_defaults)?;
        Ok((
            Self {
                rules,
                enforce_scope: config.enforce_scope,
            },
            warnings,
        ))
    }

    /// Asks whether `identity` may do `rule` to `target`.
    ///
    /// The target of most operations is [`Target::own`]; see [`Policy::authorize_own`].
    ///
    /// # Errors
    /// [`Forbidden`] when it may not.
    pub fn authorize(
        &self,
        rule: Rule,
        identity: &Identity,
        target: &Target<'_>,
    ) -> Result<(), Forbidden> {
        self.check_scope(rule, identity)?;
        if self.rules.check(rule, identity, target) {
            Ok(())
        } else {
            Err(Forbidden {
                rule,
                reason: ForbiddenReason::Rule,
            })
        }
    }

    /// Asks whether `identity` may do `rule`, an operation whose target nothing in the request names.
    ///
    /// # Errors
    /// [`Forbidden`] when it may not.
    pub fn authorize_own(&self, rule: Rule, identity: &Identity) -> Result<(), Forbidden> {
        self.authorize(rule, identity, &Target::own(identity))
    }

    /// All operations are for project scope only.
    fn check_scope(&self, rule: Rule, identity: &Identity) -> Result<(), Forbidden> {
        match identity.scope() {
            Scope::Project => Ok(()),
            Scope::System | Scope::Domain if !self.enforce_scope => Ok(()),
            scope @ (Scope::System | Scope::Domain) => Err(Forbidden {
                rule,
                reason: ForbiddenReason::Scope(scope),
            }),
        }
    }
}
