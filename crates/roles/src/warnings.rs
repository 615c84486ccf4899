//! Warnings about settings that are allowed but probably not intended. `placewright config check`
//! prints them, and the start of a role logs them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::config::{Config, Source};
use crate::options::{AuthStrategy, DriverKind, OPTIONS, Options, QuotaDriver};

/// The permission of users other than the owner and the group to read a file.
const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;

/// Writes warnings to the log.
pub(crate) fn log(warnings: &[String]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

/// Warnings about control's options and files, besides those of its parts.
pub(crate) fn of_control(config: &Config) -> Vec<String> {
    let options = &config.options;
    let mut warnings = of_file(config);
    secret(
        &mut warnings,
        "control.token_file",
        options.control.token_file.as_deref(),
    );
    let folder = crate::identities::identity_path(options);
    identity(&mut warnings, "control.identity_path", folder.as_deref());
    let key = options.control.authority_path.as_deref();
    let key = key.map(|folder| folder.join("ca-key.pem"));
    secret(&mut warnings, "control.authority_path", key.as_deref());
    let keys = options.secrets.key_file.as_deref();
    secret(&mut warnings, "secrets.key_file", keys);
    match options.auth.strategy {
        AuthStrategy::Noauth2 => {}
        AuthStrategy::HttpBasic => secret(
            &mut warnings,
            "http_basic.user_file",
            options.http_basic.user_file.as_deref(),
        ),
        AuthStrategy::Keystone => of_keystone(&mut warnings, options),
    }
    written_by_others(
        &mut warnings,
        [
            ("policy.file", &options.policy.file),
            ("scheduler.rules_file", &options.scheduler.rules_file),
            ("compute.images_file", &options.compute.images_file),
            ("placement.tls_client_ca", &options.placement.tls_client_ca),
            ("scheduler.tls_client_ca", &options.scheduler.tls_client_ca),
            ("compute.tls_client_ca", &options.compute.tls_client_ca),
            ("health.tls_client_ca", &options.health.tls_client_ca),
        ],
    );
    if !options.policy.enforce_new_defaults {
        warnings.push(
            "policy.enforce_new_defaults is false: deprecated rules let in what the new ones refuse"
                .to_owned(),
        );
    }
    in_the_clear(&mut warnings, options);
    unused_strategies(&mut warnings, config);
    store(&mut warnings, &options.store.directory());
    warnings
}

/// Warns about passwords and tokens that others could read on their way.
fn in_the_clear(warnings: &mut Vec<String>, options: &Options) {
    // With noauth2 there are neither, and an open address is a warning of its own.
    if options.auth.strategy == AuthStrategy::Noauth2 {
        return;
    }
    let (placement, scheduler, compute) =
        (&options.placement, &options.scheduler, &options.compute);
    let listeners = [
        (
            "placement",
            Some(placement.listen),
            &placement.tls_certificate,
        ),
        ("scheduler", scheduler.listen, &scheduler.tls_certificate),
        ("compute", compute.listen, &compute.tls_certificate),
    ];
    for (section, listen, certificate) in listeners {
        if let Some(listen) = listen
            && !listen.ip().is_loopback()
            && certificate.is_none()
        {
            warnings.push(format!(
                "{section}.listen: {listen} speaks HTTP without TLS, so passwords and tokens can be read on \
                 their way: set {section}.tls_certificate"
            ));
        }
    }
}

/// Warnings about a cell's options and files.
pub(crate) fn of_cell(config: &Config) -> Vec<String> {
    let cell = &config.options.cell;
    let mut warnings = of_file(config);
    secret(&mut warnings, "cell.token_file", cell.token_file.as_deref());
    let folder = cell.identity_path.as_deref();
    identity(&mut warnings, "cell.identity_path", folder);
    let keys = config.options.secrets.key_file.as_deref();
    secret(&mut warnings, "secrets.key_file", keys);
    store(&mut warnings, &cell.directory());
    warnings
}

/// Warnings about an agent's options and files.
pub(crate) fn of_agent(config: &Config) -> Vec<String> {
    let agent = &config.options.agent;
    let mut warnings = of_file(config);
    secret(
        &mut warnings,
        "agent.token_file",
        agent.token_file.as_deref(),
    );
    let folder = agent.identity_path.as_deref();
    identity(&mut warnings, "agent.identity_path", folder);
    let password = agent.placement_password_file.as_deref();
    secret(&mut warnings, "agent.placement_password_file", password);
    if agent.placement_keystone {
        of_keystone(&mut warnings, &config.options);
    }
    written_by_others(&mut warnings, [("agent.nodes_file", &agent.nodes_file)]);
    if agent.driver == DriverKind::Command {
        commands(&mut warnings, agent.commands.as_deref());
    }
    store(&mut warnings, &agent.directory());
    warnings
}

/// Warns about executables that others may replace.
fn commands(warnings: &mut Vec<String>, directory: Option<&Path>) {
    let Some(directory) = directory else { return };
    let inside = std::fs::read_dir(directory).into_iter().flatten();
    let inside = inside.filter_map(|entry| Some(entry.ok()?.path()));
    let is_open = |path: &PathBuf| mode(path).is_some_and(|mode| mode & OTHERS_WRITE != 0);
    if let Some(open) = std::iter::once(directory.to_owned())
        .chain(inside)
        .find(is_open)
    {
        warnings.push(format!(
            "agent.commands: everybody on this machine may write {}, and the agent executes what is there: \
             chmod o-w",
            open.display()
        ));
    }
}

/// Warns about a configuration file with secrets that others may read.
fn of_file(config: &Config) -> Vec<String> {
    let Some(file) = &config.file else {
        return Vec::new();
    };
    let values = OPTIONS.iter().zip(&config.values);
    let mut secrets = values.filter(|(spec, value)| {
        spec.secret && !value.text.is_empty() && matches!(value.source, Source::File { .. })
    });
    let mode = mode(file).unwrap_or(0);
    let mut warnings = Vec::new();
    if let Some((spec, _)) = secrets.next()
        && mode & OTHERS_READ != 0
    {
        warnings.push(format!(
            "{}: everybody on this machine may read the file, and {} is in it: chmod o-rwx",
            file.display(),
            spec.key()
        ));
    }
    if mode & OTHERS_WRITE != 0 && file.is_file() {
        warnings.push(format!(
            "{}: everybody on this machine may write the file: chmod o-w",
            file.display()
        ));
    }
    warnings
}

fn of_keystone(warnings: &mut Vec<String>, options: &Options) {
    let file = options.keystone.password_file.as_deref();
    secret(warnings, "keystone.password_file", file);
    written_by_others(warnings, [("keystone.cafile", &options.keystone.cafile)]);
}

/// Warns about files without secrets that others may write, who decide with it what a role does. A
/// missing file is reported elsewhere.
fn written_by_others<'a>(
    warnings: &mut Vec<String>,
    files: impl IntoIterator<Item = (&'a str, &'a Option<PathBuf>)>,
) {
    for (key, file) in files {
        if let Some(file) = file
            && mode(file).is_some_and(|mode| mode & OTHERS_WRITE != 0)
        {
            warnings.push(format!(
                "{key}: everybody on this machine may write {}: chmod o-w",
                file.display()
            ));
        }
    }
}

