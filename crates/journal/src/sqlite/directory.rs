//! The directory of a store.

use std::fs::File;
use std::io;
use std::path::Path;

/// Makes the entries of a directory durable: a new or renamed file is found after a power failure
/// only if its directory was written too.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
