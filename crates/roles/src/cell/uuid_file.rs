//! The file in a cell's store with the UUID of the cell.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use placewright_journal::private;
use uuid::Uuid;

use crate::config::ConfigErrors;

/// The file in the store's directory that has the cell's UUID.
pub const UUID_FILE: &str = "cell-uuid";

/// Reads the UUID of the cell that the store belongs to. A new store gets the configured UUID, or a random
/// one.
///
/// # Errors
///
/// The store belongs to another cell than the configured one, or the file cannot be read or written, or has no UUID.
pub(super) fn read_or_create(directory: &Path, configured: Option<Uuid>) -> anyhow::Result<Uuid> {
    let path = directory.join(UUID_FILE);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let stored = Uuid::try_parse(text.trim());
            let stored = stored.with_context(|| format!("{}: not a UUID", path.display()))?;
            match configured {
                Some(configured) if configured != stored => Err(ConfigErrors(vec![format!(
                    "cell.uuid: the store in {} belongs to cell {stored}, not to {configured}",
                    directory.display()
                )])
                .into()),
                _ => Ok(stored),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let uuid = match configured {
                Some(uuid) => uuid,
                None => random_uuid()?,
            };
            let written = write(directory, &path, uuid);
            written.with_context(|| format!("cannot write {}", path.display()))?;
            Ok(uuid)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn random_uuid() -> anyhow::Result<Uuid> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}

/// Writes the file atomically.
fn write(directory: &Path, path: &Path, uuid: Uuid) -> io::Result<()> {
    private::create_directory(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    writeln!(file, "{uuid}")?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    fs::File::open(directory)?.sync_all()
}
