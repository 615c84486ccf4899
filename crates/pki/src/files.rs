//! Files that only their owner can read, replaced as a whole.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::error::PkiError;

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The largest file that is read.
const BYTES_MAX: u64 = 16 << 20;

/// Makes a directory, with those above it, for its owner alone. One that is there keeps its mode.
pub(crate) fn make_directory(path: &Path) -> Result<(), PkiError> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(DIRECTORY_MODE).create(path);
    made.map_err(|error| PkiError::file(path, error))
}

/// Replaces a file at once; whoever reads it finds the whole of the old or of the new content, after
/// a power cut too.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), PkiError> {
    let wrong = |error| PkiError::file(path, error);
    let directory = path.parent().unwrap_or(Path::new("."));
    make_directory(directory)?;
    let mut file = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(FILE_MODE))
        .tempfile_in(directory)
        .map_err(wrong)?;
    file.write_all(content).map_err(wrong)?;
    file.as_file().sync_all().map_err(wrong)?;
    file.persist(path).map_err(|error| wrong(error.error))?;
    let directory = File::open(directory).map_err(wrong)?;
    directory.sync_all().map_err(wrong)
}

/// Adds a line to a file, and waits for the disk. The end of a line that was cut off by a power cut is
/// taken away before.
pub(crate) fn append_line(path: &Path, line: &str) -> Result<(), PkiError> {
    let wrong = |error| PkiError::file(path, error);
    let before = read_if_there(path)?.unwrap_or_default();
    let whole = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).mode(FILE_MODE).open(path);
    let mut file = file.map_err(wrong)?;
    if whole < before.len() {
        file.set_len(whole as u64).map_err(wrong)?;
    }
    file.write_all(format!("{line}\n").as_bytes())
        .map_err(wrong)?;
    file.sync_all().map_err(wrong)
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, PkiError> {
    let wrong = |error| PkiError::file(path, error);
    let length = fs::metadata(path).map_err(wrong)?.len();
    if length > BYTES_MAX {
        return Err(PkiError::content(path, format!("it has {length} bytes")));
    }
    fs::read(path).map_err(wrong)
}

/// Reads a file; none if there is none.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, PkiError> {
    match read(path) {
        Ok(content) => Ok(Some(content)),
        Err(PkiError::File { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Keeps other processes away from a folder as long as the file is open.
pub(crate) fn lock(directory: &Path) -> Result<File, PkiError> {
    let path = directory.join("lock");
    let wrong = |error| PkiError::file(&path, error);
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(&path);
    let file = file.map_err(wrong)?;
    file.lock().map_err(wrong)?;
    Ok(file)
}
