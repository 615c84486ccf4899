//! Warnings about settings that are allowed but probably not intended. `placewright config check`
//! prints them, and the start of a role logs them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::config::{Config, Source};
use crate::options::{AuthStrategy, DriverKind, OPTIONS, Options, QuotaDriver};

/// The permission bit with which users other than owner and group may read a file.
const OTHERS_READ: u32 = 0o004;
/// The permission bit with which users other than owner and group may write a file.
const OTHERS_WRITE: u32 = 0o002;
/// The permission bit with which the group may write a file.
const GROUP_WRITE: u32 = 0o020;
/// The permission bits of all users but the owner: read, write and execute.
const ALL_BUT_OWNER: u32 = 0o077;

/// Writes warnings to the log.
pub(crate) fn log(warnings: &[String]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

/// Warnings about control's options and files, without those that are found while the files are loaded.
pub(crate) fn control_warnings(config: &Config) -> Vec<String> {
    let options = &config.options;
    let mut warnings = config_file_warnings(config);
    warn_of_secret_file(
        &mut warnings,
        "control.token_file",
        options.control.token_file.as_deref(),
    );
    let folder = crate::identities::identity_path(options);
    warn_of_private_key(&mut warnings, "control.identity_path", folder.as_deref());
    let authority = options.control.authority_path.as_deref();
    let ca_key = authority.map(|folder| folder.join("ca-key.pem"));
    warn_of_own_file(&mut warnings, "control.authority_path", ca_key.as_deref());
    let key_file = options.secrets.key_file.as_deref();
    warn_of_secret_file(&mut warnings, "secrets.key_file", key_file);
    match options.auth.strategy {
        AuthStrategy::Noauth2 | AuthStrategy::Identity => {}
        AuthStrategy::HttpBasic => warn_of_secret_file(
            &mut warnings,
            "http_basic.user_file",
            options.http_basic.user_file.as_deref(),
        ),
        AuthStrategy::Keystone => warn_of_keystone_password(&mut warnings, options),
    }
    warn_of_writable_files(
        &mut warnings,
        [
            ("policy.file", &options.policy.file),
            ("scheduler.rules_file", &options.scheduler.rules_file),
            ("compute.images_file", &options.compute.images_file),
            (
                "compute.device_profiles_file",
                &options.compute.device_profiles_file,
            ),
            ("placement.tls_client_ca", &options.placement.tls_client_ca),
            ("scheduler.tls_client_ca", &options.scheduler.tls_client_ca),
            ("compute.tls_client_ca", &options.compute.tls_client_ca),
            ("identity.tls_client_ca", &options.identity.tls_client_ca),
            ("image.tls_client_ca", &options.image.tls_client_ca),
            ("network.tls_client_ca", &options.network.tls_client_ca),
            ("ui.tls_client_ca", &options.ui.tls_client_ca),
            ("health.tls_client_ca", &options.health.tls_client_ca),
        ],
    );
    if !options.policy.enforce_new_defaults {
        warnings.push(
            "policy.enforce_new_defaults is false: deprecated rules let in what the new ones refuse"
                .to_owned(),
        );
    }
    warn_of_plain_http(&mut warnings, options);
    warn_of_unused_sections(&mut warnings, config);
    warn_of_store(&mut warnings, &options.store.directory());
    warnings
}

/// Warns about listeners that receive passwords and tokens without encryption.
fn warn_of_plain_http(warnings: &mut Vec<String>, options: &Options) {
    // With noauth2 there are no passwords or tokens, and an open address has a warning of its own.
    if options.auth.strategy == AuthStrategy::Noauth2 {
        return;
    }
    let (placement, scheduler, compute) =
        (&options.placement, &options.scheduler, &options.compute);
    let identity = &options.identity;
    let (image, network) = (&options.image, &options.network);
    let listeners = [
        (
            "placement",
            Some(placement.listen),
            &placement.tls_certificate,
        ),
        ("scheduler", scheduler.listen, &scheduler.tls_certificate),
        ("compute", compute.listen, &compute.tls_certificate),
        ("identity", identity.listen, &identity.tls_certificate),
        ("image", image.listen, &image.tls_certificate),
        ("network", network.listen, &network.tls_certificate),
        ("ui", options.ui.listen, &options.ui.tls_certificate),
    ];
    for (section, address, certificate) in listeners {
        if let Some(address) = address
            && !address.ip().is_loopback()
            && certificate.is_none()
        {
            warnings.push(format!(
                "{section}.listen: {address} speaks HTTP without TLS, so passwords and tokens can be read on \
                 their way: set {section}.tls_certificate"
            ));
        }
    }
}

/// Warnings about a cell's options and files.
pub(crate) fn cell_warnings(config: &Config) -> Vec<String> {
    let cell = &config.options.cell;
    let mut warnings = config_file_warnings(config);
    warn_of_secret_file(&mut warnings, "cell.token_file", cell.token_file.as_deref());
    let folder = cell.identity_path.as_deref();
    warn_of_private_key(&mut warnings, "cell.identity_path", folder);
    let key_file = config.options.secrets.key_file.as_deref();
    warn_of_secret_file(&mut warnings, "secrets.key_file", key_file);
    warn_of_store(&mut warnings, &cell.directory());
    warnings
}

/// Warnings about an agent's options and files.
pub(crate) fn agent_warnings(config: &Config) -> Vec<String> {
    let agent = &config.options.agent;
    let mut warnings = config_file_warnings(config);
    warn_of_secret_file(
        &mut warnings,
        "agent.token_file",
        agent.token_file.as_deref(),
    );
    let folder = agent.identity_path.as_deref();
    warn_of_private_key(&mut warnings, "agent.identity_path", folder);
    let password = agent.placement_password_file.as_deref();
    warn_of_secret_file(&mut warnings, "agent.placement_password_file", password);
    if agent.placement_keystone {
        warn_of_keystone_password(&mut warnings, &config.options);
    }
    warn_of_writable_files(&mut warnings, [("agent.nodes_file", &agent.nodes_file)]);
    if agent.driver == DriverKind::Command {
        warn_of_commands(&mut warnings, agent.commands.as_deref());
    }
    warn_of_store(&mut warnings, &agent.directory());
    warnings
}

/// Warns about executables that others may replace.
fn warn_of_commands(warnings: &mut Vec<String>, directory: Option<&Path>) {
    let Some(directory) = directory else { return };
    let files = std::fs::read_dir(directory).into_iter().flatten();
    let files = files.filter_map(|entry| Some(entry.ok()?.path()));
    let is_writable =
        |path: &PathBuf| permissions(path).is_some_and(|bits| bits & OTHERS_WRITE != 0);
    if let Some(writable) = std::iter::once(directory.to_owned())
        .chain(files)
        .find(is_writable)
    {
        warnings.push(format!(
            "agent.commands: everybody on this machine may write {}, and the agent executes what is there: \
             chmod o-w",
            writable.display()
        ));
    }
}

/// Warns about a configuration file that others may write, or that has secrets and others may read.
fn config_file_warnings(config: &Config) -> Vec<String> {
    let Some(file) = &config.file else {
        return Vec::new();
    };
    let values = OPTIONS.iter().zip(&config.values);
    let mut secrets_in_file = values.filter(|(spec, value)| {
        spec.secret && !value.text.is_empty() && matches!(value.source, Source::File { .. })
    });
    let bits = permissions(file).unwrap_or(0);
    let mut warnings = Vec::new();
    if let Some((spec, _)) = secrets_in_file.next()
        && bits & OTHERS_READ != 0
    {
        warnings.push(format!(
            "{}: everybody on this machine may read the file, and {} is in it: chmod o-rwx",
            file.display(),
            spec.key()
        ));
    }
    if bits & OTHERS_WRITE != 0 && file.is_file() {
        warnings.push(format!(
            "{}: everybody on this machine may write the file: chmod o-w",
            file.display()
        ));
    }
    warnings
}

fn warn_of_keystone_password(warnings: &mut Vec<String>, options: &Options) {
    let file = options.keystone.password_file.as_deref();
    warn_of_secret_file(warnings, "keystone.password_file", file);
    warn_of_writable_files(warnings, [("keystone.cafile", &options.keystone.cafile)]);
}

/// Warns about files that determine what a role does, and that everybody on the machine may write. The files have no
/// secrets, so everybody may read them. A missing file is reported elsewhere.
fn warn_of_writable_files<'a>(
    warnings: &mut Vec<String>,
    files: impl IntoIterator<Item = (&'a str, &'a Option<PathBuf>)>,
) {
    for (key, file) in files {
        if let Some(file) = file
            && permissions(file).is_some_and(|bits| bits & OTHERS_WRITE != 0)
        {
            warnings.push(format!(
                "{key}: everybody on this machine may write {}: chmod o-w",
                file.display()
            ));
        }
    }
}

