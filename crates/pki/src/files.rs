//! Files that only their owner can read. They are replaced as a whole, or lines are appended to them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::PkiError;

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The largest file that [`read`] accepts. The files of lines, to which lines are only appended, have no limit.
const BYTES_MAX: u64 = 16 << 20;
/// The size of the blocks in which the last line end of a file is searched, from its end.
const BLOCK_BYTES: u64 = 4096;

/// Creates a directory and its parents with access for the owner only. An existing one keeps its mode.
pub(crate) fn make_directory(path: &Path) -> Result<(), PkiError> {
    let mut builder = DirBuilder::new();
    let result = builder.recursive(true).mode(DIRECTORY_MODE).create(path);
    result.map_err(|error| PkiError::file(path, error))
}

/// The new content of a file, which is on the disk beside the file. Without [`Self::commit`] it is removed.
#[derive(Debug)]
pub(crate) struct Staged {
    path: PathBuf,
    file: NamedTempFile,
}

impl Staged {
    /// Writes the new content of a file. What can fail for want of room or of rights fails here.
    pub(crate) fn write(path: &Path, content: &[u8]) -> Result<Self, PkiError> {
        let file_error = |error| PkiError::file(path, error);
        let directory = path.parent().unwrap_or(Path::new("."));
        make_directory(directory)?;
        let mut file = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(FILE_MODE))
            .tempfile_in(directory)
            .map_err(file_error)?;
        give_to_owner_of_directory(directory, file.as_file());
        file.write_all(content).map_err(file_error)?;
        file.as_file().sync_all().map_err(file_error)?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Puts the new content in the place of the old one.
    pub(crate) fn commit(self) -> Result<(), PkiError> {
        let path = &self.path;
        let file_error = |error| PkiError::file(path, error);
        self.file
            .persist(path)
            .map_err(|error| file_error(error.error))?;
        let directory = path.parent().unwrap_or(Path::new("."));
        let directory = File::open(directory).map_err(file_error)?;
        directory.sync_all().map_err(file_error)
    }
}

/// Replaces a file atomically: readers find either the old or the new content, also after a power
/// failure.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), PkiError> {
    Staged::write(path, content)?.commit()
}

/// Gives a file that root created to the owner of its directory, because the service, which uses the
/// file too, usually runs as another user.
fn give_to_owner_of_directory(directory: &Path, file: &File) {
    if let (Ok(directory_metadata), Ok(file_metadata)) = (fs::metadata(directory), file.metadata())
        && directory_metadata.uid() != file_metadata.uid()
    {
        // This fails for other users than root, whose files have the right owner anyway.
        let _ = fchown(
            file,
            Some(directory_metadata.uid()),
            Some(directory_metadata.gid()),
        );
    }
}

/// Appends a line to a file, and waits for the disk. An incomplete last line, which a power failure left,
/// is removed first.
pub(crate) fn append_line(path: &Path, line: &str) -> Result<(), PkiError> {
    append(path, line).map_err(|error| PkiError::file(path, error))
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(FILE_MODE);
    let mut file = options.open(path)?;
    give_to_owner_of_directory(path.parent().unwrap_or(Path::new(".")), &file);
    let lines_end = end_of_last_line(&mut file)?;
    if lines_end < file.metadata()?.len() {
        file.set_len(lines_end)?;
    }
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_all()
}

/// Where the last whole line of a file ends.
fn end_of_last_line(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    while end > 0 {
        let start = end.saturating_sub(BLOCK_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut block = Vec::new();
        (&*file).take(end - start).read_to_end(&mut block)?;
        if let Some(position) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + position as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Reads a file of lines, of any size; `None` if it does not exist.
pub(crate) fn read_lines(path: &Path) -> Result<Option<Vec<u8>>, PkiError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PkiError::file(path, error)),
    }
}

/// Reads a whole file of at most [`BYTES_MAX`] bytes.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, PkiError> {
    let file_error = |error| PkiError::file(path, error);
    let length = fs::metadata(path).map_err(file_error)?.len();
    if length > BYTES_MAX {
        return Err(PkiError::content(path, format!("it has {length} bytes")));
    }
    fs::read(path).map_err(file_error)
}

/// Reads a file; `None` if it does not exist.
pub(crate) fn read_if_exists(path: &Path) -> Result<Option<Vec<u8>>, PkiError> {
    match read(path) {
        Ok(content) => Ok(Some(content)),
        Err(PkiError::File { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Locks a folder against other processes as long as the returned file is open.
pub(crate) fn lock(directory: &Path) -> Result<File, PkiError> {
    let path = directory.join("lock");
    let file_error = |error| PkiError::file(&path, error);
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(&path);
    let file = file.map_err(file_error)?;
    give_to_owner_of_directory(directory, &file);
    file.lock().map_err(file_error)?;
    Ok(file)
}
