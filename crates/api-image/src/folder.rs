//! The folder with the bytes of images: a file for each, with the image's UUID as its name.
//!
//! A file that is being written has another name. It gets its final name when all of it is on the disk, and is never
//! written again. The functions here block, so callers run them on threads that may block.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use placewright_conductor::super_conductor::ImageContent;
use tempfile::NamedTempFile;
use thiserror::Error;
use uuid::Uuid;

use crate::hashing_writer::HashingWriter;

/// The prefix of the names of files that are still being written.
const UNFINISHED: &str = ".upload-";

/// Files that belong to no image are removed when they are older than this. Younger ones may be those of uploads
/// that other processes on the same folder are about to finish.
const LEFT_OVER_AGE: Duration = Duration::from_secs(24 * 3600);

/// Why a folder of images cannot be used.
#[derive(Debug, Error)]
#[error("{}: it cannot be used as the folder of images: {error}", path.display())]
pub struct FolderError {
    path: PathBuf,
    #[source]
    error: io::Error,
}

/// The folder with the bytes of images.
#[derive(Clone, Debug)]
pub struct ImageFolder {
    path: PathBuf,
}

impl ImageFolder {
    /// Opens a folder, which is made for its owner alone if it does not exist. Where an operator lets the folder's
    /// group read it, for agents that run as another user, the group may read the files too.
    ///
    /// # Errors
    ///
    /// The folder cannot be made or written to.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, FolderError> {
        let folder = Self { path: path.into() };
        let opened = folder.make().and_then(|()| folder.begin().map(drop));
        match opened {
            Ok(()) => Ok(folder),
            Err(error) => Err(FolderError {
                path: folder.path,
                error,
            }),
        }
    }

    fn make(&self) -> io::Result<()> {
        if self.path.is_dir() {
            return Ok(());
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
    }

    /// The permissions of the files: their owner writes them, and the folder's group reads them if it reads the folder.
    fn file_permissions(&self) -> io::Result<Permissions> {
        let folder_mode = fs::metadata(&self.path)?.permissions().mode();
        Ok(Permissions::from_mode(0o600 | (folder_mode & 0o040)))
    }

    /// The file of an image.
    pub(crate) fn path_of(&self, image: Uuid) -> PathBuf {
        self.path.join(image.to_string())
    }

    /// Begins a file, which is removed when it is dropped before [`Self::finish`].
    pub(crate) fn begin(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new()
            .prefix(UNFINISHED)
            .permissions(self.file_permissions()?)
            .tempfile_in(&self.path)
    }

    /// Gives a file that is complete its final name. The bytes and the name are on the disk when this returns.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] when the image has a file already, which stays as it is.
    pub(crate) fn finish(&self, file: NamedTempFile, image: Uuid) -> io::Result<()> {
        file.as_file().sync_all()?;
        file.persist_noclobber(self.path_of(image))
            .map_err(|error| error.error)?;
        self.sync()
    }

    /// Writes the file of an image that comes with the program. A file that the image has already is replaced.
    ///
    /// # Errors
    ///
    /// The disk fails, or is full.
    pub fn put(&self, image: Uuid, bytes: &[u8]) -> io::Result<ImageContent> {
        self.remove(image)?;
        let mut writer = HashingWriter::new(self.begin()?);
        writer.write(bytes)?;
        let (file, content) = writer.finish();
        self.finish(file, image)?;
        Ok(content)
    }

    /// Removes the file of an image, if there is one.
    pub(crate) fn remove(&self, image: Uuid) -> io::Result<()> {
        match fs::remove_file(self.path_of(image)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// How many bytes are free in the file system of the folder.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        let system = rustix::fs::statvfs(&self.path)?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize))
    }

    /// Removes old files that belong to no image, such as those of uploads and deletions that ended with their process.
    /// Returns the number of removed files. `is_known` returns whether an image has bytes.
    ///
    /// # Errors
    ///
    /// The folder cannot be read. A file that cannot be removed is left where it is.
    pub fn remove_left_over(&self, is_known: impl Fn(Uuid) -> bool) -> io::Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or("");
            let is_of_no_image = match Uuid::try_parse(name) {
                Ok(image) => !is_known(image),
                Err(_) => name.starts_with(UNFINISHED),
            };
            if is_of_no_image && is_old(&path) && fs::remove_file(&path).is_ok() {
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

fn is_old(path: &Path) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    let age = modified.map(|modified| SystemTime::now().duration_since(modified));
    matches!(age, Ok(Ok(age)) if age > LEFT_OVER_AGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn images_are_for_their_owner_unless_the_group_may_read_the_folder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("site/images");
        let folder = ImageFolder::open(&path).unwrap();
        let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
        folder.put(first, b"bytes").unwrap();
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&folder.path_of(first)), 0o600);

        fs::set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
        folder.put(second, b"bytes").unwrap();
        assert_eq!(mode(&folder.path_of(second)), 0o640);
    }
}
