//! The versions of the hosts' compute services, by cell.
//!
//! Some versions bring a feature ([`SERVICE_VERSIONS`]). A feature is used in a cell only while no host of the cell has
//! an earlier version. Hosts that an operator, their cell or their agent declared down do not count, as in Nova.
//!
//! The class cache is emptied whenever a cell begins or ceases to use a feature, and a single agent can cause that. So
//! a new minimum that neither adds nor removes a feature does not count as a change. A lower minimum is used at once,
//! because otherwise a feature would be used on hosts that lack it. A higher minimum is used at once, too, but only
//! [`RISES_MAX`] times in [`HOLD_SECONDS`]. Further rises wait until [`HOLD_SECONDS`] after the first of these.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use placewright_placement::Timestamp;
use placewright_types::host_state::SERVICE_VERSIONS;
use uuid::Uuid;

/// How often the minimum of a cell may rise within [`HOLD_SECONDS`].
const RISES_MAX: u32 = 8;
/// The time, in seconds, in which the minimum of a cell may rise [`RISES_MAX`] times.
const HOLD_SECONDS: i64 = 60;

/// The versions of the hosts' compute services, by cell.
#[derive(Clone, Debug, Default)]
pub struct ServiceVersions {
    /// By cell and version: the number of hosts. No number is 0, and no inner map is empty.
    by_cell: BTreeMap<Uuid, BTreeMap<u32, u32>>,
    /// By slot: the cell and the version with which the host is counted; `None` for hosts that do not count.
    counted: Vec<Option<(Uuid, u32)>>,
    /// By cell: the minimum that is used. Cells that had hosts keep their entry.
    used: BTreeMap<Uuid, UsedMinimum>,
    /// The cells whose minimum is higher than the one that is used, with the time from which the higher one is used.
    held: BTreeMap<Uuid, Timestamp>,
    now: Timestamp,
    /// Grows whenever a cell begins or ceases to use a feature, and whenever a host changes its cell.
    revision: u64,
}

/// The minimum of a cell that is used.
#[derive(Clone, Copy, Debug)]
struct UsedMinimum {
    /// `None` if no host counts.
    version: Option<u32>,
    /// How often the minimum may still rise before `renewed_at`.
    rises_left: u32,
    /// From this time on, the minimum may rise [`RISES_MAX`] times again.
    renewed_at: Timestamp,
}

impl ServiceVersions {
    /// The lowest of the cells' minima, as they are used; 0 if there are none.
    #[must_use]
    pub fn minimum(&self) -> u32 {
        let minima = self.minima().map(|(_, minimum)| minimum);
        minima.min().unwrap_or(0)
    }

    /// The highest of the cells' minima; 0 if there are none. The features up to this version are used in one cell at
    /// least.
    #[must_use]
    pub fn highest_minimum(&self) -> u32 {
        let minima = self.minima().map(|(_, minimum)| minimum);
        minima.max().unwrap_or(0)
    }

    /// The minimum of a cell, as it is used; `None` if no host of the cell counts.
    #[must_use]
    pub fn lowest_of(&self, cell: Uuid) -> Option<u32> {
        self.used.get(&cell)?.version
    }

