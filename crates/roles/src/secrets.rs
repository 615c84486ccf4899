//! The keys for secrets, from the options of a role; and keeping secrets out of core dumps.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use placewright_secrets::{
    KeyCommand, KeyError, KeySource, Keyring, Sealer, UserDataRetention, make_key_file,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use rustix::process::{DumpableBehavior, Resource, Rlimit};

use crate::config::ConfigErrors;
use crate::options::{self, SecretsOptions};

/// The key file beside a store, for a role for which neither a key file nor a command is configured.
#[must_use]
pub fn default_key_file(store: &Path) -> PathBuf {
    let mut name = OsString::from(store.as_os_str());
    name.push(".key");
    PathBuf::from(name)
}

/// The source of the keys, and whether its file is created if it is missing. Reads nothing yet.
///
/// # Errors
///
/// The options contradict each other, or the key file lies in the store.
pub fn source(options: &SecretsOptions, store: &Path) -> Result<(KeySource, bool), ConfigErrors> {
    let wrong = |why: String| Err(ConfigErrors(vec![why]));
    if !options.key_command.is_empty() {
        if options.key_file.is_some() {
            return wrong(
                "secrets.key_command and secrets.key_file: only one may be set".to_owned(),
            );
        }
        let timeout = u64::try_from(options.key_command_timeout_ms.get()).unwrap_or(0);
        return Ok((
            KeySource::Command(KeyCommand {
                line: options.key_command.clone(),
                timeout: Duration::from_millis(timeout),
                environment: options.key_command_environment.clone(),
            }),
            false,
        ));
    }
    let Some(file) = &options.key_file else {
        return Ok((KeySource::File(default_key_file(store)), true));
    };
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if absolute(file).starts_with(absolute(store)) {
        return wrong(format!(
            "secrets.key_file: {} lies in the store: whoever copies the store has the keys too",
            file.display()
        ));
    }
    Ok((KeySource::File(file.clone()), false))
}

/// Checks the options, and the key file if it exists. No command is run. Returns the path of the key file;
/// `None` if a command has the keys.
///
/// # Errors
///
/// The options contradict each other, or the key file is not valid.
pub(crate) fn check(
    options: &SecretsOptions,
    store: &Path,
) -> Result<Option<PathBuf>, ConfigErrors> {
    let (source, creates_missing_file) = source(options, store)?;
    let KeySource::File(path) = &source else {
        return Ok(None);
    };
    if path.exists() || !creates_missing_file {
        source
            .read()
            .map_err(|error| wrong_keys(&error, creates_missing_file))?;
    }
    Ok(Some(path.clone()))
}

/// Reads the keys, and creates the default key file if it is missing and in use. Blocks while a command
/// prints the keys.
///
/// # Errors
///
/// The keys cannot be read, or the default key file cannot be created.
pub(crate) fn open_sealer(options: &SecretsOptions, store: &Path) -> anyhow::Result<Sealer> {
    let (source, creates_missing_file) = source(options, store)?;
    if let (KeySource::File(path), true) = (&source, creates_missing_file)
        && !path.exists()
    {
        create_default_key_file(path)?;
    }
    let retention = match options.user_data_until {
        options::UserDataUntil::Deleted => UserDataRetention::UntilDeleted,
        options::UserDataUntil::Built => UserDataRetention::UntilBuilt,
    };
    let sealer = Sealer::open(source, retention)
        .map_err(|error| wrong_keys(&error, creates_missing_file))?;
    Ok(sealer)
}

fn create_default_key_file(path: &Path) -> anyhow::Result<()> {
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        std::fs::create_dir_all(parent)?;
    }
    match make_key_file(path, &Keyring::random()?) {
        Ok(()) => {
            tracing::info!(
                file = %path.display(),
                "a key for secrets was made: keep a copy of it apart from those of the store"
            );
            Ok(())
        }
        // Another process created the file meanwhile.
        Err(KeyError::Exists(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The error for keys that cannot be read. If a file is missing that this process does not create, the error says how
/// to create it.
fn wrong_keys(error: &KeyError, creates_missing_file: bool) -> ConfigErrors {
    let is_missing = matches!(error, KeyError::File { source, .. }
        if source.kind() == std::io::ErrorKind::NotFound);
    let advice = match is_missing && !creates_missing_file {
        true => "; `placewright secrets new-key` makes one",
        false => "",
    };
    ConfigErrors(vec![format!("secrets: {error}{advice}")])
}

/// Keeps the memory of the process out of core dumps, and unreadable for other processes of the same user, unless the
/// options allow both.
pub(crate) fn forbid_core_dumps(options: &SecretsOptions) {
    if options.core_dumps {
        return;
    }
    // Only the soft limit is lowered. With the hard limit unchanged, programs that this one starts may allow core dumps
    // for themselves.
    let limit = rustix::process::getrlimit(Resource::Core);
    let limit = Rlimit {
        current: Some(0),
        maximum: limit.maximum,
    };
    let limited = rustix::process::setrlimit(Resource::Core, limit);
    let forbidden = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if let Err(error) = limited.and(forbidden) {
        tracing::warn!(%error, "core dumps cannot be forbidden");
    }
}

/// Registers the metrics of sealing and opening secrets.
pub(crate) fn register(registry: &mut Registry, sealer: &Sealer) {
    registry.register_collector(Box::new(SecretCounts(sealer.clone())));
}

/// Collects the counts when Prometheus requests them.
#[derive(Debug)]
struct SecretCounts(Sealer);

impl Collector for SecretCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.0.secret_counts();
        for (name, help, value) in [
            (
                "secrets_held",
                "Sets of secrets under the current key",
                counts.current,
            ),
            (
                "secrets_held_older_key",
                "Sets of secrets under older keys",
                counts.older,
            ),
            (
                "secrets_held_unknown_key",
                "Sets of secrets that no present key opens",
                counts.unknown,
            ),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        Ok(())
    }
}
