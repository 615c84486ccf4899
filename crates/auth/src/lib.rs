//! Who is calling, and what they may do.
//!
//! Two halves that know nothing of each other but [`Identity`]:
//!
//! * [`Authenticator`] finds out who sends a request: from what the client claims
//!   ([`Strategy::Noauth2`]), from a password file ([`Strategy::HttpBasic`]) or from a token that
//!   Keystone vouches for ([`Strategy::Keystone`]).
//! * [`Policy`] decides whether an identity may do an operation. Its defaults are Placement's; a
//!   `policy.yaml` in oslo.policy's language overrides them.
//!
//! The crate knows no HTTP server. A request is its headers ([`Headers`]); which paths need no
//! identity at all is the server's affair.
//!
//! Invariants:
//! * No secret (password, token) appears in `Debug` output, in an error or in a log line.
//! * Secrets are kept only as keyed hashes in the caches; the service user's own password and token
//!   are the exception.
//! * Every cache and queue has a bound. Callers cannot push good entries out with bad ones.
//! * Slow checks go through a limiter: credentials that were verified before go first, and
//!   addresses that guess wait behind all others. No address is locked out.
//! * A policy that was loaded can be evaluated: every reference resolves, nothing is cyclic.

mod authenticator;
mod cache;
mod check_limiter;
mod config;
mod error;
mod fair_queue;
mod headers;
mod http_basic;
mod identity;
mod keystone;
mod noauth2;
mod policy;
mod secret;
mod service_limits;
mod service_user;
mod single_flight;
mod source;

pub use authenticator::Authenticator;
pub use config::{
    AuthConfig, HttpBasicConfig, HttpBasicUser, KeystoneConfig, LimitsConfig, Strategy,
};
pub use error::{AuthError, SetupError};
pub use headers::Headers;
pub use identity::{Identity, IdentityParts, Scope, ServiceIdentity};
pub use policy::{
    Forbidden, ForbiddenReason, Operation, Policy, PolicyConfig, PolicyError, PolicyWarning, Rule,
    RuleDefault, RuleProblem, Target, sample_policy,
};
pub use secret::Secret;
pub use service_limits::{LimitsReader, NamedLimits, NoLimits, ServiceLimits};
pub use service_user::{NoToken, ServiceUser};
