//! An index of control's state: the instances in list order, so that the cost of a page depends only on the page's
//! length, and for each project its server groups, record sizes, usage and images. It is derived from the rows and
//! never stored.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use placewright_placement::Timestamp;
use uuid::Uuid;

use super::image::Image;
use super::image_usages::{ImageUsage, ImageUsages};
use super::project_usages::ProjectUsages;
use super::record_sizes::RecordSizes;
use super::rows::{Labels, Mapping, Move, ServerGroup};
use crate::ids::InstanceId;
use crate::quota::ProjectUsage;
use crate::spec::Spec;

/// The position of an instance in lists: its time of creation, then its id.
pub type ListKey = (Timestamp, InstanceId);

/// All instances by age, and for each project its instances, server groups, record sizes, usage and images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    all: BTreeSet<ListKey>,
    of_projects: BTreeMap<String, BTreeSet<ListKey>>,
    groups: BTreeMap<String, BTreeSet<Uuid>>,
    record_sizes: RecordSizes,
    usages: ProjectUsages,
    images: ImageUsages,
}

impl Listing {
    /// The instances, of one project or of all, that follow the position `after`, the oldest first or, if `descends`,
    /// the youngest first. Without `after`, the list begins at its first instance.
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

    /// The number of instances of a project, or of all.
    #[must_use]
    pub fn instance_count(&self, project: Option<&str>) -> usize {
        match project {
            None => self.all.len(),
            Some(project) => self.of_projects.get(project).map_or(0, BTreeSet::len),
        }
    }

    /// The size of the records of a project's instances in bytes.
    #[must_use]
    pub fn record_bytes(&self, project: &str) -> u64 {
        self.record_sizes.bytes(project)
    }

    /// The sum of the usages of a project's instances; `None` if it has no instances.
    #[must_use]
    pub fn usage(&self, project: &str) -> Option<&ProjectUsage> {
        self.usages.of(project)
    }

    /// The number of a project's images, and their size.
    #[must_use]
    pub fn image_usage(&self, project: &str) -> ImageUsage {
        self.images.of(project)
    }

    /// The number of server groups of a project.
    #[must_use]
    pub fn group_count(&self, project: &str) -> usize {
        self.groups.get(project).map_or(0, BTreeSet::len)
    }

    /// The server groups of a project that follow the group `after`, in the order of their ids.
    pub fn groups_of(&self, project: &str, after: Option<Uuid>) -> impl Iterator<Item = Uuid> + '_ {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let groups = self.groups.get(project).into_iter();
        groups.flat_map(move |groups| groups.range((after, Bound::Unbounded)).copied())
    }

    /// Updates the index for the new content of a mapping.
    pub(super) fn update_mapping(
        &mut self,
        instance: InstanceId,
        before: Option<&Mapping>,
        after: Option<&Mapping>,
    ) {
        self.record_sizes.update_mapping(instance, before, after);
        match (before, after) {
            // Most changes of a mapping do not move the instance in the list.
            (Some(before), Some(after))
                if before.created_at == after.created_at && before.project == after.project => {}
            _ => {
                before
                    .into_iter()
                    .for_each(|mapping| self.remove(instance, mapping));
                after
                    .into_iter()
                    .for_each(|mapping| self.insert(instance, mapping));
            }
        }
    }

    /// Updates the record sizes for a new specification of an instance, or of a rebuild that was requested for it.
    pub(super) fn update_spec_size(
        &mut self,
        instance: InstanceId,
        before: Option<&Spec>,
        after: Option<&Spec>,
    ) {
        self.record_sizes.update_spec(instance, before, after);
    }

    /// Updates the usage of projects for a new specification of an instance. Specifications of requested rebuilds do
    /// not count.
    pub(super) fn update_usage(&mut self, before: Option<&Spec>, after: Option<&Spec>) {
        self.usages.update_spec(before, after);
    }

    /// Updates the usage of projects for the additional usage of an instance while it is moved.
    pub(super) fn update_move(&mut self, before: Option<&Move>, after: Option<&Move>) {
        let before = before.and_then(Move::project_and_added_usage);
        let after = after.and_then(Move::project_and_added_usage);
        self.usages.update_move(before, after);
    }

    /// Updates the sizes for new labels of an instance.
    pub(super) fn update_labels(
        &mut self,
        instance: InstanceId,
        before: Option<&Labels>,
        after: Option<&Labels>,
    ) {
        self.record_sizes.update_labels(instance, before, after);
    }

    /// Updates the count and size of projects' images for the new content of an image's row.
    pub(super) fn update_image(&mut self, before: Option<&Image>, after: Option<&Image>) {
        self.images.update(before, after);
    }

    /// Updates the index for the new content of a server group.
    pub(super) fn update_group(
        &mut self,
        group: Uuid,
        before: Option<&ServerGroup>,
        after: Option<&ServerGroup>,
    ) {
        let (before, after) = (
            before.map(|row| row.project.as_str()),
            after.map(|row| row.project.as_str()),
        );
        if before == after {
            return;
        }
        if let Some(project) = before
            && let Some(groups) = self.groups.get_mut(project)
        {
            groups.remove(&group);
            if groups.is_empty() {
                self.groups.remove(project);
            }
        }
        if let Some(project) = after {
            self.groups
                .entry(project.to_owned())
                .or_default()
                .insert(group);
        }
    }

    fn insert(&mut self, instance: InstanceId, mapping: &Mapping) {
        let key = (mapping.created_at, instance);
        self.all.insert(key);
        if let Some(keys) = self.of_projects.get_mut(&mapping.project) {
            keys.insert(key);
        } else {
            let project = mapping.project.clone();
            self.of_projects.insert(project, BTreeSet::from([key]));
        }
    }

    fn remove(&mut self, instance: InstanceId, mapping: &Mapping) {
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
