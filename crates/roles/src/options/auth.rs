//! The options of authentication, by strategy, and of authorization.

use std::path::PathBuf;

use super::kinds::{Addresses, AuthStrategy, Number, UserGrants};
use super::spec::section;

section! {
    /// Who is calling: how the identity of a client is found out.
    auth: AuthOptions {
        /// `noauth2` accepts the identity that the client claims (loopback only), `http_basic` checks passwords
        /// against an htpasswd file, `keystone` validates tokens with a Keystone v3 API, `identity` accepts the
        /// tokens of the installation's own identity API (docs/identity.md). Not set: `placewright up` takes
        /// `identity`.
        strategy: AuthStrategy = "noauth2";
        /// Lets `noauth2`, and control and cells without certificates, listen on an address that other machines reach.
        /// Everybody who reaches it may then do everything.
        i_know_this_is_open: bool = "false";
        /// Addresses of proxies in front of the service. Of a request that comes from one of them, `X-Forwarded-For`
        /// says from which address it really comes, and limits by address use that address.
        proxies: Addresses = "";
        /// Longest time that credentials wait for their check; then they get 503. Those of an address with too many
        /// wrong ones (`failures_burst`) wait first until the address may send another, and get 429 if that takes
        /// longer.
        #[unit("milliseconds")]
        wait_max_ms: Number<100, 600_000> = "10000";
        /// Most addresses, and names of users, whose wrong credentials are remembered.
        #[unit("addresses")]
        sources_max: Number<16, 10_000_000> = "65536";
        /// Most roles that a caller may claim to have, with `noauth2`. More get 431.
        #[unit("roles")]
        roles_max: Number<1, 10_000> = "100";
    }
}

section! {
    /// Users and passwords in a file, for `auth.strategy = "http_basic"`.
    http_basic: HttpBasicOptions {
        /// The file, as `htpasswd -B` writes it: lines `user:hash`, bcrypt only. A changed file is read again; while
        /// it is not valid, the users of the last valid file stay.
        user_file: Option<PathBuf> = "";
        /// What a browser shows when it asks for the password.
        realm: String = "Placement";
        /// The roles of users that `users` does not name.
        roles: Vec<String> = "admin,service";
        /// The project of users that `users` does not name. Not set: each of them has a project of its own, whose ID
        /// is made of the user's name.
        project_id: Option<String> = "";
        /// Users with roles or a project of their own. Without `@PROJECT_ID` the user has a project that no other user
        /// has, and whose ID is made of the user's name.
        users: UserGrants = "";
        /// For how long a password that was right is accepted without the slow check. A change of the user's line in
        /// the file ends this at once.
        #[unit("seconds")]
        cache_seconds: Number<0, 86_400> = "300";
        /// Most users whose last right password is remembered.
        #[unit("users")]
        cache_entries: Number<1, 1_000_000> = "1024";
        /// How often the file is checked for changes.
        #[unit("milliseconds")]
        reload_check_ms: Number<10, 86_400_000> = "1000";
        /// Most passwords that are checked at the same time. Each check keeps a processor busy for 0.05
        /// to 1 s. 0: half as many as there are processors.
        #[unit("checks")]
        checks_max: Number<0, 1_024> = "0";
        /// Most passwords that wait for their check, for each of three kinds of callers: those that were authenticated
        /// before, new ones, and those that often sent wrong passwords. A further password gets 503.
        #[unit("passwords")]
        waiting_max: Number<1, 100_000> = "256";
        /// Most passwords of one address that wait for their check. A further one gets 429.
        #[unit("passwords")]
        waiting_per_source_max: Number<1, 100_000> = "64";
        /// How many wrong passwords may come from one address at once. Further ones wait, behind those of others.
        /// Passwords that were right before are not delayed.
        #[unit("passwords")]
        failures_burst: Number<1, 1_000_000> = "10";
        /// How many wrong passwords may come from one address in a minute, after `failures_burst`.
        #[unit("passwords a minute")]
        failures_per_minute: Number<1, 60_000> = "60";
    }
}

section! {
    /// The Keystone that validates tokens, and the service user with which it is called, for `auth.strategy =
    /// "keystone"`.
    keystone: KeystoneOptions {
        /// Keystone's address, as `https://keystone.example.org:5000/v3`; `/v3` may be left out.
        auth_url: Option<String> = "";
        /// The address to which callers without a token are referred. Not set: `auth_url`.
        www_authenticate_uri: Option<String> = "";
        /// The name of the service user.
        username: Option<String> = "";
        /// The service user's password. Better: `password_file`.
        #[secret(true)]
        password: Option<String> = "";
        /// A file with the service user's password in its first line.
        password_file: Option<PathBuf> = "";
        /// The name of the service user's domain.
        user_domain_name: String = "Default";
        /// The service user's project. Not set: its token has system scope.
        project_name: Option<String> = "service";
        /// The name of the domain of the service user's project.
        project_domain_name: String = "Default";
        /// Authorities (PEM) of which one must have signed Keystone's certificate, instead of the system's.
        cafile: Option<PathBuf> = "";
        /// For how long a token that Keystone validated is accepted without another request. A revoked token may be
        /// accepted for so long. 0: always request.
        #[unit("seconds")]
        cache_seconds: Number<0, 86_400> = "300";
        /// For how long a refused token is refused without another request.
        #[unit("seconds")]
        negative_cache_seconds: Number<0, 86_400> = "10";
        /// Most validated tokens that are remembered.
        #[unit("tokens")]
        cache_entries: Number<1, 10_000_000> = "10000";
        /// Most refused tokens that are remembered.
        #[unit("tokens")]
        negative_cache_entries: Number<1, 10_000_000> = "1024";
        /// Roles of which a service token must have one.
        service_token_roles: Vec<String> = "service";
        /// Whether a service token without such a role is refused.
        service_token_roles_required: bool = "true";
        /// Longest time for connecting to Keystone.
        #[unit("milliseconds")]
        connect_timeout_ms: Number<10, 600_000> = "5000";
        /// Longest time for an answer of Keystone.
        #[unit("milliseconds")]
        request_timeout_ms: Number<10, 600_000> = "10000";
        /// Most requests to Keystone at the same time. Further ones wait.
        #[unit("requests")]
        requests_max: Number<1, 10_000> = "64";
        /// Most tokens that wait to be validated, for each of three kinds of callers: those that were authenticated
        /// before, new ones, and those that often sent wrong tokens. A further token gets 503.
        #[unit("tokens")]
        waiting_max: Number<1, 100_000> = "1024";
        /// Most tokens of one address that wait to be validated. A further token gets 429.
        #[unit("tokens")]
        waiting_per_source_max: Number<1, 100_000> = "512";
        /// How many wrong tokens may come from one address at once. Further ones wait, behind those of others. Tokens
        /// that were valid before are not delayed.
        #[unit("tokens")]
        failures_burst: Number<1, 1_000_000> = "256";
        /// How many wrong tokens may come from one address in a minute, after `failures_burst`.
        #[unit("tokens a minute")]
        failures_per_minute: Number<1, 60_000> = "600";
    }
}

section! {
    /// Policies: what a caller may do, in oslo.policy's language.
    policy: PolicyOptions {
        /// A `policy.yaml` that overrides the default rules; `placewright policy sample` prints one.
        file: Option<PathBuf> = "";
        /// Whether only the new default rules apply, without the deprecated rules beside them.
        enforce_new_defaults: bool = "true";
        /// Whether a token of the wrong scope (system, domain) is refused.
        enforce_scope: bool = "true";
    }
}
