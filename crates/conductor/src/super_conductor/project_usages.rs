//! What the instances of each project count for. Derived from the rows and never stored.

use std::collections::BTreeMap;

use super::state::{Change, Move};
use crate::quota::{ProjectUsage, Usage};
use crate::spec::Spec;

/// The usage of each project that has any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProjectUsages {
    projects: BTreeMap<String, ProjectUsage>,
}

impl ProjectUsages {
    /// The usage of a project; none if it has no instances.
    pub(super) fn of(&self, project: &str) -> Option<&ProjectUsage> {
        self.projects.get(project)
    }

    pub(super) fn follow(&mut self, before: &Change, now: &Change) {
        match (before, now) {
            (Change::Spec(_, before), Change::Spec(_, now)) => {
                let (before, now) = (before.as_deref(), now.as_deref());
                // Most changes of a spec leave both as they are.
                if before.map(counted) == now.map(counted) {
                    return;
                }
                if let Some(spec) = before {
                    self.take(&spec.project, &spec.usage, true);
                }
                if let Some(spec) = now {
                    self.add(&spec.project, |held| held.add_instance(&spec.usage));
                }
            }
            (Change::Move(_, before), Change::Move(_, now)) => {
                if let Some((project, usage)) = before.as_deref().and_then(added_by) {
                    self.take(project, usage, false);
                }
                if let Some((project, usage)) = now.as_deref().and_then(added_by) {
                    self.add(project, |held| held.add(usage));
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, project: &str, add: impl FnOnce(&mut ProjectUsage)) {
        if let Some(held) = self.projects.get_mut(project) {
            add(held);
            return;
        }
        let mut held = ProjectUsage::default();
        add(&mut held);
        self.projects.insert(project.to_owned(), held);
    }

    fn take(&mut self, project: &str, usage: &Usage, is_instance: bool) {
        let Some(held) = self.projects.get_mut(project) else {
            return;
        };
        held.take(usage);
        if is_instance {
            held.instances = held.instances.saturating_sub(1);
        }
        if held.is_empty() {
            self.projects.remove(project);
        }
    }
}

/// The parts of a spec that are counted.
fn counted(spec: &Spec) -> (&str, &Usage) {
    (&spec.project, &spec.usage)
}

/// The project of a move, and by how much its instance counts for more while it is under way.
fn added_by(row: &Move) -> Option<(&str, &Usage)> {
    let spec = row.spec.as_ref()?;
    row.added_usage
        .is_known()
        .then_some((spec.project.as_str(), &row.added_usage))
}
