//! The file with the places of hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use uuid::Uuid;

use crate::config::ConfigErrors;

/// Names the aggregates of places: the same file gives the same aggregates.
const PLACES: Uuid = Uuid::from_u128(0x6f0c_9a5e_41b7_4d0e_8a53_2d1f_0e6b_7c94);

/// The file, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// The levels, the smallest first.
    pub(super) levels: Vec<TableLevel>,
    /// The places of each host, by the name or UUID that the file has.
    pub(super) hosts: BTreeMap<String, BTreeSet<Uuid>>,
}

/// One level.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TableLevel {
    pub(super) name: String,
    /// Its places: the aggregate, and the name for people.
    pub(super) places: BTreeMap<Uuid, String>,
}

impl Table {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or what is wrong with it: every line that is.
    pub(super) fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigErrors(vec![format!("{}: {error}", path.display())]))?;
        Self::read(&text).map_err(|problems| {
            let problems = problems.iter();
            ConfigErrors(
                problems
                    .map(|one| format!("{}: {one}", path.display()))
                    .collect(),
            )
        })
    }

    fn read(text: &str) -> Result<Self, Vec<String>> {
        let lines = text.lines().enumerate();
        let mut lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let Some((_, head)) = lines.next() else {
            return Err(vec![
                "the file is empty: its first line is host,LEVEL,…".to_owned(),
            ]);
        };
        let mut table = Self::default();
        let mut problems = Vec::new();
        let mut names = head.split(',').map(str::trim);
        if names.next() != Some("host") {
            problems.push("line 1: the first column is \"host\", then come the levels".to_owned());
        }
        for name in names {
            if name.is_empty() || table.levels.iter().any(|level| level.name == name) {
                problems.push(format!("line 1: level {name:?} has no name of its own"));
            }
            table.levels.push(TableLevel {
                name: name.to_owned(),
                places: BTreeMap::new(),
            });
        }
        if table.levels.is_empty() {
            problems.push("line 1: there is no level".to_owned());
        }
        for (index, line) in lines {
            if let Err(problem) = table.add(line) {
                problems.push(format!("line {}: {problem}", index + 1));
            }
        }
        if problems.is_empty() {
            Ok(table)
        } else {
            Err(problems)
        }
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let (host, places) = (fields[0], &fields[1..]);
        if places.len() != self.levels.len() {
            let (has, wants) = (fields.len(), self.levels.len() + 1);
            return Err(format!("it has {has} fields, the first line has {wants}"));
        }
        if host.is_empty() {
            return Err("it names no host".to_owned());
        }
        let mut of_host = BTreeSet::new();
        for (depth, level) in self.levels.iter_mut().enumerate() {
            if places[depth].is_empty() {
                continue;
            }
            // The larger places are part of the name: rack 1 of row a is not rack 1 of row b.
            let path: Vec<&str> = places[depth..].iter().rev().copied().collect();
            let name = format!("{}:{}", level.name, path.join("/"));
            let uuid = Uuid::new_v5(&PLACES, name.as_bytes());
            level.places.insert(uuid, name);
            of_host.insert(uuid);
        }
        match self.hosts.insert(host.to_owned(), of_host) {
            None => Ok(()),
            Some(_) => Err(format!("host {host} is there twice")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_one_name_in_two_larger_ones_are_two() {
        let text = "host,rack,room\nn1,r1,north\nn2,r1,south\n# a comment\n\nn3,,south\n";
        let table = Table::read(text).unwrap();
        assert_eq!(table.levels[0].places.len(), 2);
        assert_eq!(table.levels[1].places.len(), 2);
        assert!(table.hosts["n1"].is_disjoint(&table.hosts["n2"]));
        assert_eq!(
            table.hosts["n2"].intersection(&table.hosts["n3"]).count(),
            1
        );
        assert_eq!(Table::read(text), Ok(table));
    }

    #[test]
    fn every_wrong_line_is_named() {
        let text = "host,rack\nn1,r1\nn2\n,r1\nn1,r2\n";
        let problems = Table::read(text).unwrap_err();
        assert_eq!(
            problems,
            [
                "line 3: it has 1 fields, the first line has 2",
                "line 4: it names no host",
                "line 5: host n1 is there twice",
            ]
        );
        for text in ["", "node,rack\n", "host\n", "host,a,a\n", "host,\n"] {
            assert!(Table::read(text).is_err(), "{text:?}");
        }
    }
}
