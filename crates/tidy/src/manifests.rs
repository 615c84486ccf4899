//! The dependencies between the crates of the workspace, from their manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use toml::{Table, Value};

/// The prefix of the names of the workspace's crates.
const PREFIX: &str = "placewright-";

/// The dependencies of a crate, without those of its tests and its build script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// The crates of the workspace, without the prefix of their names.
    pub workspace: BTreeSet<String>,
    /// The crates from the registry, by the names that they have there.
    pub others: BTreeSet<String>,
}

/// The crates of the workspace by name, without the prefix.
///
/// # Errors
///
/// If a manifest cannot be read or parsed. The text names it.
pub fn crates(root: &Path) -> Result<BTreeMap<String, Dependencies>, String> {
    let mut crates = BTreeMap::new();
    let entries = fs::read_dir(root.join("crates")).map_err(|error| error.to_string())?;
    for entry in entries {
        let path = entry
            .map_err(|error| error.to_string())?
            .path()
            .join("Cargo.toml");
        if !path.is_file() {
            continue;
        }
        let manifest = read_toml(&path)?;
        let name = manifest
            .get("package")
            .and_then(|package| package.get("name"))
            .and_then(Value::as_str)
            .ok_or_else(|| format!("{} names no package", path.display()))?;
        crates.insert(
            without_prefix(name).to_owned(),
            parse_dependencies(&manifest),
        );
    }
    Ok(crates)
}

/// Reads a TOML file.
///
/// # Errors
///
/// If it cannot be read or parsed. The text names it.
pub fn read_toml(path: &Path) -> Result<Table, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.parse()
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// All crates of the workspace on which a crate depends, directly or through others.
#[must_use]
pub fn closure(crates: &BTreeMap<String, Dependencies>, name: &str) -> BTreeSet<String> {
    let mut closure = BTreeSet::new();
    let mut pending = vec![name.to_owned()];
    while let Some(dependent) = pending.pop() {
        for dependency in crates
            .get(&dependent)
            .into_iter()
            .flat_map(|dependencies| &dependencies.workspace)
        {
            if closure.insert(dependency.clone()) {
                pending.push(dependency.clone());
            }
        }
    }
    closure
}

fn parse_dependencies(manifest: &Table) -> Dependencies {
    let mut dependencies = Dependencies::default();
    let platforms = manifest.get("target").and_then(Value::as_table);
    let tables = platforms
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    for table in std::iter::once(manifest).chain(tables) {
        let Some(entries) = table.get("dependencies").and_then(Value::as_table) else {
            continue;
        };
        for (name, value) in entries {
            // A dependency may be renamed; `package` is its name in the registry.
            let name = value.get("package").and_then(Value::as_str).unwrap_or(name);
            if name.starts_with(PREFIX) {
                dependencies
                    .workspace
                    .insert(without_prefix(name).to_owned());
            } else {
                dependencies.others.insert(name.to_owned());
            }
        }
    }
    dependencies
}

fn without_prefix(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}