/// Warns about a file with a secret that others may read or write. A missing file is reported
/// elsewhere.
fn secret(warnings: &mut Vec<String>, key: &str, file: Option<&Path>) {
    let Some(file) = file else { return };
    if mode(file).is_some_and(|mode| mode & (OTHERS_READ | OTHERS_WRITE) != 0) {
        warnings.push(format!(
            "{key}: everybody on this machine may read or write {}: chmod o-rwx",
            file.display()
        ));
    }
}

/// Warns about a certificate whose private key others may read.
fn identity(warnings: &mut Vec<String>, key: &str, folder: Option<&Path>) {
    let Some(folder) = folder else { return };
    for file in ["identity.pem", "tls.key"] {
        secret(warnings, key, Some(&folder.join(file)));
    }
}

/// Warns about a store that others may read. If they cannot enter the directory, its content is
/// safe.
fn store(warnings: &mut Vec<String>, directory: &Path) {
    let is_open = |path: &Path| mode(path).is_some_and(|mode| mode & 0o007 != 0);
    if !is_open(directory) {
        return;
    }
    let open: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file() && is_open(path))
        .collect();
    if !open.is_empty() {
        warnings.push(format!(
            "{}: everybody on this machine may read {} files of the store: chmod -R go-rwx",
            directory.display(),
            open.len()
        ));
    }
}

/// Warns about sections for authentication strategies that are not used.
fn unused_strategies(warnings: &mut Vec<String>, config: &Config) {
    let strategy = config.options.auth.strategy;
    let is_set = |section: &str| {
        let mut values = OPTIONS.iter().zip(&config.values);
        values.any(|(spec, value)| spec.section == section && value.source != Source::Default)
    };
    if strategy != AuthStrategy::HttpBasic && is_set("http_basic") {
        warnings.push(unused("http_basic", strategy));
    }
    // An agent with the same file may use the section.
    let is_agents = config.options.agent.placement_keystone;
    let is_for_quotas = config.options.compute.quota_driver == QuotaDriver::Unified;
    let is_used = strategy == AuthStrategy::Keystone || is_agents || is_for_quotas;
    if !is_used && is_set("keystone") {
        warnings.push(unused("keystone", strategy));
    }
}

fn unused(section: &str, strategy: AuthStrategy) -> String {
    format!(
        "[{section}] is configured, but auth.strategy is {}: it has no effect",
        strategy.text()
    )
}

/// The permissions of a file; none if it does not exist.
fn mode(path: &Path) -> Option<u32> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(metadata.permissions().mode())
}
