//! Converts options into the option types of each crate.

use std::time::Duration;

use placewright_api_image::ImageOptions;
use placewright_api_placement::{CandidateOptions, PlacementOptions};
use placewright_api_scheduler::KeepOptions;
use placewright_auth::{
    AuthConfig, HttpBasicConfig, HttpBasicUser, KeystoneConfig, LimitsConfig, PasswordConfig,
    PolicyConfig, Secret, Strategy,
};
use placewright_http::{AdmissionOptions, Cors, HttpOptions};
use placewright_journal::SqliteOptions;
use placewright_net::{HandshakeLimits, Limits};
use placewright_rpc::ServeOptions;

use crate::options::{AuthStrategy, CandidateStrategy, Number, Options};

/// The options that the REST services share.
pub(super) fn http(options: &Options) -> HttpOptions {
    let placement = &options.placement;
    let cors = &options.cors;
    HttpOptions {
        connections_max: placement.connections_max.count(),
        connections_per_peer_max: placement.connections_per_peer_max.count(),
        body_bytes_max: placement.body_bytes_max.count(),
        head_bytes_max: placement.head_bytes_max.count(),
        first_byte_timeout: milliseconds(placement.first_byte_timeout_ms),
        keep_alive_timeout: milliseconds(placement.keep_alive_timeout_ms),
        head_timeout: milliseconds(placement.head_timeout_ms),
        body_timeout: milliseconds(placement.body_timeout_ms),
        write_timeout: milliseconds(placement.write_timeout_ms),
        drain_timeout: milliseconds(placement.drain_timeout_ms),
        hand_over_timeout: milliseconds(placement.hand_over_timeout_ms),
        metrics_on_apis: options.health.metrics_on_apis,
        cors: (!cors.allowed_origins.is_empty()).then(|| Cors {
            allowed_origins: cors.allowed_origins.clone(),
            allow_credentials: cors.allow_credentials,
            expose_headers: cors.expose_headers.clone(),
            max_age_s: u32::try_from(cors.max_age_s.get()).unwrap_or(u32::MAX),
            allow_methods: cors.allow_methods.clone(),
            allow_headers: cors.allow_headers.clone(),
        }),
        answer_bytes_max: placement.answer_bytes_max.count(),
        answers_bytes_max: placement.answers_bytes_max.count(),
        bodies_bytes_max: placement.bodies_bytes_max.count(),
    }
}

/// The options of admission control.
pub(super) fn admission(options: &Options) -> AdmissionOptions {
    let admission = &options.admission;
    AdmissionOptions {
        is_enabled: admission.enabled,
        operator_seats: admission.operator_seats.count(),
        tenant_seats: admission.tenant_seats.count(),
        tenant_costly_seats: admission.tenant_costly_seats.count(),
        queue_max: admission.queue_max.count(),
        queue_time: milliseconds(admission.queue_time_ms),
        ..AdmissionOptions::default()
    }
}

/// The limits of TLS handshakes.
pub(crate) fn handshakes(options: &Options) -> HandshakeLimits {
    let tls = &options.tls;
    HandshakeLimits {
        total: tls.handshakes_max.count(),
        per_peer: tls.handshakes_per_peer_max.count(),
        timeout: milliseconds(tls.handshake_timeout_ms),
    }
}

/// The interval at which files are checked for changes.
pub(super) fn reload_check(options: &Options) -> Duration {
    milliseconds(options.tls.reload_check_ms)
}

/// The options of the Placement API.
pub(super) fn placement(options: &Options) -> PlacementOptions {
    let placement = &options.placement;
    PlacementOptions {
        followers_max: placement.followers_max.count(),
        incomplete_consumer_project_id: placement.incomplete_consumer_project_id.clone(),
        incomplete_consumer_user_id: placement.incomplete_consumer_user_id.clone(),
        candidates: CandidateOptions {
            randomize: placement.randomize_allocation_candidates,
            candidates_max: limit(placement.max_allocation_candidates),
            breadth_first: match placement.allocation_candidates_generation_strategy {
                CandidateStrategy::DepthFirst => false,
                CandidateStrategy::BreadthFirst => true,
            },
        },
        entries_max: placement.entries_max.count(),
        groups_max: placement.groups_max.count(),
    }
}

/// The options of the image API.
pub(super) fn image(options: &Options) -> ImageOptions {
    let image = &options.image;
    ImageOptions {
        public_url: image.public_url.clone(),
        limits: placewright_api_image::Limits {
            images_max: u64_or_zero(image.images_max),
            project_bytes_max: u64_or_zero(image.project_bytes_max),
            image_bytes_max: u64_or_zero(image.image_bytes_max),
            free_bytes_min: u64_or_zero(image.free_bytes_min),
            transfers_max: image.transfers_max.count(),
        },
    }
}