    /// The minimum of each cell that has hosts which count, as it is used.
    pub fn minima(&self) -> impl Iterator<Item = (Uuid, u32)> + '_ {
        let cells = self.used.iter();
        cells.filter_map(|(cell, minimum)| Some((*cell, minimum.version?)))
    }

    /// The lowest version that a host of a cell has at present; `None` if no host counts. [`Self::lowest_of`] may still
    /// be lower, because a rise may have to wait.
    #[must_use]
    pub fn present_minimum(&self, cell: Uuid) -> Option<u32> {
        let (version, _) = self.by_cell.get(&cell)?.first_key_value()?;
        Some(*version)
    }

    /// Whether the feature that a version brings is used on a host: no host of its cell has an earlier version.
    #[must_use]
    pub fn is_used_on(&self, slot: u32, version: u32) -> bool {
        let cell = self.counted(slot).map(|(cell, _)| cell);
        let lowest = cell.and_then(|cell| self.lowest_of(cell));
        lowest.is_some_and(|lowest| lowest >= version)
    }

    /// How many hosts of a cell count, and how many of these have a version before this one.
    #[must_use]
    pub fn counts_of(&self, cell: Uuid, version: u32) -> (u64, u64) {
        let counts = self.by_cell.get(&cell).into_iter().flatten();
        counts.fold((0, 0), |(all, earlier), (counted, count)| {
            let count = u64::from(*count);
            (
                all + count,
                earlier + if *counted < version { count } else { 0 },
            )
        })
    }

    /// The cell and the version with which a host is counted; `None` if it does not count.
    #[must_use]
    pub fn counted(&self, slot: u32) -> Option<(Uuid, u32)> {
        self.counted.get(slot as usize).copied().flatten()
    }

    /// A number that grows whenever a cell begins or ceases to use a feature, and whenever a host changes its cell.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Counts a host with this cell and version from now on; with `None` the host does not count any more.
    pub(super) fn set(&mut self, slot: u32, host: Option<(Uuid, u32)>) {
        let before = self.counted(slot);
        if before == host {
            return;
        }
        let index = slot as usize;
        if index >= self.counted.len() {
            self.counted.resize(index + 1, None);
        }
        self.counted[index] = host;
        let cells = [before, host].map(|counted| counted.map(|(cell, _)| cell));
        if let Some((cell, version)) = before {
            self.remove(cell, version);
        }
        if let Some((cell, version)) = host {
            let versions = self.by_cell.entry(cell).or_default();
            *versions.entry(version).or_default() += 1;
        }
        if before.is_some() && host.is_some() && cells[0] != cells[1] {
            self.revision += 1;
        }
        for cell in cells.into_iter().flatten() {
            self.update_minimum(cell);
        }
    }

    /// Advances the time, and lets the minima rise that had to wait until then.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        let due = self.held.iter().filter(|(_, until)| **until <= self.now);
        let due: Vec<Uuid> = due.map(|(cell, _)| *cell).collect();
        for cell in due {
            self.update_minimum(cell);
        }
    }

    /// Uses the present minimum of a cell from now on, unless the used one has risen too often.
    fn update_minimum(&mut self, cell: Uuid) {
        let present = self.present_minimum(cell);
        self.held.remove(&cell);
        let used = self.used.entry(cell).or_insert(UsedMinimum {
            version: None,
            rises_left: RISES_MAX,
            renewed_at: self.now,
        });
        match feature_count(present).cmp(&feature_count(used.version)) {
            Ordering::Equal => {
                used.version = present;
                return;
            }
            Ordering::Less => {}
            Ordering::Greater => {
                if used.renewed_at <= self.now {
                    let renewed_at = self.now.0.saturating_add(HOLD_SECONDS * 1_000_000);
                    used.renewed_at = Timestamp(renewed_at);
                    used.rises_left = RISES_MAX;
                }
                let Some(rises_left) = used.rises_left.checked_sub(1) else {
                    self.held.insert(cell, used.renewed_at);
                    return;
                };
                used.rises_left = rises_left;
            }
        }
        used.version = present;
        self.revision += 1;
    }

    /// Counts one host less with this version in a cell.
    fn remove(&mut self, cell: Uuid, version: u32) {
        let Some(versions) = self.by_cell.get_mut(&cell) else {
            return;
        };
        if let Some(count) = versions.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                versions.remove(&version);
            }
        }
        if versions.is_empty() {
            self.by_cell.remove(&cell);
        }
    }
}

/// The number of features that hosts with this version have. A cell without hosts (`None`) has the highest number,
/// because no host there lacks a feature.
fn feature_count(version: Option<u32>) -> usize {
    let Some(version) = version else {
        return usize::MAX;
    };
    SERVICE_VERSIONS.partition_point(|since| *since <= version)
}

#[cfg(test)]
mod tests {
    use placewright_types::host_state::SERVICE_VERSION;

    use super::*;

    const CELL: Uuid = Uuid::from_u128(1);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    #[test]
    fn a_minimum_that_rises_too_often_is_held() {
        let mut versions = ServiceVersions::default();
        versions.advance(at(100));
        versions.set(0, Some((CELL, 73)));
        for _ in 0..RISES_MAX {
            versions.set(1, Some((CELL, 5)));
            assert_eq!(versions.lowest_of(CELL), Some(5));
            versions.set(1, Some((CELL, 73)));
            assert_eq!(versions.lowest_of(CELL), Some(73));
        }
        versions.set(1, Some((CELL, 5)));
        let revision = versions.revision();
        for _ in 0..10 {
            versions.set(1, Some((CELL, 73)));
            versions.advance(at(120));
            versions.set(1, None);
            versions.set(1, Some((CELL, 5)));
        }
        versions.set(1, Some((CELL, 73)));
        versions.advance(at(159));
        assert_eq!(versions.lowest_of(CELL), Some(5));
        assert_eq!(versions.revision(), revision);
        versions.advance(at(160));
        assert_eq!(versions.lowest_of(CELL), Some(73));
        assert_eq!(versions.revision(), revision + 1);
    }

    #[test]
    fn versions_that_bring_nothing_change_nothing() {
        let mut versions = ServiceVersions::default();
        versions.set(0, Some((CELL, u32::MAX)));
        let revision = versions.revision();
        for version in (SERVICE_VERSION..1_000).rev() {
            versions.set(0, Some((CELL, version)));
            assert_eq!(versions.lowest_of(CELL), Some(version));
        }
        assert_eq!(versions.revision(), revision);
        for version in (0..SERVICE_VERSION).rev() {
            versions.set(0, Some((CELL, version)));
        }
        assert_eq!(versions.revision(), revision + 1);
    }

    #[test]
    fn a_cell_whose_only_host_comes_and_goes_changes_the_minima_seldom() {
        let mut versions = ServiceVersions::default();
        for _ in 0..100 {
            versions.set(0, Some((CELL, 5)));
            versions.set(0, None);
        }
        assert!(versions.revision() <= u64::from(2 * RISES_MAX + 1));
    }
}
