//! Whether several projects have sent requests lately.

use std::time::Duration;

/// For how long a project counts as present after its last request. It is longer than most answers take, so that a
/// project that waits for each answer before its next request stays present.
const PRESENT_FOR: Duration = Duration::from_secs(1);

/// The last two projects that sent requests, each with the time of its last request.
#[derive(Debug, Default)]
pub(crate) struct RecentProjects {
    /// The project of the last request, with the time of that request.
    last: Option<(u64, Duration)>,
    /// The most recent request of any project other than that of `last`: the project and the time.
    last_of_another: Option<(u64, Duration)>,
}

impl RecentProjects {
    /// Notes a request of a project.
    pub(crate) fn note(&mut self, project: u64, now: Duration) {
        if self.last.is_some_and(|(last, _)| last != project) {
            self.last_of_another = self.last;
        }
        self.last = Some((project, now));
    }

    /// Whether several projects are present.
    pub(crate) fn are_several(&self, now: Duration) -> bool {
        self.several_until().is_some_and(|until| now < until)
    }

    /// The time until which several projects are or were present; `None` if fewer than two have sent requests.
    pub(crate) fn several_until(&self) -> Option<Duration> {
        (self.last_of_another).map(|(_, at)| at.saturating_add(PRESENT_FOR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_present_for_a_second_after_its_last_request() {
        let mut projects = RecentProjects::default();
        let at = Duration::from_millis;
        projects.note(1, at(0));
        assert!(!projects.are_several(at(0)));
        projects.note(2, at(100));
        projects.note(2, at(200));
        assert!(projects.are_several(at(999)));
        assert!(!projects.are_several(at(1000)));
        projects.note(1, at(1100));
        assert!(projects.are_several(at(1199)));
        assert!(!projects.are_several(at(1200)));
    }
}
