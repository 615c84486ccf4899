//! The size of the records of each project's instances, so that no project can exhaust the memory.
//! Derived from the rows and never stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::{Change, Labels, Rebuild};
use crate::ids::InstanceId;
use crate::spec::Spec;

/// The fixed size that each instance counts for: its rows here and in its cell, and its host's
/// record.
pub const INSTANCE_BYTES: u64 = 2048;

/// The bytes of each project, and of each of its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordSizes {
    projects: BTreeMap<Arc<str>, u64>,
    instances: BTreeMap<InstanceId, InstanceSize>,
}

/// The size that one instance counts for. Its rows are added and removed in any order.
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

    pub(super) fn follow(&mut self, before: &Change, now: &Change) {
        let (instance, project, less, more) = match (before, now) {
            (Change::Mapping(instance, before), Change::Mapping(_, now)) => {
                let bytes = |is_there| if is_there { INSTANCE_BYTES } else { 0 };
                let project = now.as_ref().map(|mapping| mapping.project.as_str());
                if before.as_ref().map(|mapping| mapping.project.as_str()) == project {
                    return;
                }
                let change = (bytes(before.is_some()), bytes(now.is_some()));
                (instance, project, change.0, change.1)
            }
            (Change::Spec(instance, before), Change::Spec(_, now)) => {
                let bytes = |spec: &Option<Box<Spec>>| spec.as_deref().map_or(0, of_spec);
                (instance, None, bytes(before), bytes(now))
            }
            (Change::Rebuild(instance, before), Change::Rebuild(_, now)) => {
                let bytes =
                    |row: &Option<Box<Rebuild>>| row.as_ref().map_or(0, |r| of_spec(&r.spec));
                (instance, None, bytes(before), bytes(now))
            }
            (Change::Labels(instance, before), Change::Labels(_, now)) => {
                let bytes = |row: &Option<Box<Labels>>| row.as_deref().map_or(0, of_labels);
                (instance, None, bytes(before), bytes(now))
            }
            _ => return,
        };
        self.change(*instance, project, less, more);
    }

    /// Counts the replacement of a row. `project` is set if the instance belongs to it from now
    /// on.
    fn change(&mut self, instance: InstanceId, project: Option<&str>, less: u64, more: u64) {
        if less == more && project.is_none() {
            return;
        }
        let mut held = self.instances.remove(&instance).unwrap_or_default();
        self.count(&held, false);
        held.bytes = (held.bytes + more).saturating_sub(less);
        if let Some(project) = project {
            let known = self.projects.get_key_value(project);
            held.project = Some(known.map_or_else(|| project.into(), |(name, _)| Arc::clone(name)));
        }
        self.count(&held, true);
        if held.bytes > 0 {
            self.instances.insert(instance, held);
        }
    }

    fn count(&mut self, held: &InstanceSize, is_added: bool) {
        let Some(project) = held.project.as_ref().filter(|_| held.bytes > 0) else {
            return;
        };
        let bytes = self.projects.get(project).copied().unwrap_or(0);
        let bytes = match is_added {
            true => bytes + held.bytes,
            false => bytes.saturating_sub(held.bytes),
        };
        if bytes == 0 {
            self.projects.remove(project);
        } else {
            self.projects.insert(Arc::clone(project), bytes);
        }
    }
}

/// The size of a spec. Shared parts count for each spec, because each cell has a copy for each.
#[must_use]
pub fn of_spec(spec: &Spec) -> u64 {
    // Sealed secrets are in base 64: they count as many bytes as they would in the clear.
    let sealed = (spec.build_secrets.len() + spec.secrets.len()) / 4 * 3;
    (spec.name.len() + spec.body.len() + sealed + size_of_val(&spec.rules[..])) as u64
}

/// The size of labels in bytes.
#[must_use]
pub fn of_labels(labels: &Labels) -> u64 {
    let metadata = labels.metadata.iter();
    let metadata: usize = metadata.map(|(key, value)| key.len() + value.len()).sum();
    let tags: usize = labels.tags.iter().map(String::len).sum();
    let words = labels.description.as_deref().map_or(0, str::len);
    let reason = labels.lock.as_ref().and_then(|lock| lock.reason.as_deref());
    (labels.name.len()
        + words
        + metadata
        + tags
        + labels.hostname.len()
        + reason.map_or(0, str::len)) as u64
}
