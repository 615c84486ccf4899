//! `placewright secrets`: makes, changes and shows the keys that seal secrets of servers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use placewright_cell::CellMachine;
use placewright_conductor::Spec;
use placewright_control::ControlMachine;
use placewright_engine::{Engine, Options};
use placewright_journal::SqliteJournal;
use placewright_roles::config::{Config, Environment, Flags};
use placewright_roles::output::print;
use placewright_roles::secrets::source;
use placewright_secrets::{
    Key, KeyId, KeySource, Keyring, Sealer, make_key_file, replace_key_file,
};

/// The subcommands of `placewright secrets`.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Make a key file, which only its owner may read; one that exists stays as it is
    NewKey(KeyLocationArgs),
    /// Add a new key to the key file: from now on it seals all secrets. A running service notices,
    /// and seals the secrets in its store again with the new key
    Rotate(KeyLocationArgs),
    /// Print the ids of the keys, and how many sets of secrets in the store each of them opens
    Show(KeyLocationArgs),
    /// Remove an older key from the key file: what only it opens can never be read again
    Remove {
        /// The id of the key, as `show` prints it
        #[arg(value_name = "KEY")]
        key: String,
        /// Remove it although the store has secrets under it
        #[arg(long)]
        even_if_used: bool,
        #[command(flatten)]
        location: KeyLocationArgs,
    },
}

/// Arguments that select a key file and a store.
#[derive(Debug, Args)]
pub(crate) struct KeyLocationArgs {
    /// The key file [default: what `secrets.key_file` is configured to, else the one beside the store]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// The store's directory [default: what is configured]
    #[arg(long, value_name = "DIRECTORY")]
    store: Option<PathBuf>,

    /// The keys and the store are those of a cell
    #[arg(long)]
    cell: bool,

    /// The configuration file that says where the key file and the store are
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The source of the keys, and the location of the store.
struct KeyLocation {
    source: KeySource,
    store: PathBuf,
    /// The option with whose address the store is on a server. What is in `store` then is not the service's store.
    server_option: Option<&'static str>,
    is_cell: bool,
}

impl KeyLocationArgs {
    fn resolve(self) -> anyhow::Result<KeyLocation> {
        let flags = Flags::with_config(self.config);
        let options = Config::load(&flags, &Environment::of_process())?.options;
        let (option, url) = match self.cell {
            true => ("cell.store_url", &options.cell.store_url),
            false => ("store.url", &options.store.url),
        };
        let is_on_server = url
            .as_deref()
            .is_some_and(|url| !url.starts_with("sqlite:"));
        let server_option = (is_on_server && self.store.is_none()).then_some(option);
        let store = self.store.unwrap_or_else(|| match self.cell {
            true => options.cell.directory(),
            false => options.store.directory(),
        });
        let key_source = match self.file {
            Some(file) => KeySource::File(file),
            None => {
                let (key_source, _makes_missing_file) = source(&options.secrets, &store)?;
                key_source
            }
        };
        Ok(KeyLocation {
            source: key_source,
            store,
            server_option,
            is_cell: self.cell,
        })
    }
}

impl KeyLocation {
    fn file(&self) -> anyhow::Result<&Path> {
        match &self.source {
            KeySource::File(file) => Ok(file),
            KeySource::Command(_) => {
                bail!("the keys come from secrets.key_command: change them where it has them from")
            }
        }
    }

