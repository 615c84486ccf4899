//! The options of authentication.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::secret::Secret;

/// How callers are authenticated. It can be read from TOML:
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
    /// The strategy of authentication.
    pub strategy: Strategy,
    /// Limits that apply to every strategy.
    pub limits: LimitsConfig,
    /// Options of [`Strategy::HttpBasic`], ignored by the other strategies.
    pub http_basic: HttpBasicConfig,
    /// Options of [`Strategy::Keystone`], ignored by the other strategies.
    pub keystone: KeystoneConfig,
}

/// Limits that apply to every strategy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Proxies whose `X-Forwarded-For` is trusted to name the client.
    pub proxies: Vec<IpAddr>,
    /// The longest time that credentials wait for their check, in milliseconds. Those of an address with too many
    /// failures first wait until the address may fail again; they are refused if that takes longer than this time.
    pub wait_max_ms: u64,
    /// The maximum number of addresses and user names whose failures are recorded.
    pub sources_max: usize,
    /// The maximum number of roles that a caller may claim (`noauth2`).
    pub roles_max: usize,
}

impl LimitsConfig {
    /// [`Self::wait_max_ms`] as a duration.
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

/// The strategies of authentication.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The caller's claims are accepted without a check. For tests and for a single trusted machine.
    #[default]
    Noauth2,
    /// A user and a password, checked against an htpasswd file.
    HttpBasic,
    /// A token, checked with a Keystone v3 API.
    Keystone,
    /// A token of the installation's own, checked in the process.
    Identity,
}

impl Strategy {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Noauth2 => "noauth2",
            Self::HttpBasic => "http_basic",
            Self::Keystone => "keystone",
            Self::Identity => "identity",
        }
    }

    /// Whether claims are accepted without a check, so that the service should listen on loopback only.
    pub fn requires_loopback(self) -> bool {
        match self {
            Self::Noauth2 => true,
            Self::HttpBasic | Self::Keystone | Self::Identity => false,
        }
    }
}

/// Options of `http_basic`: users and passwords in a file that `htpasswd -B` writes.
///
/// The file does not contain roles. Its users are services or operators, so the roles are `admin`
/// and `service` unless `roles` or `users` say otherwise.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpBasicConfig {
    /// The file: lines `user:hash`, bcrypt only. It is reloaded when it changes; if the changed
    /// file is invalid, that is logged as an error and the previous users stay.
    pub user_file: Option<PathBuf>,
    /// The realm that a browser shows when it asks for the password.
    pub realm: String,
    /// The roles of users that are not in `users`.
    pub roles: Vec<String>,
    /// The common project of users that are not in `users`; without it each of them has a project
    /// of its own.
    pub project_id: Option<String>,
    /// Users with roles or a project of their own, by name.
    pub users: BTreeMap<String, HttpBasicUser>,
    /// How long a verified password is accepted without another slow check, in seconds. A change
    /// of the user's line in the file invalidates it at once.
    pub cache_seconds: u64,
    /// The maximum number of users whose last verified password is cached.
    pub cache_entries: usize,
    /// The maximum number of concurrent checks; 0 means half the number of processors.
    pub checks_max: usize,
    /// The maximum number of passwords that wait to be checked, in each priority class.
    pub waiting_max: usize,
    /// The maximum number of passwords of one address that wait to be checked.
    pub waiting_per_source_max: usize,
    /// The number of wrong passwords that an address may send in a burst.
    pub failures_burst: u32,
    /// The number of wrong passwords that an address may send each minute after that.
    pub failures_per_minute: u32,
    /// The interval of checking the file for changes, in milliseconds.
    pub reload_check_ms: u64,
}

/// A user of [`HttpBasicConfig`] with roles or a project of its own.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpBasicUser {
    /// The roles, in place of the common ones.
    pub roles: Vec<String>,
    /// The project; without it the user has a project of its own.
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

/// A Keystone that validates tokens, and the service user that queries it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeystoneConfig {
    /// The address of Keystone, such as `https://keystone.example.org:5000/v3`; `/v3` may be
    /// omitted.
    pub auth_url: String,
    /// The address of Keystone in the `WWW-Authenticate` header of refusals; `auth_url` if empty.
    pub www_authenticate_uri: String,
    /// The name of the service user.
    pub username: String,
    /// The password of the service user; `password_file` is preferable.
    pub password: Secret,
    /// A file with the service user's password in its first line.
    pub password_file: Option<PathBuf>,
    /// The name of the service user's domain.
    pub user_domain_name: String,
    /// The project of the service user. If empty, its token has system scope.
    pub project_name: String,
    /// The name of that project's domain.
    pub project_domain_name: String,
    /// A file (PEM) with the authorities that may sign Keystone's certificate, in place of the
    /// system's.
    pub cafile: Option<PathBuf>,
    /// How long a validated token is accepted without validating it again, in seconds. A revoked
    /// token may be accepted for this time. 0 means to validate it for each request.
    pub cache_seconds: u64,
    /// How long a rejected token is rejected without validating it again, in seconds.
    pub negative_cache_seconds: u64,
    /// The maximum number of validated tokens in the cache.
    pub cache_entries: usize,
    /// The maximum number of rejected tokens in the cache.
    pub negative_cache_entries: usize,
    /// Roles of which a service token must have at least one.
    pub service_token_roles: Vec<String>,
    /// Whether a service token with none of `service_token_roles` is rejected. A user's expired token is never accepted
    /// with such a service token.
    pub service_token_roles_required: bool,
    /// The time limit for connecting to Keystone, in milliseconds.
    pub connect_timeout_ms: u64,
    /// The time limit for a response of Keystone, in milliseconds.
    pub request_timeout_ms: u64,
    /// The maximum number of concurrent requests to Keystone; further ones wait.
    pub requests_max: usize,
    /// The maximum number of tokens that wait for validation, in each priority class.
    pub waiting_max: usize,
    /// The maximum number of tokens of one address that wait for validation.
    pub waiting_per_source_max: usize,
    /// The number of wrong tokens that an address may send in a burst.
    pub failures_burst: u32,
    /// The number of wrong tokens that an address may send each minute after that.
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
