//! The directories of the stores where options do not name them.

use std::path::PathBuf;

use super::{CellOptions, StoreOptions};

/// The beginning of the address of a store in a directory.
pub(crate) const SQLITE_SCHEME: &str = "sqlite:";

impl StoreOptions {
    /// The store's directory, configured or default.
    pub fn directory(&self) -> PathBuf {
        let state = || std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
        let directory = || directory_of(self.url.as_deref());
        self.path.clone().or_else(directory).unwrap_or_else(|| {
            state()
                .unwrap_or_else(|| PathBuf::from("placewright-data"))
                .join("placement")
        })
    }
}

impl StoreOptions {
    /// The location of the store for operators, without the names and passwords of users and the options of the URL.
    pub(crate) fn location(&self) -> String {
        match self.url.as_deref() {
            Some(url) if !url.starts_with(SQLITE_SCHEME) => without_secrets(url),
            _ => format!("{SQLITE_SCHEME}{}", self.directory().display()),
        }
    }
}

/// An address without its parts that may be secret, which are before an `@` and after a `?`. Empty if the address
/// has no scheme.
fn without_secrets(url: &str) -> String {
    let url = url.split('?').next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, address)) => {
            let after_user = address.rsplit_once('@').map(|(_, after_user)| after_user);
            format!("{scheme}://{}", after_user.unwrap_or(address))
        }
        None => String::new(),
    }
}

impl CellOptions {
    /// The store's directory, configured or default.
    pub fn directory(&self) -> PathBuf {
        let state = || std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
        let directory = || directory_of(self.store_url.as_deref());
        self.store_path
            .clone()
            .or_else(directory)
            .unwrap_or_else(|| {
                state()
                    .unwrap_or_else(|| PathBuf::from("placewright-data"))
                    .join("cell")
            })
    }
}

/// The directory that an address of a store names; `None` if the store is not in a directory.
fn directory_of(url: Option<&str>) -> Option<PathBuf> {
    url?.strip_prefix(SQLITE_SCHEME).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn a_location_has_neither_passwords_nor_options() {
        for (url, location) in [
            ("etcd://a:2379,b:2379/p", "etcd://a:2379,b:2379/p"),
            ("etcds://root:s3cret@a/p?password=s3cret", "etcds://a/p"),
            ("postgresql://u:a@b@h/db?password=x", "postgresql://h/db"),
            ("s3cret", ""),
        ] {
            assert_eq!(without_secrets(url), location);
        }
    }
}