    /// How many sets of secrets in the store are sealed with each key. Sets in an unknown format, whose key is not
    /// known, are counted under `None`. Empty if there is no store.
    fn counts(&self) -> anyhow::Result<BTreeMap<Option<KeyId>, u64>> {
        if let Some(option) = self.server_option {
            bail!(
                "the store is on a server ({option}), whose secrets this command cannot count: the metric \
                 placewright_{}secrets_held_older_key says how many are under older keys",
                if self.is_cell { "cell_" } else { "" }
            );
        }
        let mut counts = BTreeMap::new();
        if !self.store.exists() {
            return Ok(counts);
        }
        let journal = SqliteJournal::open_read_only(&self.store)?;
        // The store is only read, so no snapshot is written to it.
        let options = Options {
            snapshot_entries: u64::MAX,
            snapshot_bytes: u64::MAX,
            ..Options::default()
        };
        let mut count = |spec: &Spec| {
            for key in Sealer::key_ids_of(spec) {
                *counts.entry(key).or_default() += 1;
            }
        };
        if self.is_cell {
            let engine = Engine::<CellMachine>::open(journal, options, ())?;
            engine.read_now(|machine| {
                machine.state.specs().values().for_each(&mut count);
                let of_jobs = machine.state.jobs().values();
                of_jobs.filter_map(|job| job.spec.as_ref()).for_each(count);
            });
        } else {
            let engine = Engine::<ControlMachine>::open(journal, options, ())?;
            engine.read_now(|machine| {
                let state = &machine.state.conductor;
                state.specs().values().for_each(&mut count);
                let rebuilds = state.rebuilds().values().map(|row| &row.spec);
                rebuilds.for_each(&mut count);
                let of_moves = state.moves().values();
                of_moves.filter_map(|row| row.spec.as_ref()).for_each(count);
            });
        }
        Ok(counts)
    }
}

impl SecretsCommand {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// The keys cannot be read or written, the store cannot be read, or the command is refused: there is a key file
    /// already, the keys come from a command, or the key to be removed is unknown or in use.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::NewKey(location) => {
                let location = location.resolve()?;
                let keyring = Keyring::random()?;
                make_key_file(location.file()?, &keyring)?;
                print(&format!(
                    "{}: key {}\n",
                    location.file()?.display(),
                    keyring.current().id()
                ))
            }
            Self::Rotate(location) => {
                let location = location.resolve()?;
                let file = location.file()?;
                let keyring = location.source.read()?.rotated(Key::random()?);
                replace_key_file(file, &keyring)?;
                let id = keyring.current().id();
                print(&format!("{}: the current key is {id}\n", file.display()))
            }
            Self::Show(location) => print(&key_table(&location.resolve()?)?),
            Self::Remove {
                key,
                even_if_used,
                location,
            } => remove(&location.resolve()?, &key, even_if_used),
        }
    }
}

/// The table of keys that `show` prints.
fn key_table(location: &KeyLocation) -> anyhow::Result<String> {
    let keyring = location.source.read()?;
    // The ids are needed to remove a key, also where the secrets under it cannot be counted.
    let is_counted = location.server_option.is_none();
    let mut counts = match is_counted {
        true => location.counts()?,
        false => BTreeMap::new(),
    };
    let mut text = String::from("key           state      sets of secrets in the store\n");
    let older = keyring.older().map(|id| (id, "older"));
    for (id, state) in std::iter::once((keyring.current().id(), "current")).chain(older) {
        let count = match is_counted {
            true => counts.remove(&Some(id)).unwrap_or(0).to_string(),
            false => "?".to_owned(),
        };
        text += &format!("{id}  {state:<9}  {count}\n");
    }
    for (id, count) in counts {
        let id = id.map_or_else(|| "?".to_owned(), |id| id.to_string());
        text += &format!("{id:<12}  missing    {count}\n");
    }
    Ok(text)
}

fn remove(location: &KeyLocation, key: &str, even_if_used: bool) -> anyhow::Result<()> {
    let file = location.file()?;
    let keyring = location.source.read()?;
    let found = KeyId::parse(key).and_then(|id| Some((id, keyring.without(id)?)));
    let Some((id, remaining)) = found else {
        bail!("{key} is none of the older keys in {}", file.display());
    };
    if !even_if_used {
        let counts = location.counts();
        let counts = counts.context("--even-if-used removes the key all the same")?;
        let count = counts.get(&Some(id)).copied().unwrap_or(0);
        if count > 0 {
            bail!(
                "the store has {count} sets of secrets under {id}; a running service seals them again \
                 within a minute (--even-if-used removes the key all the same)"
            );
        }
    }
    replace_key_file(file, &remaining)?;
    print(&format!("{}: {id} is gone\n", file.display()))
}
