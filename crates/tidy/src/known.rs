//! Lists of what is known to be wrong today, which only get shorter.
//!
//! A list is a file of `known/`, a line for each entry: a number, a space, and what the number is
//! about. A test measures the same anew and calls [`hold`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What was measured, or what a list says: a number for each name.
pub type Entries = BTreeMap<String, usize>;

/// The variable that has the lists written. With `1` they take what got smaller, and what was only
/// moved or renamed; what grew stays out of them and fails. With `accept` they take everything, for
/// whoever merges work that was measured apart.
pub const UPDATE: &str = "UPDATE_RATCHET";

/// Compares what was `found` with the list `name`, and writes the list if [`UPDATE`] says so.
///
/// # Errors
///
/// If something grew or is new, if the list says more than there is, or if the list cannot be read
/// or written. The text says what to do.
pub fn hold(name: &str, found: &Entries) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("known")
        .join(name);
    let text = fs::read_to_string(&path).map_err(|error| cannot(&path, &error))?;
    let known = parse(&text).map_err(|line| format!("{}: `{line}`", path.display()))?;
    let next = match std::env::var(UPDATE).as_deref() {
        Err(_) => known,
        Ok("accept") => found.clone(),
        Ok(_) => ratchet(&known, found),
    };
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, print(&text, &next)).map_err(|error| cannot(&path, &error))?;
    }
    let wrong = compare(&next, found);
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(advice(&path, &wrong))
    }
}

/// The list after what was `found`: lower where that is lower, without what is gone, and with what
/// was moved. An entry counts as moved if one that is gone was at least as large; each of those
/// makes room for one.
#[must_use]
pub fn ratchet(known: &Entries, found: &Entries) -> Entries {
    let mut next = Entries::new();
    let mut new = Vec::new();
    for (name, &size) in found {
        match known.get(name) {
            Some(&limit) => {
                next.insert(name.clone(), size.min(limit));
            }
            None => new.push((size, name)),
        }
    }
    let gone = known.iter().filter(|(name, _)| !found.contains_key(*name));
    let mut room: Vec<usize> = gone.map(|(_, &size)| size).collect();
    room.sort_unstable();
    new.sort_unstable_by(|a, b| b.cmp(a));
    for (size, name) in new {
        if let Some(at) = room.iter().position(|&limit| limit >= size) {
            room.remove(at);
            next.insert(name.clone(), size);
        }
    }
    next
}

/// What is wrong with the list `known`, now that this was `found`: a line each.
#[must_use]
pub fn compare(known: &Entries, found: &Entries) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, &size) in found {
        match known.get(name) {
            None => wrong.push(format!("new: {name}: {size}")),
            Some(&limit) if size > limit => {
                wrong.push(format!("grew: {name}: {size}, at most {limit}"));
            }
            Some(&limit) if size < limit => {
                wrong.push(format!(
                    "better: {name}: {size}, the list still says {limit}"
                ));
            }
            Some(_) => {}
        }
    }
    let gone = known.iter().filter(|(name, _)| !found.contains_key(*name));
    wrong.extend(gone.map(|(name, size)| format!("gone: {name}, which the list has with {size}")));
    wrong
}

fn advice(path: &Path, wrong: &[String]) -> String {
    let list = PathBuf::from("crates/tidy/known").join(path.file_name().unwrap_or_default());
    format!(
        "\n{}\n\n\
         Make what is `new` or `grew` smaller, or part it. What is better, gone, moved or renamed \
         goes into {} with\n\n    {UPDATE}=1 cargo test -p placewright-tidy\n\n\
         and is committed with the change.\n",
        wrong.join("\n"),
        list.display(),
    )
}

fn cannot(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The entries of a list, or the first line that is none.
fn parse(text: &str) -> Result<Entries, &str> {
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

/// The list as a file, with the comments that `before` begins with.
fn print(before: &str, entries: &Entries) -> String {
    let comments = before
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(str::to_owned);
    let lines = entries.iter().map(|(name, size)| format!("{size} {name}"));
    comments.chain(lines).map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::{Entries, compare, ratchet};

    fn entries(entries: &[(&str, usize)]) -> Entries {
        entries
            .iter()
            .map(|&(name, size)| (name.to_owned(), size))
            .collect()
    }

    #[test]
    fn what_shrinks_or_moves_is_taken_over() {
        let known = entries(&[("a.rs", 600), ("b.rs", 700), ("c.rs", 800)]);
        let found = entries(&[("a.rs", 550), ("moved/b.rs", 700)]);
        let next = ratchet(&known, &found);
        assert_eq!(next, found);
        assert!(compare(&next, &found).is_empty());
    }

    #[test]
    fn what_grows_or_is_new_fails_whatever_is_taken_over() {
        let known = entries(&[("a.rs", 600), ("b.rs", 700)]);
        let found = entries(&[("a.rs", 601), ("b.rs", 700), ("new.rs", 510)]);
        let next = ratchet(&known, &found);
        assert_eq!(next, known);
        assert_eq!(
            compare(&next, &found),
            ["grew: a.rs: 601, at most 600", "new: new.rs: 510"],
        );
    }

    #[test]
    fn one_that_is_gone_makes_room_for_one_of_its_size() {
        let known = entries(&[("a.rs", 600)]);
        let found = entries(&[("b.rs", 600), ("c.rs", 550)]);
        assert_eq!(ratchet(&known, &found), entries(&[("b.rs", 600)]));
        assert_eq!(ratchet(&known, &entries(&[("b.rs", 601)])), Entries::new());
    }

    #[test]
    fn a_list_that_says_too_much_fails() {
        let known = entries(&[("a.rs", 600), ("b.rs", 700)]);
        let found = entries(&[("a.rs", 590)]);
        let wrong = compare(&known, &found);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }
}
