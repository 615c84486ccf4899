//! Authentication and authorization.
//!
//! Two independent parts, which share only [`Identity`]:
//!
//! * [`Authenticator`] identifies the sender of a request: by what the client claims ([`Strategy::Noauth2`]), by a
//!   password file ([`Strategy::HttpBasic`]), by a token that Keystone validates ([`Strategy::Keystone`]), or by a
//!   token that the installation issued itself ([`Strategy::Identity`]). [`Passwords`] checks passwords before such a
//!   token is issued.
//! * [`Policy`] decides whether an identity may do an operation. Its defaults are those of Placement, Nova and Glance,
//!   with rules for Placewright's own operations; a `policy.yaml` in oslo.policy's language overrides them.
//!
//! Besides, there are two clients of Keystone: [`ServiceUser`] obtains tokens for calls to other services, and
//! [`LimitsReader`] reads the limits of projects.
//!
//! The crate does not depend on an HTTP server. A request is its headers ([`Headers`]); the server
//! decides which paths need no identity.
//!
//! Invariants:
//! * No secret (password, token) appears in `Debug` output, in an error or in a log line.
//! * The caches have secrets only as keyed hashes. Only the service user's own password and token are
//!   kept in memory as they are.
//! * Every cache and queue has a bound. Invalid credentials cannot evict valid ones from a cache.
//! * A limiter admits slow checks: credentials that were verified before have priority, and addresses with many
//!   failures come last. No address is locked out for good.
//! * A loaded policy can always be evaluated: every reference resolves, and no rule is cyclic.

mod authenticator;
mod cache;
mod check_limiter;
mod config;
mod error;
mod fair_queue;
mod guess_limiter;
mod headers;
mod http_basic;
mod identity;
mod keystone;
mod noauth2;
mod own_tokens;
mod password;
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
pub use own_tokens::{CheckedToken, Refreshing, TokenCheck};
pub use password::{PasswordAttempt, PasswordConfig, Passwords};
pub use policy::{
    Forbidden, ForbiddenReason, Operation, Policy, PolicyConfig, PolicyError, PolicyWarning, Rule,
    RuleDefault, RuleProblem, Target, sample_policy,
};
pub use secret::Secret;
pub use service_limits::{LimitsError, LimitsReader, NamedLimits, ServiceLimits};
pub use service_user::{ServiceUser, TokenError};