/// Warns about a file with a secret that an operator made, if others may read or write it, or its group may write it.
/// The group may read it: that is how a service gets at a file of another owner. A missing file is reported elsewhere.
fn warn_of_secret_file(warnings: &mut Vec<String>, key: &str, file: Option<&Path>) {
    let Some(file) = file else { return };
    let bits = permissions(file).unwrap_or(0);
    if bits & (OTHERS_READ | OTHERS_WRITE) != 0 {
        warnings.push(format!(
            "{key}: everybody on this machine may read or write {}: chmod o-rwx",
            file.display()
        ));
    } else if bits & GROUP_WRITE != 0 {
        warnings.push(format!(
            "{key}: the group of {} may write it: chmod g-w",
            file.display()
        ));
    }
}

/// Warns about a file with a secret that this program made for its owner alone, if anybody else may read or write it.
fn warn_of_own_file(warnings: &mut Vec<String>, key: &str, file: Option<&Path>) {
    let Some(file) = file else { return };
    let bits = permissions(file).unwrap_or(0);
    if bits & (OTHERS_READ | OTHERS_WRITE) != 0 {
        warn_of_secret_file(warnings, key, Some(file));
    } else if bits & ALL_BUT_OWNER != 0 {
        warnings.push(format!(
            "{key}: the group of {} may read or write it: chmod go-rwx",
            file.display()
        ));
    }
}