/// The options of control's gRPC server for cells.
pub(crate) fn grpc_for_cells(options: &Options, limits: Limits) -> ServeOptions {
    let timeout = milliseconds(options.control.first_call_timeout_ms);
    ServeOptions {
        limits,
        first_call_timeout: timeout,
        // The description of `control.first_call_timeout_ms` promises a third.
        first_byte_timeout: timeout / 3,
        ..ServeOptions::default()
    }
}

/// The options of a cell's gRPC server for agents and control.
pub(crate) fn grpc_of_cell(options: &Options, limits: Limits) -> ServeOptions {
    let timeout = milliseconds(options.cell.first_call_timeout_ms);
    ServeOptions {
        limits,
        first_call_timeout: timeout,
        // The description of `cell.first_call_timeout_ms` promises a third.
        first_byte_timeout: timeout / 3,
        ..ServeOptions::default()
    }
}

/// How many offered candidates the scheduler API keeps for later claims, and for how long.
pub(super) fn candidate_retention(options: &Options) -> KeepOptions {
    KeepOptions {
        candidates_max: options.scheduler.candidates_kept_max.count(),
        time: milliseconds(options.scheduler.candidates_kept_ms),
    }
}

/// The options of the conductor's runtime.
pub(super) fn conductor(options: &Options) -> placewright_control::Options {
    let control = &options.control;
    placewright_control::Options {
        alternates: control.alternates.count(),
        reschedule_across_cells: control.reschedule_across_cells,
        resize_to_same_host: control.resize_to_same_host,
        cell_down_after: milliseconds(control.cell_down_after_ms),
        answer_timeout: milliseconds(control.cell_answer_timeout_ms),
        resend_min: milliseconds(control.resend_ms),
        ..placewright_control::Options::default()
    }
}

/// The options of the SQLite journal.
pub(crate) fn journal(options: &Options) -> SqliteOptions {
    SqliteOptions {
        file_bytes_max: limit(options.store.file_bytes_max),
    }
}

/// The options of the engine.
pub(crate) fn engine(options: &Options) -> placewright_engine::Options {
    let store = &options.store;
    placewright_engine::Options {
        queue_commands_max: store.queue_commands_max.count(),
        record_bytes_max: store.record_bytes_max.count(),
        batch_commands_max: store.batch_commands_max.count(),
        recent_bytes: store.recent_bytes.count(),
        snapshot_entries: u64_or_zero(store.snapshot_entries),
        snapshot_bytes: u64_or_zero(store.snapshot_bytes),
        snapshots_kept: store.snapshots_kept.count(),
        retain_entries: u64_or_zero(store.retain_entries),
        ..placewright_engine::Options::default()
    }
}

/// The options of a cell's engine.
pub(crate) fn cell_engine(options: &Options) -> placewright_engine::Options {
    let engine = engine(options);
    placewright_engine::Options {
        recent_bytes: engine.recent_bytes.min(placewright_cell::RECENT_BYTES_MAX),
        ..engine
    }
}

/// The options of authentication.
pub(super) fn auth(options: &Options) -> AuthConfig {
    AuthConfig {
        strategy: match options.auth.strategy {
            AuthStrategy::Noauth2 => Strategy::Noauth2,
            AuthStrategy::HttpBasic => Strategy::HttpBasic,
            AuthStrategy::Keystone => Strategy::Keystone,
            AuthStrategy::Identity => Strategy::Identity,
        },
        limits: auth_limits(options),
        http_basic: http_basic(options),
        keystone: keystone(options),
    }
}

/// The limits that all strategies of authentication share.
pub(super) fn auth_limits(options: &Options) -> LimitsConfig {
    LimitsConfig {
        proxies: options.auth.proxies.0.clone(),
        wait_max_ms: u64_or_zero(options.auth.wait_max_ms),
        sources_max: options.auth.sources_max.count(),
        roles_max: options.auth.roles_max.count(),
    }
}

/// The limits of checks of the installation's own passwords.
pub(super) fn passwords(options: &Options) -> PasswordConfig {
    let identity = &options.identity;
    PasswordConfig {
        checks_max: identity.checks_max.count(),
        waiting_max: identity.waiting_max.count(),
        waiting_per_source_max: identity.waiting_per_source_max.count(),
        failures_burst: u32_or_max(identity.failures_burst),
        failures_per_minute: u32_or_max(identity.failures_per_minute),
        name_failures_burst: u32_or_max(identity.name_failures_burst),
        name_failures_per_minute: u32_or_max(identity.name_failures_per_minute),
        cache_seconds: u64_or_zero(identity.cache_seconds),
        cache_entries: identity.cache_entries.count(),
    }
}

/// How long the installation's own tokens are valid.
pub(super) fn token_lifetime(options: &Options) -> Duration {
    Duration::from_secs(u64_or_zero(options.identity.token_lifetime_s))
}

