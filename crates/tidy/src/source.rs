//! The source files of the workspace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A Rust source file.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Its path from the root of the workspace, with `/` between the parts.
    pub path: String,
    /// What it contains.
    pub text: String,
}

impl SourceFile {
    /// How many lines it has.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.text.lines().count()
    }
}

/// The root of the workspace that this crate belongs to.
#[must_use]
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// All Rust files below `crates/`: sources, tests, examples and benches, ordered by path.
///
/// # Errors
///
/// If a directory or a file cannot be read.
pub fn rust_files(root: &Path) -> io::Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    gather(&root.join("crates"), &mut paths)?;
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path)?;
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let path = relative.to_string_lossy().replace('\\', "/");
            Ok(SourceFile { path, text })
        })
        .collect()
}

fn gather(directory: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            // A crate that was built on its own has a target directory.
            if entry.file_name() != "target" {
                gather(&path, paths)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}
