//! The instances in the order in which lists show them, so that a page costs the page and not all
//! that there are. It follows from the mappings and is never written down.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use placewright_placement::Timestamp;

use super::state::{Change, Mapping};
use crate::ids::InstanceId;
use crate::table::Index;

/// The place of an instance: when it was asked for, then its id.
pub type ListKey = (Timestamp, InstanceId);

/// All instances by their age, and those of each project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    all: BTreeSet<ListKey>,
    of_projects: BTreeMap<String, BTreeSet<ListKey>>,
}

impl Listing {
    /// The instances behind a place, of a project or all: from the oldest on, or from the youngest
    /// on.
    pub fn after(
        &self,
        project: Option<&str>,
        after: Option<ListKey>,
        descends: bool,
    ) -> Box<dyn Iterator<Item = ListKey> + '_> {
        let keys = match project {
            None => Some(&self.all),
            Some(project) => self.of_projects.get(project),
        };
        let Some(keys) = keys else {
            return Box::new(std::iter::empty());
        };
        let end = after.map_or(Bound::Unbounded, Bound::Excluded);
        if descends {
            Box::new(keys.range((Bound::Unbounded, end)).rev().copied())
        } else {
            Box::new(keys.range((end, Bound::Unbounded)).copied())
        }
    }

    /// How many instances a project has, or how many there are.
    #[must_use]
    pub fn count(&self, project: Option<&str>) -> usize {
        match project {
            None => self.all.len(),
            Some(project) => self.of_projects.get(project).map_or(0, BTreeSet::len),
        }
    }

    fn put(&mut self, instance: InstanceId, mapping: &Mapping) {
        let key = (mapping.created_at, instance);
        self.all.insert(key);
        if let Some(keys) = self.of_projects.get_mut(&mapping.project) {
            keys.insert(key);
        } else {
            let project = mapping.project.clone();
            self.of_projects.insert(project, BTreeSet::from([key]));
        }
    }

    fn take(&mut self, instance: InstanceId, mapping: &Mapping) {
        let key = (mapping.created_at, instance);
        self.all.remove(&key);
        if let Some(keys) = self.of_projects.get_mut(&mapping.project) {
            keys.remove(&key);
            if keys.is_empty() {
                self.of_projects.remove(&mapping.project);
            }
        }
    }
}

impl Index<Change> for Listing {
    fn follow(&mut self, before: &Change, now: &Change) {
        let (Change::Mapping(instance, before), Change::Mapping(_, now)) = (before, now) else {
            return;
        };
        match (before, now) {
            // Most changes leave an instance where it is in the list.
            (Some(before), Some(now))
                if before.created_at == now.created_at && before.project == now.project => {}
            _ => {
                before
                    .iter()
                    .for_each(|mapping| self.take(*instance, mapping));
                now.iter().for_each(|mapping| self.put(*instance, mapping));
            }
        }
    }
}
