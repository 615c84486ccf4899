//! The htpasswd file: users with bcrypt hashes.

use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::SetupError;

/// The maximum size of the file in bytes: some ten thousand users.
const BYTES_MAX: u64 = 1 << 20;
/// The accepted bcrypt costs: a check with 16 already takes 4 s.
const COSTS: std::ops::RangeInclusive<u32> = 4..=16;
/// The cost for unknown users if the file has no users.
const COST_DEFAULT: u32 = 10;

/// The users of one version of the file.
pub(crate) struct Users {
    hashes: HashMap<String, String>,
    /// A hash without a known password, with the highest cost in the file. Unknown users are
    /// checked against it, so that they take as long as known ones.
    nobody: String,
    /// The metadata of this version.
    stamp: Stamp,
    /// The metadata of the last invalid version, so that it is reported once.
    refused: parking_lot::Mutex<Option<Stamp>>,
}

/// The metadata by which a change of the file is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
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
        let failed = |source| SetupError::File {
            path: path.to_owned(),
            source,
        };
        let file = std::fs::File::open(path).map_err(failed)?;
        let stamp = Stamp::of(&file.metadata().map_err(failed)?);
        let mut text = String::new();
        file.take(BYTES_MAX + 1)
            .read_to_string(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > BYTES_MAX {
            let source = std::io::Error::other(format!("it is larger than {BYTES_MAX} bytes"));
            return Err(failed(source));
        }
        let mut hashes = HashMap::new();
        let mut cost_max = 0;
        for (at, line) in text.lines().enumerate() {
            let wrong = |reason: &str| SetupError::Htpasswd {
                path: path.to_owned(),
                line: at + 1,
                reason: reason.to_owned(),
            };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, hash) = line
                .split_once(':')
                .ok_or_else(|| wrong("expected user:hash"))?;
            let hash = hash.split(':').next().unwrap_or(hash);
            cost_max = cost_max.max(cost(hash).map_err(wrong)?);
            if hashes.insert(user.to_owned(), hash.to_owned()).is_some() {
                return Err(wrong("the user is there twice"));
            }
        }
        let cost = if cost_max == 0 {
            COST_DEFAULT
        } else {
            cost_max
        };
        Ok(Self {
            hashes,
            nobody: format!("$2b${cost:02}${:.<53}", ""),
            stamp,
            refused: parking_lot::Mutex::new(None),
        })
    }

    /// Reloads the file if it has changed. An invalid version is reported once.
    pub(crate) fn reread(&self, path: &Path) -> Result<Option<Self>, SetupError> {
        let failed = |source| SetupError::File {
            path: path.to_owned(),
            source,
        };
        let stamp = match std::fs::metadata(path) {
            Ok(metadata) => Some(Stamp::of(&metadata)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if stamp == Some(self.stamp) {
            return Ok(None);
        }
        // A file that is being replaced may be missing for a moment; it is read when it is back.
        let Some(stamp) = stamp else { return Ok(None) };
        let mut refused = self.refused.lock();
        if *refused == Some(stamp) {
            return Ok(None);
        }
        Self::read(path)
            .map(Some)
            .inspect_err(|_| *refused = Some(stamp))
    }

    /// Whether the file contains the user.
    pub(crate) fn contains(&self, user: &str) -> bool {
        self.hashes.contains_key(user)
    }

    /// The hash of the user, if the file contains one.
    pub(crate) fn hash(&self, user: &str) -> Option<&str> {
        self.hashes.get(user).map(String::as_str)
    }

    /// Whether the password is right. Takes as long for users that do not exist. Slow: do not call
    /// it on a thread of the runtime.
    pub(crate) fn verify(&self, user: &str, password: &[u8]) -> bool {
        let known = self.hashes.get(user);
        let right = bcrypt::verify(password, known.unwrap_or(&self.nobody)).unwrap_or(false);
        right & known.is_some()
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
    if COSTS.contains(&cost) {
        Ok(cost)
    } else {
        Err("the cost must be 4 to 16")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_user_costs_the_work_of_the_costliest_known_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("htpasswd");
        for (costs, expected) in [(&[4, 6, 5][..], 6), (&[], COST_DEFAULT)] {
            let line = |&cost: &u32| format!("u{cost}:{}\n", bcrypt::hash("p", cost).unwrap());
            std::fs::write(&path, costs.iter().map(line).collect::<String>()).unwrap();
            let users = Users::read(&path).unwrap();
            assert_eq!(cost(&users.nobody), Ok(expected));
            // An error would mean that bcrypt did no work.
            assert!(!bcrypt::verify("p", &users.nobody).unwrap());
            assert!(!users.verify("nobody", b"p"));
            assert!(
                costs
                    .iter()
                    .all(|cost| users.verify(&format!("u{cost}"), b"p"))
            );
        }
    }
}
