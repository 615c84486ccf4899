//! Lists of the present exceptions from limits. The lists only get shorter.
//!
//! A list is a file of `known/` with a line for each exception: its size, a space, and its name. What is listed, and
//! how its size is counted, is in the first line of each list. A test measures the present sizes and calls
//! [`check_list`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Sizes by name, as measured or as in a list.
pub type Sizes = BTreeMap<String, usize>;

/// The environment variable with which the lists are written. With `1`, sizes that got smaller and names that were only
/// moved or renamed are written, and sizes that grew still fail. With `accept`, all measured sizes are written; this is
/// for merges of branches that changed the lists separately.
pub const UPDATE: &str = "UPDATE_RATCHET";

/// Compares the measured sizes with the list `name`, and writes the list if [`UPDATE`] is set.
///
/// # Errors
///
/// A size grew or a name is new; the list has a size larger than the measured one, or a name that no longer exists; or
/// the list cannot be read or written. The text says what to do.
pub fn check_list(name: &str, measured: &Sizes) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("known")
        .join(name);
    let text = fs::read_to_string(&path).map_err(|error| file_error(&path, &error))?;
    let listed = parse(&text).map_err(|line| format!("{}: `{line}`", path.display()))?;
    let updated = match std::env::var(UPDATE).as_deref() {
        Err(_) => listed,
        Ok("accept") => measured.clone(),
        Ok(_) => ratchet(&listed, measured),
    };
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, list_text(&text, &updated)).map_err(|error| file_error(&path, &error))?;
    }
    let differences = compare(&updated, measured);
    if differences.is_empty() {
        Ok(())
    } else {
        Err(advice(&path, &differences))
    }
}

/// The list after a measurement: with sizes that got smaller, without names that no longer exist, and
/// with names that were moved. A new name counts as moved if a removed name had at least its size; each
/// removed name allows one new name.
#[must_use]
pub fn ratchet(listed: &Sizes, measured: &Sizes) -> Sizes {
    let mut updated = Sizes::new();
    let mut new = Vec::new();
    for (name, &size) in measured {
        match listed.get(name) {
            Some(&limit) => {
                updated.insert(name.clone(), size.min(limit));
            }
            None => new.push((size, name)),
        }
    }
    let removed = listed
        .iter()
        .filter(|(name, _)| !measured.contains_key(*name));
    let mut removed_sizes: Vec<usize> = removed.map(|(_, &size)| size).collect();
    removed_sizes.sort_unstable();
    new.sort_unstable_by(|a, b| b.cmp(a));
    for (size, name) in new {
        if let Some(index) = removed_sizes.iter().position(|&limit| limit >= size) {
            removed_sizes.remove(index);
            updated.insert(name.clone(), size);
        }
    }
    updated
}

/// The differences between the list and a measurement, a line for each.
#[must_use]
pub fn compare(listed: &Sizes, measured: &Sizes) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, &size) in measured {
        match listed.get(name) {
            None => differences.push(format!("new: {name}: {size}")),
            Some(&limit) if size > limit => {
                differences.push(format!("grew: {name}: {size}, at most {limit}"));
            }
            Some(&limit) if size < limit => {
                differences.push(format!(
                    "better: {name}: {size}, the list still says {limit}"
                ));
            }
            Some(_) => {}
        }
    }
    let removed = listed
        .iter()
        .filter(|(name, _)| !measured.contains_key(*name));
    differences.extend(
        removed.map(|(name, size)| format!("gone: {name}, which the list has with {size}")),
    );
    differences
}

/// The text for somebody whose change made the list differ.
fn advice(path: &Path, differences: &[String]) -> String {
    let list = PathBuf::from("crates/tidy/known").join(path.file_name().unwrap_or_default());
    format!(
        "\n{}\n\n\
         Make what is `new` or `grew` smaller, or part it. What is better, gone, moved or renamed \
         goes into {} with\n\n    {UPDATE}=1 cargo test -p placewright-tidy\n\n\
         and is committed with the change.\n",
        differences.join("\n"),
        list.display(),
    )
}

fn file_error(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The sizes in a list, or the first line that is not valid.
fn parse(text: &str) -> Result<Sizes, &str> {
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (size, name) = line.split_once(' ').ok_or(line)?;
            Ok((name.to_owned(), size.parse().map_err(|_| line)?))
        })
        .collect()
}

/// The text of a list, with the comments of its previous text.
fn list_text(previous_text: &str, entries: &Sizes) -> String {
    let comments = previous_text
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(str::to_owned);
    let lines = entries.iter().map(|(name, size)| format!("{size} {name}"));
    comments.chain(lines).map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::{Sizes, compare, ratchet};

    fn entries(entries: &[(&str, usize)]) -> Sizes {
        entries
            .iter()
            .map(|&(name, size)| (name.to_owned(), size))
            .collect()
    }

    #[test]
    fn smaller_sizes_and_moved_names_are_written() {
        let listed = entries(&[("a.rs", 600), ("b.rs", 700), ("c.rs", 800)]);
        let measured = entries(&[("a.rs", 550), ("moved/b.rs", 700)]);
        let updated = ratchet(&listed, &measured);
        assert_eq!(updated, measured);
        assert!(compare(&updated, &measured).is_empty());
    }

    #[test]
    fn larger_sizes_and_new_names_fail() {
        let listed = entries(&[("a.rs", 600), ("b.rs", 700)]);
        let measured = entries(&[("a.rs", 601), ("b.rs", 700), ("new.rs", 510)]);
        let updated = ratchet(&listed, &measured);
        assert_eq!(updated, listed);
        assert_eq!(
            compare(&updated, &measured),
            ["grew: a.rs: 601, at most 600", "new: new.rs: 510"],
        );
    }

    #[test]
    fn a_removed_name_allows_one_new_name_of_its_size() {
        let listed = entries(&[("a.rs", 600)]);
        let measured = entries(&[("b.rs", 600), ("c.rs", 550)]);
        assert_eq!(ratchet(&listed, &measured), entries(&[("b.rs", 600)]));
        assert_eq!(ratchet(&listed, &entries(&[("b.rs", 601)])), Sizes::new());
    }

    #[test]
    fn a_list_with_too_large_sizes_or_removed_names_fails() {
        let listed = entries(&[("a.rs", 600), ("b.rs", 700)]);
        let measured = entries(&[("a.rs", 590)]);
        let differences = compare(&listed, &measured);
        assert_eq!(differences.len(), 2, "{differences:?}");
    }
}
