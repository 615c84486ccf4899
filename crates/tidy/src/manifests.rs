//! Which crate of the workspace uses which, as their manifests say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use toml::{Table, Value};

/// What the names of the workspace's crates begin with.
const PREFIX: &str = "placewright-";

/// What one crate uses, apart from its tests and its build script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    /// The crates of this workspace, without the prefix of their names.
    pub own: BTreeSet<String>,
    /// All other crates.
    pub others: BTreeSet<String>,
}

/// The crates of the workspace by name, without the prefix.
///
/// # Errors
///
/// If a manifest cannot be read. The text names it.
pub fn crates(root: &Path) -> Result<BTreeMap<String, Uses>, String> {
    let mut found = BTreeMap::new();
    let entries = fs::read_dir(root.join("crates")).map_err(|error| error.to_string())?;
    for entry in entries {
        let path = entry
            .map_err(|error| error.to_string())?
            .path()
            .join("Cargo.toml");
        if !path.is_file() {
            continue;
        }
        let manifest = table(&path)?;
        let name = manifest
            .get("package")
            .and_then(|package| package.get("name"))
            .and_then(Value::as_str)
            .ok_or_else(|| format!("{} names no package", path.display()))?;
        found.insert(short(name).to_owned(), uses(&manifest));
    }
    Ok(found)
}

/// A file of TOML.
///
/// # Errors
///
/// If it cannot be read. The text names it.
pub fn table(path: &Path) -> Result<Table, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.parse()
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Everything of the workspace that a crate uses, directly or through others.
#[must_use]
pub fn closure(crates: &BTreeMap<String, Uses>, name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![name.to_owned()];
    while let Some(next) = open.pop() {
        for used in crates.get(&next).into_iter().flat_map(|uses| &uses.own) {
            if found.insert(used.clone()) {
                open.push(used.clone());
            }
        }
    }
    found
}

fn uses(manifest: &Table) -> Uses {
    let mut uses = Uses::default();
    let platforms = manifest.get("target").and_then(Value::as_table);
    let tables = platforms
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    for table in std::iter::once(manifest).chain(tables) {
        let Some(dependencies) = table.get("dependencies").and_then(Value::as_table) else {
            continue;
        };
        for (name, value) in dependencies {
            // A dependency may have another name in the code than in the registry.
            let name = value.get("package").and_then(Value::as_str).unwrap_or(name);
            if name.starts_with(PREFIX) {
                uses.own.insert(short(name).to_owned());
            } else {
                uses.others.insert(name.to_owned());
            }
        }
    }
    uses
}

fn short(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}
