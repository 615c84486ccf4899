//! The usage of each project, which is the sum of the usages of its instances. Derived from the rows and never stored.

use std::collections::BTreeMap;

use crate::quota::{ProjectUsage, Usage};
use crate::spec::Spec;

/// The usage of each project that has any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProjectUsages {
    projects: BTreeMap<String, ProjectUsage>,
}

impl ProjectUsages {
    /// The usage of a project; `None` if it has no instances.
    pub(super) fn of(&self, project: &str) -> Option<&ProjectUsage> {
        self.projects.get(project)
    }

    /// Updates the usage for the new specification of an instance.
    pub(super) fn update_spec(&mut self, before: Option<&Spec>, after: Option<&Spec>) {
        // Most changes of a spec concern neither the project nor the usage.
        if before.map(counted) == after.map(counted) {
            return;
        }
        if let Some(spec) = before {
            self.subtract(&spec.project, |held| held.subtract_instance(&spec.usage));
        }
        if let Some(spec) = after {
            self.add(&spec.project, |held| held.add_instance(&spec.usage));
        }
    }

    /// Updates the usage for the additional usage of an instance while it is moved.
    pub(super) fn update_move(
        &mut self,
        before: Option<(&str, &Usage)>,
        after: Option<(&str, &Usage)>,
    ) {
        if before == after {
            return;
        }
        if let Some((project, usage)) = before {
            self.subtract(project, |held| held.subtract(usage));
        }
        if let Some((project, usage)) = after {
            self.add(project, |held| held.add(usage));
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

    fn subtract(&mut self, project: &str, subtract: impl FnOnce(&mut ProjectUsage)) {
        let Some(held) = self.projects.get_mut(project) else {
            return;
        };
        subtract(held);
        if held.is_empty() {
            self.projects.remove(project);
        }
    }
}

/// The parts of a spec that are counted.
fn counted(spec: &Spec) -> (&str, &Usage) {
    (&spec.project, &spec.usage)
}
