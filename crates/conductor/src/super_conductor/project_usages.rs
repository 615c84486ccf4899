//! What the instances of each project count for. Derived from the rows and never stored.

use std::collections::BTreeMap;

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

    /// Takes the new specification of an instance.
    pub(super) fn follow_spec(&mut self, before: Option<&Spec>, now: Option<&Spec>) {
        // Most changes of a spec leave what is counted as it is.
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

    /// Takes by how much an instance counts for more while it is moved, and for which project.
    pub(super) fn follow_move(
        &mut self,
        before: Option<(&str, &Usage)>,
        now: Option<(&str, &Usage)>,
    ) {
        if before == now {
            return;
        }
        if let Some((project, usage)) = before {
            self.take(project, usage, false);
        }
        if let Some((project, usage)) = now {
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
