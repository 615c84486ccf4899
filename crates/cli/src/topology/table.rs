//! The file with the topology of hosts: a header line `host,LEVEL,…`, then one line `HOST,PLACE,…` for each host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use placewright_client::{Distance, Level};
use placewright_roles::config::ConfigErrors;
use uuid::Uuid;

/// The name space of the aggregates' UUIDs, so that the same file always gives the same aggregates.
const PLACE_NAMESPACE: Uuid = Uuid::from_u128(0x6f0c_9a5e_41b7_4d0e_8a53_2d1f_0e6b_7c94);

/// The header of the first column, which is not a level.
const HOST: &str = "host";

/// The parsed file with the topology of hosts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// The levels, the one with the smallest places first.
    pub(super) levels: Vec<TableLevel>,
    /// The aggregates of each host, by the name or UUID in the file.
    pub(super) hosts: BTreeMap<String, BTreeSet<Uuid>>,
}

/// A level of the topology, such as racks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TableLevel {
    pub(super) name: String,
    /// Its places: the aggregate, and the name for people.
    pub(super) places: BTreeMap<Uuid, String>,
}

impl TableLevel {
    /// The level, as the topology has it: there a place is called `a/r1`, and its aggregate `rack:a/r1`.
    pub(super) fn to_level(&self) -> Level {
        let prefix = name_of(&self.name, "");
        let names = self.places.iter().map(|(uuid, name)| {
            let path = name.strip_prefix(&prefix).unwrap_or(name);
            (*uuid, path.to_owned())
        });
        Level {
            name: self.name.clone(),
            aggregates: self.places.keys().copied().collect(),
            names: names.collect(),
        }
    }
}

impl Table {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or lines are not valid: the error names all of these.
    pub(super) fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigErrors(vec![format!("{}: {error}", path.display())]))?;
        Self::parse(&text).map_err(|errors| {
            let errors = errors.iter();
            ConfigErrors(
                errors
                    .map(|error| format!("{}: {error}", path.display()))
                    .collect(),
            )
        })
    }

    /// Whether the file has a level of this name.
    pub(super) fn has_level(&self, name: &str) -> bool {
        self.levels.iter().any(|level| level.name == name)
    }

    /// Reads the text of the file; the errors are those of all its lines.
    fn parse(text: &str) -> Result<Self, Vec<String>> {
        let lines = text.lines().enumerate();
        let mut lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let Some((_, header)) = lines.next() else {
            return Err(vec![
                "the file is empty: its first line is host,LEVEL,…".to_owned(),
            ]);
        };
        let mut table = Self::default();
        let mut errors = Vec::new();
        let mut names = header.split(',').map(str::trim);
        if names.next() != Some(HOST) {
            errors.push("line 1: the first column is \"host\", then come the levels".to_owned());
        }
        for name in names {
            if name.is_empty()
                || name == HOST
                || table.levels.iter().any(|level| level.name == name)
            {
                errors.push(format!("line 1: level {name:?} has no name of its own"));
            }
            table.levels.push(TableLevel {
                name: name.to_owned(),
                places: BTreeMap::new(),
            });
        }
        if table.levels.is_empty() {
            errors.push("line 1: there is no level".to_owned());
        }
        for (index, line) in lines {
            if let Err(error) = table.add_host(line) {
                errors.push(format!("line {}: {error}", index + 1));
            }
        }
        if errors.is_empty() {
            Ok(table)
        } else {
            Err(errors)
        }
    }

    /// Reads a file of distances between places of this file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or lines are not valid: the error names all of these.
    pub(super) fn load_distances(&self, path: &Path) -> Result<Vec<Distance>, ConfigErrors> {
        let with_path = |error: String| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigErrors(vec![with_path(error.to_string())]))?;
        self.parse_distances(&text)
            .map_err(|errors| ConfigErrors(errors.into_iter().map(with_path).collect()))
    }

    /// Reads the text of a file of distances; the errors are those of all its lines.
    fn parse_distances(&self, text: &str) -> Result<Vec<Distance>, Vec<String>> {
        let lines = text.lines().enumerate();
        let mut lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let header = lines.next().map_or("", |(_, line)| line);
        if !header
            .split(',')
            .map(str::trim)
            .eq(["level", "from", "to", "distance"])
        {
            return Err(vec!["line 1: it is not level,from,to,distance".to_owned()]);
        }
        let (mut distances, mut errors) = (Vec::new(), Vec::new());
        for (index, line) in lines {
            match self.parse_distance(line) {
                Ok(distance) => distances.push(distance),
                Err(error) => errors.push(format!("line {}: {error}", index + 1)),
            }
        }
        if errors.is_empty() {
            Ok(distances)
        } else {
            Err(errors)
        }
    }

    /// Reads a line `LEVEL,FROM,TO,DISTANCE`, whose places are paths from the largest place, such as `north/r1`.
    fn parse_distance(&self, line: &str) -> Result<Distance, String> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [level, from, to, distance] = fields[..] else {
            return Err(format!("it has {} fields, not 4", fields.len()));
        };
        let known_level = self.levels.iter().find(|candidate| candidate.name == level);
        let known_level = known_level.ok_or_else(|| format!("there is no level {level}"))?;
        let place = |path: &str| {
            let uuid = uuid_of(&name_of(level, path));
            let is_known = known_level.places.contains_key(&uuid);
            is_known
                .then_some(uuid)
                .ok_or_else(|| format!("no host is in {level} {path}"))
        };
        let parsed_distance = distance.parse();
        Ok(Distance {
            from: place(from)?,
            to: place(to)?,
            distance: parsed_distance
                .map_err(|_| format!("{distance} is not a whole number of at least 0"))?,
        })
    }

    /// Adds the host of a line `HOST,PLACE,…`, and its places.
    fn add_host(&mut self, line: &str) -> Result<(), String> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        // `split` returns at least one field, even if the line is empty.
        let (host, places) = (fields[0], &fields[1..]);
        if places.len() != self.levels.len() {
            let (has, wants) = (fields.len(), self.levels.len() + 1);
            return Err(format!("it has {has} fields, the first line has {wants}"));
        }
        if host.is_empty() {
            return Err("it names no host".to_owned());
        }
        let mut host_places = BTreeSet::new();
        for (depth, level) in self.levels.iter_mut().enumerate() {
            if places[depth].is_empty() {
                continue;
            }
            // The larger places are part of the name: rack 1 of row a is not rack 1 of row b.
            let path: Vec<&str> = places[depth..].iter().rev().copied().collect();
            let name = name_of(&level.name, &path.join("/"));
            let uuid = uuid_of(&name);
            level.places.insert(uuid, name);
            host_places.insert(uuid);
        }
        match self.hosts.insert(host.to_owned(), host_places) {
            None => Ok(()),
            Some(_) => Err(format!("host {host} is there twice")),
        }
    }
}

