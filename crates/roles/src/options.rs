//! The table of all options: one entry makes a key of the configuration file, an environment variable, a flag, a line
//! of `--help` and a row of docs/configuration.md. Code reads the value of an option as a field of [`Options`];
//! `config/reads.rs` says which commands read the option. The entries of each section are in a file of `options/`.

mod agent;
mod auth;
mod cell;
mod compute;
mod control;
mod directories;
mod identity;
mod image;
mod kinds;
mod listeners;
mod logs;
mod network;
mod placement;
mod scheduler;
mod secrets;
mod spec;
mod store;
mod traces;
mod ui;

pub use agent::AgentOptions;
pub use auth::{AuthOptions, HttpBasicOptions, KeystoneOptions, PolicyOptions};
pub use cell::CellOptions;
pub use compute::ComputeApiOptions;
pub use control::ControlOptions;
pub(crate) use directories::SQLITE_SCHEME;
pub use identity::IdentityOptions;
pub use image::ImageApiOptions;
pub use kinds::{
    Addresses, AuditDestination, AuthStrategy, CandidateStrategy, CellAddresses,
    ClientCertificateMode, DriverKind, LogFormat, Number, OptionType, PlainHttpMode, QuotaDefaults,
    QuotaDriver, Ratio, UserDataUntil, UserGrants, ValueSyntax,
};
pub use listeners::{AdmissionControlOptions, CorsOptions, HealthOptions, TlsOptions};
pub use logs::{AuditLogOptions, LogOptions};
pub use network::NetworkApiOptions;
pub use placement::PlacementOptions;
pub use scheduler::SchedulerOptions;
pub use secrets::SecretsOptions;
use spec::options;
pub use spec::{OptionSpec, SectionSpec};
pub use store::StoreOptions;
pub use traces::TraceOptions;
pub use ui::UiOptions;

options! {
    placement: PlacementOptions;
    scheduler: SchedulerOptions;
    control: ControlOptions;
    compute: ComputeApiOptions;
    identity: IdentityOptions;
    image: ImageApiOptions;
    network: NetworkApiOptions;
    ui: UiOptions;
    health: HealthOptions;
    tls: TlsOptions;
    admission: AdmissionControlOptions;
    store: StoreOptions;
    auth: AuthOptions;
    http_basic: HttpBasicOptions;
    keystone: KeystoneOptions;
    policy: PolicyOptions;
    cors: CorsOptions;
    cell: CellOptions;
    agent: AgentOptions;
    secrets: SecretsOptions;
    audit: AuditLogOptions;
    traces: TraceOptions;
    log: LogOptions;
}

/// The index in [`OPTIONS`] of the option with the key `section.name`; `None` if there is no such option.
pub fn find(key: &str) -> Option<usize> {
    OPTIONS.iter().position(|spec| spec.key() == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for spec in OPTIONS {
            assert!(
                (spec.accepts)(spec.default),
                "{}: {:?}",
                spec.key(),
                spec.default
            );
            assert!(
                spec.help.ends_with('.'),
                "{}: help is sentences",
                spec.key()
            );
            assert!(!(spec.describe_allowed)().is_empty());
        }
        let texts: Vec<&str> = OPTIONS.iter().map(|spec| spec.default).collect();
        let options = Options::from_texts(&texts).unwrap();
        assert_eq!(options.placement.listen.port(), 8778);
    }
}
