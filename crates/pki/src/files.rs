//! Files that only their owner can read, replaced as a whole.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
};
use std::path::Path;

use crate::error::PkiError;

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The largest file that is read, besides those that only grow.
const BYTES_MAX: u64 = 16 << 20;
/// How much of the end of a file is looked at together for the end of its last line.
const BLOCK_BYTES: u64 = 4096;

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
    give_to_owner_of(directory, file.as_file());
    file.write_all(content).map_err(wrong)?;
    file.as_file().sync_all().map_err(wrong)?;
    file.persist(path).map_err(|error| wrong(error.error))?;
    let directory = File::open(directory).map_err(wrong)?;
    directory.sync_all().map_err(wrong)
}

/// Gives a file that root made to the owner of its folder: the service, which reads and writes it too,
/// is seldom root.
fn give_to_owner_of(directory: &Path, file: &File) {
    if let (Ok(wanted), Ok(found)) = (fs::metadata(directory), file.metadata())
        && wanted.uid() != found.uid()
    {
        // Only root may, and only root has to.
        let _ = fchown(file, Some(wanted.uid()), Some(wanted.gid()));
    }
}

/// Adds a line to a file, and waits for the disk. The end of a line that was cut off by a power cut is
/// taken away before.
pub(crate) fn append_line(path: &Path, line: &str) -> Result<(), PkiError> {
    append(path, line).map_err(|error| PkiError::file(path, error))
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(FILE_MODE);
    let mut file = options.open(path)?;
    give_to_owner_of(path.parent().unwrap_or(Path::new(".")), &file);
    let whole = end_of_lines(&mut file)?;
    if whole < file.metadata()?.len() {
        file.set_len(whole)?;
    }
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_all()
}

/// Where the last whole line of a file ends.
fn end_of_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    while end > 0 {
        let begin = end.saturating_sub(BLOCK_BYTES);
        file.seek(SeekFrom::Start(begin))?;
        let mut block = Vec::new();
        (&*file).take(end - begin).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Reads a file that grows with each line of [`append_line`]; none if there is none.
pub(crate) fn read_lines(path: &Path) -> Result<Option<Vec<u8>>, PkiError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PkiError::file(path, error)),
    }
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
    give_to_owner_of(directory, &file);
    file.lock().map_err(wrong)?;
    Ok(file)
}