/// The name of a place for people, given its path from the largest place.
pub(super) fn name_of(level: &str, path: &str) -> String {
    format!("{level}:{path}")
}

/// The UUID of a place's aggregate, derived from the place's name.
pub(super) fn uuid_of(name: &str) -> Uuid {
    Uuid::new_v5(&PLACE_NAMESPACE, name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_one_name_in_two_larger_ones_are_two() {
        let text = "host,rack,room\nn1,r1,north\nn2,r1,south\n# a comment\n\nn3,,south\n";
        let table = Table::parse(text).unwrap();
        assert_eq!(table.levels[0].places.len(), 2);
        assert_eq!(table.levels[1].places.len(), 2);
        assert!(table.hosts["n1"].is_disjoint(&table.hosts["n2"]));
        assert_eq!(
            table.hosts["n2"].intersection(&table.hosts["n3"]).count(),
            1
        );
        assert_eq!(Table::parse(text), Ok(table));
    }

    #[test]
    fn every_wrong_line_is_named() {
        let text = "host,rack\nn1,r1\nn2\n,r1\nn1,r2\n";
        let errors = Table::parse(text).unwrap_err();
        assert_eq!(
            errors,
            [
                "line 3: it has 1 fields, the first line has 2",
                "line 4: it names no host",
                "line 5: host n1 is there twice",
            ]
        );
        for text in [
            "",
            "node,rack\n",
            "host\n",
            "host,a,a\n",
            "host,\n",
            "host,host\n",
        ] {
            assert!(Table::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn distances_are_between_known_places_of_one_level() {
        let table = Table::parse("host,rack,room\nn1,r1,north\nn2,r1,south\n").unwrap();
        let text = "level,from,to,distance\nroom,north,south,40\nrack,north/r1,south/r1,9\n";
        let distances = table.parse_distances(text).unwrap();
        let numbers: Vec<u32> = distances.iter().map(|distance| distance.distance).collect();
        assert_eq!(numbers, [40, 9]);
        assert!(table.levels[1].places.contains_key(&distances[0].from));
        let text =
            "level,from,to,distance\nrow,a,b,1\nroom,north,east,1\nroom,north,south,-1\nroom\n";
        assert_eq!(
            table.parse_distances(text).unwrap_err(),
            [
                "line 2: there is no level row",
                "line 3: no host is in room east",
                "line 4: -1 is not a whole number of at least 0",
                "line 5: it has 1 fields, not 4",
            ]
        );
        assert!(table.parse_distances("from,to,distance\n").is_err());
    }
}
