//! The htpasswd file: users with bcrypt hashes.

use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::SetupError;

/// The maximum size of the file in bytes: some ten thousand users.
const BYTES_MAX: u64 = 1 << 20;
/// The accepted bcrypt costs. A check with cost 16 takes 4 s.
const ACCEPTED_COSTS: std::ops::RangeInclusive<u32> = 4..=16;
/// The cost for unknown users if the file has no users.
const COST_DEFAULT: u32 = 10;

/// The users of one version of the file.
pub(crate) struct Users {
    hashes: HashMap<String, String>,
    /// A hash that no password has, with the highest cost in the file. Passwords of unknown users are checked against
    /// it, so that their check takes as long as the slowest one of a known user.
    unknown_user_hash: String,
    /// The metadata of this version of the file.
    file_version: FileVersion,
    /// The metadata of the last invalid version of the file, so that it is reported only once.
    invalid_version: parking_lot::Mutex<Option<FileVersion>>,
}

/// The metadata by which a change of the file is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    size: u64,
    /// When the content was modified: seconds and nanoseconds since 1970.
    modified: (i64, i64),
    /// When the content or the metadata were changed: seconds and nanoseconds since 1970.
    changed: (i64, i64),
}

impl FileVersion {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Users {
    /// Reads and validates the file.
    pub(crate) fn read(path: &Path) -> Result<Self, SetupError> {
        let file_error = |source| SetupError::File {
            path: path.to_owned(),
            source,
        };
        let file = std::fs::File::open(path).map_err(file_error)?;
        let file_version = FileVersion::of(&file.metadata().map_err(file_error)?);
        let mut text = String::new();
        file.take(BYTES_MAX + 1)
            .read_to_string(&mut text)
            .map_err(file_error)?;
        if text.len() as u64 > BYTES_MAX {
            let source = std::io::Error::other(format!("it is larger than {BYTES_MAX} bytes"));
            return Err(file_error(source));
        }
        let mut hashes = HashMap::new();
        let mut cost_max = 0;
        for (index, line) in text.lines().enumerate() {
            let line_error = |reason: &str| SetupError::Htpasswd {
                path: path.to_owned(),
                line: index + 1,
                reason: reason.to_owned(),
            };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, hash) = line
                .split_once(':')
                .ok_or_else(|| line_error("expected user:hash"))?;
            // Further fields of a line are ignored.
            let hash = hash.split(':').next().unwrap_or(hash);
            cost_max = cost_max.max(cost(hash).map_err(line_error)?);
            if hashes.insert(user.to_owned(), hash.to_owned()).is_some() {
                return Err(line_error("the user is there twice"));
            }
        }
        let cost = if cost_max == 0 {
            COST_DEFAULT
        } else {
            cost_max
        };
        Ok(Self {
            hashes,
            // Dots, a character of bcrypt's base 64, for the 22 characters of the salt and the 31 of the hash.
            unknown_user_hash: format!("$2b${cost:02}${:.<53}", ""),
            file_version,
            invalid_version: parking_lot::Mutex::new(None),
        })
    }

    /// Reloads the file if it has changed. An invalid version is reported once.
    pub(crate) fn reread(&self, path: &Path) -> Result<Option<Self>, SetupError> {
        let file_error = |source| SetupError::File {
            path: path.to_owned(),
            source,
        };
        let file_version = match std::fs::metadata(path) {
            Ok(metadata) => Some(FileVersion::of(&metadata)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(file_error(error)),
        };
        if file_version == Some(self.file_version) {
            return Ok(None);
        }
        // A file that is being replaced may be missing for a moment; it is read when it is back.
        let Some(file_version) = file_version else {
            return Ok(None);
        };
        let mut invalid_version = self.invalid_version.lock();
        if *invalid_version == Some(file_version) {
            return Ok(None);
        }
        Self::read(path)
            .map(Some)
            .inspect_err(|_| *invalid_version = Some(file_version))
    }

    /// Whether the file contains the user.
    pub(crate) fn contains(&self, user: &str) -> bool {
        self.hashes.contains_key(user)
    }

    /// The hash of the user, if the file contains one.
    pub(crate) fn hash(&self, user: &str) -> Option<&str> {
        self.hashes.get(user).map(String::as_str)
    }

    /// Whether the password is right. The check of an unknown user takes as long as the slowest one of a known user.
    /// Checks are slow, so they must not run on a thread of the async runtime.
    pub(crate) fn verify(&self, user: &str, password: &[u8]) -> bool {
        let user_hash = self.hashes.get(user);
        let is_right =
            bcrypt::verify(password, user_hash.unwrap_or(&self.unknown_user_hash)).unwrap_or(false);
        is_right & user_hash.is_some()
    }
}

/// The cost parameter of a bcrypt hash.
fn cost(hash: &str) -> Result<u32, &'static str> {
    let parts = ["$2a$", "$2b$", "$2y$"]
        .iter()
        .any(|version| hash.starts_with(version))
        .then(|| hash.parse::<bcrypt::HashParts>().ok())
        .flatten()
        .ok_or("not a bcrypt hash: make the line with htpasswd -B")?;
    let cost = parts.get_cost();
    if ACCEPTED_COSTS.contains(&cost) {
        Ok(cost)
    } else {
        Err("the cost must be 4 to 16")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_of_an_unknown_user_has_the_highest_cost_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("htpasswd");
        for (costs, expected) in [(&[4, 6, 5][..], 6), (&[], COST_DEFAULT)] {
            let line = |&cost: &u32| format!("u{cost}:{}\n", bcrypt::hash("p", cost).unwrap());
            std::fs::write(&path, costs.iter().map(line).collect::<String>()).unwrap();
            let users = Users::read(&path).unwrap();
            assert_eq!(cost(&users.unknown_user_hash), Ok(expected));
            // An error would mean that bcrypt did no work.
            assert!(!bcrypt::verify("p", &users.unknown_user_hash).unwrap());
            assert!(!users.verify("nobody", b"p"));
            assert!(
                costs
                    .iter()
                    .all(|cost| users.verify(&format!("u{cost}"), b"p"))
            );
        }
    }
}
