//! The directories of the stores where options do not name them.

use std::path::PathBuf;

use super::{CellOptions, StoreOptions};

/// What the address of a store in a directory begins with.
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

/// The directory that an address of a store names.
fn directory_of(url: Option<&str>) -> Option<PathBuf> {
    url?.strip_prefix(SQLITE_SCHEME).map(PathBuf::from)
}
