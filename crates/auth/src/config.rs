//! What an operator can choose about authentication.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::secret::Secret;

/// How callers are known. The section `[auth]` of the configuration.
///
/// ```toml
/// [auth]
/// strategy = "keystone"
/// [auth.keystone]
/// auth_url = "https://keystone.example.org:5000/v3"
/// username = "placement"
/// password_file = "/etc/placewright/keystone-password"
/// ```
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthConfig {
    /// The way to know a caller.
    pub strategy: Strategy,
    /// What is common to all of them.
    pub limits: LimitsConfig,
    /// For [`Strategy::HttpBasic`].
    pub http_basic: HttpBasicConfig,
    /// For [`Strategy::Keystone`].
    pub keystone: KeystoneConfig,
}

/// Limits that hold whatever the strategy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Proxies whose `X-Forwarded-For` says where a request comes from.
    pub proxies: Vec<IpAddr>,
    /// Longest time that credentials wait for their check, in milliseconds.
    pub wait_max_ms: u64,
    /// Most addresses and names whose wrong credentials are remembered.
    pub sources_max: usize,
    /// Most roles that a caller may claim to have (`noauth2`).
    pub roles_max: usize,
}

impl LimitsConfig {
    /// Longest time that credentials wait for their check.
    pub(crate) fn wait_max(&self) -> Duration {
        Duration::from_millis(self.wait_max_ms)
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            proxies: Vec::new(),
            wait_max_ms: 10_000,
            sources_max: 65_536,
            roles_max: 100,
        }
    }
}

/// The ways to know a caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The caller is believed. For tests and for one trusted machine.
    #[default]
    Noauth2,
    /// A user and a password, checked against an htpasswd file.
    HttpBasic,
    /// A token, checked with a Keystone v3 API.
    Keystone,
}

impl Strategy {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Noauth2 => "noauth2",
            Self::HttpBasic => "http_basic",
            Self::Keystone => "keystone",
        }
    }

    /// Whether whoever reaches the service can be anybody, so that it should listen on loopback only.
    pub fn requires_loopback(self) -> bool {
        match self {
            Self::Noauth2 => true,
            Self::HttpBasic | Self::Keystone => false,
        }
    }
}

/// Users and passwords in a file that `htpasswd -B` writes.
///
/// The file says nothing about roles. Whoever has a password here is a service or an operator, so
/// the roles are `admin` and `service` unless `roles` or `users` say otherwise.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpBasicConfig {
    /// The file: lines `user:hash`, bcrypt only. A changed file is read again; a changed file that
    /// is wrong is logged as an error and the users of the last good one stay.
    pub user_file: Option<PathBuf>,
    /// What a browser shows when it asks for the password.
    pub realm: String,
    /// The roles of users that `users` does not name.
    pub roles: Vec<String>,
    /// The project of users that `users` does not name. They share it; without it each of them has a
    /// project of its own.
    pub project_id: Option<String>,
    /// Users with roles or a project of their own, by name.
    pub users: BTreeMap<String, HttpBasicUser>,
    /// For how long a password that was right is taken without the slow check, in seconds. A change
    /// of the user's line in the file ends it at once.
    pub cache_seconds: u64,
    /// Most users whose last right password is remembered.
    pub cache_entries: usize,
    /// Most passwords that are checked at the same time; 0: half as many as there are processors.
    pub checks_max: usize,
    /// Most passwords that wait for their check, of each kind of caller.
    pub waiting_max: usize,
    /// Most passwords of one address that wait for their check.
    pub waiting_per_source_max: usize,
    /// How many wrong passwords may come from one address at once.
    pub failures_burst: u32,
    /// How many wrong passwords may come from one address in a minute after that.
    pub failures_per_minute: u32,
    /// How often the file is looked at for changes, in milliseconds.
    pub reload_check_ms: u64,
}

/// A user of [`HttpBasicConfig`] with roles or a project of its own.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpBasicUser {
    /// The roles, instead of the common ones.
    pub roles: Vec<String>,
    /// The project; without it one of the user's own.
    #[serde(default)]
    pub project_id: Option<String>,
}

impl Default for HttpBasicConfig {
    fn default() -> Self {
        Self {
            user_file: None,
            realm: "Placement".to_owned(),
            roles: vec!["admin".to_owned(), "service".to_owned()],
            project_id: None,
            users: BTreeMap::new(),
            cache_seconds: 300,
            cache_entries: 1024,
            checks_max: 0,
            waiting_max: 256,
            waiting_per_source_max: 64,
            failures_burst: 10,
            failures_per_minute: 60,
            reload_check_ms: 1000,
        }
    }
}

/// A Keystone that vouches for tokens, and the service user that asks it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeystoneConfig {
    /// Keystone's address, as `https://keystone.example.org:5000/v3`; `/v3` may be left out.
    pub auth_url: String,
    /// The address that callers without a token are pointed to; `auth_url` when empty.
    pub www_authenticate_uri: String,
    /// The service user.
    pub username: String,
    /// The service user's password. Better: `password_file`.
    pub password: Secret,
    /// A file with the service user's password in its first line.
    pub password_file: Option<PathBuf>,
    /// The name of the service user's domain.
    pub user_domain_name: String,
    /// The service user's project. Empty: the service user's token has system scope.
    pub project_name: String,
    /// The name of that project's domain.
    pub project_domain_name: String,
    /// Certificates (PEM) that Keystone's must be signed by, instead of the system's.
    pub cafile: Option<PathBuf>,
    /// For how long a token that Keystone vouched for is taken without asking again, in seconds. A
    /// revoked token may live on for so long. 0: always ask.
    pub cache_seconds: u64,
    /// For how long a refused token is refused without asking again, in seconds.
    pub negative_cache_seconds: u64,
    /// Most tokens remembered that Keystone vouched for.
    pub cache_entries: usize,
    /// Most refused tokens remembered.
    pub negative_cache_entries: usize,
    /// Roles of which a service token must have one.
    pub service_token_roles: Vec<String>,
    /// Whether a service token without such a role is refused. It can never revive expired tokens.
    pub service_token_roles_required: bool,
    /// Longest time for a connection to Keystone, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Longest time for an answer of Keystone, in milliseconds.
    pub request_timeout_ms: u64,
    /// Most questions to Keystone at the same time. Further ones wait.
    pub requests_max: usize,
    /// Most tokens that wait for a question, of each kind of caller.
    pub waiting_max: usize,
    /// Most tokens of one address that wait for a question.
    pub waiting_per_source_max: usize,
    /// How many wrong tokens may come from one address at once.
    pub failures_burst: u32,
    /// How many wrong tokens may come from one address in a minute after that.
    pub failures_per_minute: u32,
}

impl Default for KeystoneConfig {
    fn default() -> Self {
        Self {
            auth_url: String::new(),
            www_authenticate_uri: String::new(),
            username: String::new(),
            password: Secret::default(),
            password_file: None,
            user_domain_name: "Default".to_owned(),
            project_name: "service".to_owned(),
            project_domain_name: "Default".to_owned(),
            cafile: None,
            cache_seconds: 300,
            negative_cache_seconds: 10,
            cache_entries: 10_000,
            negative_cache_entries: 1_024,
            service_token_roles: vec!["service".to_owned()],
            service_token_roles_required: true,
            connect_timeout_ms: 5_000,
            request_timeout_ms: 10_000,
            requests_max: 64,
            waiting_max: 1_024,
            waiting_per_source_max: 512,
            failures_burst: 256,
            failures_per_minute: 600,
        }
    }
}