/// Warns about a private key in a holder's folder: `identity.pem`, which this program makes, or `tls.key`, which other
/// tools make.
fn warn_of_private_key(warnings: &mut Vec<String>, key: &str, folder: Option<&Path>) {
    let Some(folder) = folder else { return };
    warn_of_own_file(warnings, key, Some(&folder.join("identity.pem")));
    warn_of_secret_file(warnings, key, Some(&folder.join("tls.key")));
}

/// Warns about a store with files that other users may read, write or execute. If other users cannot use the directory
/// at all, its content is safe.
fn warn_of_store(warnings: &mut Vec<String>, directory: &Path) {
    let is_accessible =
        |path: &Path| permissions(path).is_some_and(|bits| bits & ALL_BUT_OWNER != 0);
    if !is_accessible(directory) {
        return;
    }
    let accessible: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file() && is_accessible(path))
        .collect();
    if !accessible.is_empty() {
        warnings.push(format!(
            "{}: other users of this machine may read {} files of the store: chmod -R go-rwx",
            directory.display(),
            accessible.len()
        ));
    }
}

/// Warns about sections for authentication strategies that are not used.
fn warn_of_unused_sections(warnings: &mut Vec<String>, config: &Config) {
    let strategy = config.options.auth.strategy;
    let is_set = |section: &str| {
        let mut values = OPTIONS.iter().zip(&config.values);
        values.any(|(spec, value)| spec.section == section && value.source != Source::Default)
    };
    if strategy != AuthStrategy::HttpBasic && is_set("http_basic") {
        warnings.push(unused_section_warning("http_basic", strategy));
    }
    if strategy != AuthStrategy::Identity && is_set("identity") {
        warnings.push(unused_section_warning("identity", strategy));
    }
    // An agent with the same file may use the section.
    let is_for_agent = config.options.agent.placement_keystone;
    let is_for_quotas = config.options.compute.quota_driver == QuotaDriver::Unified;
    let is_used = strategy == AuthStrategy::Keystone || is_for_agent || is_for_quotas;
    if !is_used && is_set("keystone") {
        warnings.push(unused_section_warning("keystone", strategy));
    }
}

fn unused_section_warning(section: &str, strategy: AuthStrategy) -> String {
    format!(
        "[{section}] is configured, but auth.strategy is {}: it has no effect",
        strategy.text()
    )
}

/// The permission bits of a file; `None` if they cannot be read, for instance because the file does not exist.
fn permissions(path: &Path) -> Option<u32> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(metadata.permissions().mode())
}
