//! The work that waits for the ranking thread: projects take turns.

use std::collections::{HashMap, VecDeque};

use crate::plan::PlanningWork;

/// Work by project. The next piece is always of the project that has waited for its turn the longest, so that a request
/// for thousands of servers does not hold up the servers of other projects.
#[derive(Default)]
pub(super) struct WorkQueue {
    by_project: HashMap<String, VecDeque<PlanningWork>>,
    /// The projects that have work, the next one first.
    turns: VecDeque<String>,
}

impl WorkQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Adds work behind the other work of its project.
    pub(super) fn push(&mut self, project: &str, work: PlanningWork) {
        match self.by_project.get_mut(project) {
            Some(queue) => queue.push_back(work),
            None => {
                self.by_project
                    .insert(project.to_owned(), VecDeque::from([work]));
                self.turns.push_back(project.to_owned());
            }
        }
    }

    /// Takes the next piece of work, with its project.
    pub(super) fn take(&mut self) -> Option<(String, PlanningWork)> {
        let project = self.turns.pop_front()?;
        let queue = self.by_project.get_mut(&project)?;
        let work = queue.pop_front()?;
        if queue.is_empty() {
            self.by_project.remove(&project);
        } else {
            self.turns.push_back(project.clone());
        }
        Some((project, work))
    }
}

#[cfg(test)]
mod tests {
    use placewright_conductor::InstanceId;
    use uuid::Uuid;

    use super::*;

    fn builds(number: u128) -> PlanningWork {
        PlanningWork::Builds(vec![InstanceId(Uuid::from_u128(number))])
    }

    fn take(queue: &mut WorkQueue) -> Option<(String, u128)> {
        let (project, work) = queue.take()?;
        let PlanningWork::Builds(instances) = work else {
            unreachable!("only builds were queued");
        };
        Some((project, instances[0].0.as_u128()))
    }

    #[test]
    fn projects_take_turns() {
        let mut queue = WorkQueue::default();
        for number in [1, 2, 3] {
            queue.push("large", builds(number));
        }
        queue.push("small", builds(4));
        let order: Vec<u128> = std::iter::from_fn(|| take(&mut queue))
            .map(|(_, number)| number)
            .collect();
        assert_eq!(order, [1, 4, 2, 3]);
        assert!(queue.is_empty());
    }
}
