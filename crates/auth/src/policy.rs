//! Authorization: rules in oslo.policy's language, compiled once and evaluated often.
//!
//! The language, and the way in which defaults, deprecated defaults and a file are combined, are
//! those of oslo.policy (release 6). Some mistakes that oslo.policy logs and ignores are errors here,
//! so that the program does not start: references to unknown rules, circular references, rules that
//! do not parse, rules without a value. Checks that query another server (`http:`, `https:`) are errors, too.

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

/// The source of policies. The section `[policy]` of the configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// A file (YAML or JSON) with rules that override the defaults.
    pub file: Option<PathBuf>,
    /// If false, a default that replaced a deprecated default also allows what the deprecated one
    /// allowed.
    pub enforce_new_defaults: bool,
    /// Whether requests of system or domain scope are refused, as the reference always does.
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

/// The compiled rules in force.
#[derive(Debug)]
pub struct Policy {
    rules: Rules,
    enforce_scope: bool,
}

/// A caller is not allowed to do something: 403.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forbidden {
    /// The rule of the operation that was refused.
    pub rule: Rule,
    /// Why it was refused.
    pub reason: ForbiddenReason,
}

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForbiddenReason {
    /// The rule does not allow it.
    Rule,
    /// The request has system or domain scope, but the operation requires project scope.
    Scope(Scope),
}

impl fmt::Display for Forbidden {
    /// The sentence of the reference, whatever the reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy does not allow {} to be performed.", self.rule)
    }
}

impl std::error::Error for Forbidden {}

impl Policy {
    /// Reads the file of the configuration, if it names one, and compiles the rules.
    ///
    /// # Errors
    /// When the file cannot be read or is not valid; the message names each wrong rule and the position
    /// in it.
    pub fn load(config: &PolicyConfig) -> Result<(Self, Vec<PolicyWarning>), PolicyError> {
        let overrides = match &config.file {
            Some(path) => file::read(path)?,
            None => file::Overrides::default(),
        };
        Self::compile(config, &overrides)
    }

    /// As [`Policy::load`], from the text of a file; `path` is used in messages only.
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

    /// Checks whether `identity` may do on `target` what `rule` controls.
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

    /// Checks whether `identity` may do on its own project what `rule` controls, for operations whose requests
    /// name no target.
    ///
    /// # Errors
    /// [`Forbidden`] when it may not.
    pub fn authorize_own(&self, rule: Rule, identity: &Identity) -> Result<(), Forbidden> {
        self.authorize(rule, identity, &Target::own(identity))
    }

    /// Checks that the request has project scope, which every operation requires if `enforce_scope` is set.
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
