//! The size of the records of each project's instances, so that no project can exhaust the memory.
//! Derived from the rows and never stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rows::{Labels, Mapping};
use crate::ids::InstanceId;
use crate::spec::Spec;

/// The fixed size that each instance counts for: its rows in control and in its cell, and its host's record.
pub const INSTANCE_BYTES: u64 = 2048;

/// The bytes of each project, and of each of its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordSizes {
    projects: BTreeMap<Arc<str>, u64>,
    instances: BTreeMap<InstanceId, InstanceSize>,
}

/// The size that one instance counts for. Other rows of the instance may be written before its
/// mapping, which names the project, and be removed after the mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct InstanceSize {
    project: Option<Arc<str>>,
    bytes: u64,
}

impl RecordSizes {
    /// The bytes that are counted for a project.
    #[must_use]
    pub(super) fn bytes(&self, project: &str) -> u64 {
        self.projects.get(project).copied().unwrap_or(0)
    }

    /// Updates the sizes for a new mapping, which names the project of the instance.
    pub(super) fn update_mapping(
        &mut self,
        instance: InstanceId,
        before: Option<&Mapping>,
        after: Option<&Mapping>,
    ) {
        let project = after.map(|mapping| mapping.project.as_str());
        if before.map(|mapping| mapping.project.as_str()) == project {
            return;
        }
        let bytes = |row: Option<&Mapping>| row.map_or(0, |_| INSTANCE_BYTES);
        self.change(instance, project, bytes(before), bytes(after));
    }

    /// Updates the sizes for a new spec of an instance: its own, or that of a rebuild.
    pub(super) fn update_spec(
        &mut self,
        instance: InstanceId,
        before: Option<&Spec>,
        after: Option<&Spec>,
    ) {
        self.change(
            instance,
            // The project stays the same.
            None,
            before.map_or(0, spec_bytes),
            after.map_or(0, spec_bytes),
        );
    }

    /// Updates the sizes for new labels of an instance.
    pub(super) fn update_labels(
        &mut self,
        instance: InstanceId,
        before: Option<&Labels>,
        after: Option<&Labels>,
    ) {
        self.change(
            instance,
            // The project stays the same.
            None,
            before.map_or(0, labels_bytes),
            after.map_or(0, labels_bytes),
        );
    }

    /// Counts the replacement of a row of `before` bytes by one of `after` bytes. `project` is set if
    /// the instance belongs to it from now on.
    fn change(&mut self, instance: InstanceId, project: Option<&str>, before: u64, after: u64) {
        if before == after && project.is_none() {
            return;
        }
        let mut size = self.instances.remove(&instance).unwrap_or_default();
        self.change_project_bytes(&size, |of_project| of_project.saturating_sub(size.bytes));
        size.bytes = (size.bytes + after).saturating_sub(before);
        if let Some(project) = project {
            let known = self.projects.get_key_value(project);
            size.project = Some(known.map_or_else(|| project.into(), |(name, _)| Arc::clone(name)));
        }
        self.change_project_bytes(&size, |of_project| of_project + size.bytes);
        if size.bytes > 0 {
            self.instances.insert(instance, size);
        }
    }

    /// Changes the bytes that are counted for an instance's project. `change` gets their number, and returns it with
    /// the instance's bytes added or taken out. Without a project nothing is counted yet.
    fn change_project_bytes(&mut self, size: &InstanceSize, change: impl FnOnce(u64) -> u64) {
        let Some(project) = size.project.as_ref().filter(|_| size.bytes > 0) else {
            return;
        };
        let bytes = change(self.projects.get(project).copied().unwrap_or(0));
        if bytes == 0 {
            self.projects.remove(project);
        } else {
            self.projects.insert(Arc::clone(project), bytes);
        }
    }
}

/// The size of a spec in bytes. A part that several specs share counts for each of them, because in a cell
/// each spec has a copy of its own.
#[must_use]
pub fn spec_bytes(spec: &Spec) -> u64 {
    // Sealed secrets are in base 64: they count as many bytes as they would in the clear.
    let sealed = (spec.build_secrets.len() + spec.secrets.len()) / 4 * 3;
    (spec.name.len() + spec.body.len() + sealed + size_of_val(&spec.rules[..])) as u64
}

/// The size of labels in bytes.
#[must_use]
pub fn labels_bytes(labels: &Labels) -> u64 {
    let metadata = labels.metadata.iter();
    let metadata: usize = metadata.map(|(key, value)| key.len() + value.len()).sum();
    let tags: usize = labels.tags.iter().map(String::len).sum();
    let description = labels.description.as_deref().map_or(0, str::len);
    let reason = labels.lock.as_ref().and_then(|lock| lock.reason.as_deref());
    (labels.name.len()
        + description
        + metadata
        + tags
        + labels.hostname.len()
        + reason.map_or(0, str::len)) as u64
}
