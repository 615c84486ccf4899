//! The source files of the workspace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A Rust source file.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// The path from the root of the workspace, with `/` between the parts.
    pub path: String,
    /// The contents of the file.
    pub text: String,
}

impl SourceFile {
    /// The number of lines.
    #[must_use]
    pub fn line_count(&self) -> usize {
        self.text.lines().count()
    }
}

/// The root directory of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_directory
        .ancestors()
        .nth(2)
        .unwrap_or(crate_directory)
        .to_path_buf()
}

/// All Rust files below `crates/`: sources, tests, examples and benches, ordered by path.
///
/// # Errors
///
/// If a directory or a file cannot be read.
pub fn rust_files(root: &Path) -> io::Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    collect_paths(&root.join("crates"), &mut paths)?;
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

fn collect_paths(directory: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            // The target directory of a crate that was built without the workspace.
            if entry.file_name() != "target" {
                collect_paths(&path, paths)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}
