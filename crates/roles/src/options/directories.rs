//! The directories of the stores where options do not name them.

use std::path::PathBuf;

use super::{CellOptions, StoreOptions};

impl StoreOptions {
    /// The store's directory, configured or default.
    pub fn directory(&self) -> PathBuf {
        let state = || std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
        self.path.clone().unwrap_or_else(|| {
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
        self.store_path.clone().unwrap_or_else(|| {
            state()
                .unwrap_or_else(|| PathBuf::from("placewright-data"))
                .join("cell")
        })
    }
}