fn http_basic(options: &Options) -> HttpBasicConfig {
    let basic = &options.http_basic;
    let users = basic.users.0.iter().map(|(name, roles, project_id)| {
        let user = HttpBasicUser {
            roles: roles.clone(),
            project_id: project_id.clone(),
        };
        (name.clone(), user)
    });
    HttpBasicConfig {
        user_file: basic.user_file.clone(),
        realm: basic.realm.clone(),
        roles: basic.roles.clone(),
        project_id: basic.project_id.clone(),
        users: users.collect(),
        cache_seconds: u64_or_zero(basic.cache_seconds),
        cache_entries: basic.cache_entries.count(),
        reload_check_ms: u64_or_zero(basic.reload_check_ms),
        checks_max: basic.checks_max.count(),
        waiting_max: basic.waiting_max.count(),
        waiting_per_source_max: basic.waiting_per_source_max.count(),
        failures_burst: u32_or_max(basic.failures_burst),
        failures_per_minute: u32_or_max(basic.failures_per_minute),
    }
}

/// The configuration of Keystone and its service user.
pub(crate) fn keystone(options: &Options) -> KeystoneConfig {
    let keystone = &options.keystone;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    KeystoneConfig {
        auth_url: text(&keystone.auth_url),
        www_authenticate_uri: text(&keystone.www_authenticate_uri),
        username: text(&keystone.username),
        password: Secret::new(text(&keystone.password)),
        password_file: keystone.password_file.clone(),
        user_domain_name: keystone.user_domain_name.clone(),
        project_name: text(&keystone.project_name),
        project_domain_name: keystone.project_domain_name.clone(),
        cafile: keystone.cafile.clone(),
        cache_seconds: u64_or_zero(keystone.cache_seconds),
        negative_cache_seconds: u64_or_zero(keystone.negative_cache_seconds),
        cache_entries: keystone.cache_entries.count(),
        negative_cache_entries: keystone.negative_cache_entries.count(),
        service_token_roles: keystone.service_token_roles.clone(),
        service_token_roles_required: keystone.service_token_roles_required,
        connect_timeout_ms: u64_or_zero(keystone.connect_timeout_ms),
        request_timeout_ms: u64_or_zero(keystone.request_timeout_ms),
        requests_max: keystone.requests_max.count(),
        waiting_max: keystone.waiting_max.count(),
        waiting_per_source_max: keystone.waiting_per_source_max.count(),
        failures_burst: u32_or_max(keystone.failures_burst),
        failures_per_minute: u32_or_max(keystone.failures_per_minute),
    }
}

/// The configuration of policies.
pub(super) fn policy(options: &Options) -> PolicyConfig {
    let policy = &options.policy;
    PolicyConfig {
        file: policy.file.clone(),
        enforce_new_defaults: policy.enforce_new_defaults,
        enforce_scope: policy.enforce_scope,
    }
}

/// A limit; `None`, which means no limit, for a negative number.
fn limit<const MIN: i64, const MAX: i64>(number: Number<MIN, MAX>) -> Option<u64> {
    u64::try_from(number.get()).ok()
}

/// The number as a `u64`; a negative number becomes 0.
fn u64_or_zero<const MIN: i64, const MAX: i64>(number: Number<MIN, MAX>) -> u64 {
    u64::try_from(number.get()).unwrap_or(0)
}

/// The number as a `u32`; a negative or too large number becomes the maximum.
fn u32_or_max<const MIN: i64, const MAX: i64>(number: Number<MIN, MAX>) -> u32 {
    u32::try_from(number.get()).unwrap_or(u32::MAX)
}

fn milliseconds<const MIN: i64, const MAX: i64>(number: Number<MIN, MAX>) -> Duration {
    Duration::from_millis(u64_or_zero(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OPTIONS;

    #[test]
    fn the_defaults_of_the_options_are_those_of_the_crates() {
        let texts: Vec<&str> = OPTIONS.iter().map(|spec| spec.default).collect();
        let options = Options::from_texts(&texts).unwrap();
        let assert_equal = |converted: &dyn std::fmt::Debug, default: &dyn std::fmt::Debug| {
            assert_eq!(format!("{converted:#?}"), format!("{default:#?}"));
        };
        assert_equal(&http(&options), &HttpOptions::default());
        assert_equal(&admission(&options), &AdmissionOptions::default());
        assert_equal(&handshakes(&options), &HandshakeLimits::default());
        assert_equal(&placement(&options), &PlacementOptions::default());
        assert_equal(&image(&options), &ImageOptions::default());
        assert_equal(&candidate_retention(&options), &KeepOptions::default());
        assert_equal(
            &conductor(&options),
            &placewright_control::Options::default(),
        );
        assert_equal(&journal(&options), &SqliteOptions::default());
        assert_equal(&engine(&options), &placewright_engine::Options::default());
        assert_equal(&auth(&options), &AuthConfig::default());
        assert_equal(&passwords(&options), &PasswordConfig::default());
        assert_equal(&policy(&options), &PolicyConfig::default());
    }
}
