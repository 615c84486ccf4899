//! The rows that the crate declares.

use std::collections::BTreeSet;
use std::path::Path;

/// The names of all types that are declared as rows or have a form of their own, in the files of `src` and `src/forms`;
/// each with its file.
pub(crate) fn declared_types() -> BTreeSet<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut types = BTreeSet::new();
    for folder in [src.join("forms"), src] {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let declaration = ["row!(", "choice!(", "impl Form for "]
                    .iter()
                    .find_map(|start| line.strip_prefix(start));
                if let Some(declaration) = declaration {
                    let name = declaration.split([' ', '{']).next().unwrap();
                    types.insert(format!("{module}::{name}"));
                }
            }
        }
    }
    types
}
