//! Files and directories that only their owner can read, whatever the umask: a store contains data
//! of every tenant.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// The mode of a private directory.
#[cfg(unix)]
const DIRECTORY_MODE: u32 = 0o700;
/// The mode of a private file.
#[cfg(unix)]
const FILE_MODE: u32 = 0o600;

/// Creates a directory and its missing parents with access for the owner alone. An existing
/// directory keeps its mode.
///
/// # Errors
/// Errors of the file system.
pub fn create_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        create_directory(parent)?;
    }
    match create_single_directory(path) {
        // Another process has created the directory meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        result => result,
    }
}

#[cfg(unix)]
fn create_single_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path)?;
    // Set explicitly, because a umask that removes the owner's bits would make the directory
    // unusable.
    fs::set_permissions(path, fs::Permissions::from_mode(DIRECTORY_MODE))
}

#[cfg(not(unix))]
fn create_single_directory(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

/// Opens a file for reading and writing. A missing one is created for its owner alone; an existing one keeps its mode
/// and content. A file that root creates is given to the owner of the directory, because the service runs as that user.
///
/// # Errors
/// Errors of the file system; a symbolic link is an error, too.
pub fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    refuse_links(options.read(true).write(true));
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match create_new(&mut options.clone(), path) {
        // Another process has created the file meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path),
        created => created,
    }
}

/// Makes opening a symbolic link an error. Root runs commands in a directory that belongs to the user of the service,
/// who must not be able to direct them to a file of somebody else.
#[cfg(target_os = "linux")]
pub(crate) fn refuse_links(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn refuse_links(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Creates a file for its owner alone, replacing an existing one.
///
/// # Errors
/// Errors of the file system.
pub fn create_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create_new(OpenOptions::new().read(true).write(true), path)
}

#[cfg(unix)]
fn create_new(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let file = options.create_new(true).mode(FILE_MODE).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
    if let Some(directory) = path.parent() {
        give_to_owner_of(directory, &file);
    }
    Ok(file)
}

#[cfg(not(unix))]
fn create_new(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.create_new(true).open(path)
}

/// Gives a file that root created to the owner of its directory: otherwise the user of the service could
/// not open the file.
#[cfg(unix)]
pub(crate) fn give_to_owner_of(directory: &Path, file: &File) {
    use std::os::unix::fs::{MetadataExt, fchown};
    if let (Ok(directory_metadata), Ok(file_metadata)) = (fs::metadata(directory), file.metadata())
        && directory_metadata.uid() != file_metadata.uid()
    {
        // An error is ignored: only root may change the owner, and only files of root need another owner.
        let _ = fchown(
            file,
            Some(directory_metadata.uid()),
            Some(directory_metadata.gid()),
        );
    }
}

#[cfg(not(unix))]
pub(crate) fn give_to_owner_of(_directory: &Path, _file: &File) {}

/// The access that other users of the machine have to the content of a directory: the mode of the
/// directory, and the name of a file that they can read or write, which is empty if they can write to the
/// directory itself. `None` if they have no access.
#[cfg(unix)]
pub fn access_of_others(directory: &Path) -> Option<(u32, String)> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(directory).ok()?.permissions().mode() & 0o777;
    // Without search permission on the directory no file in it can be reached; with write
    // permission files can be added.
    if mode & 0o022 != 0 {
        return Some((mode, String::new()));
    }
    if mode & 0o011 == 0 {
        return None;
    }
    let entries = fs::read_dir(directory).ok()?;
    let open = entries.flatten().find(|entry| {
        let metadata = entry.metadata();
        metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o066 != 0)
    })?;
    Some((mode, open.file_name().to_string_lossy().into_owned()))
}

/// Always `None`: other systems do not have these modes.
#[cfg(not(unix))]
pub fn access_of_others(_directory: &Path) -> Option<(u32, String)> {
    None
}
