//! Which of several quota scopes decides the limit of a project.

use super::state::State;
use crate::quota::{Limits, QuotaScope, Resource, UNLIMITED};

/// The quota class that holds for every project.
pub const DEFAULT_QUOTA_CLASS: &str = "default";

impl State {
    /// Whether Keystone's limits are in force. Then all other limits are ignored.
    #[must_use]
    pub fn has_unified_limits(&self) -> bool {
        self.quotas.contains_key(&QuotaScope::Registered)
    }

    /// The limit of a resource for a project, or for projects without limits of their own;
    /// [`UNLIMITED`] if there is none.
    #[must_use]
    pub fn quota_limit(&self, project: Option<&str>, resource: &Resource) -> i64 {
        let mut scopes = self.scopes(project);
        let decided = scopes.find_map(|limits| limits.get(resource));
        decided.copied().unwrap_or(UNLIMITED)
    }

    /// The limits that hold for a project, or for projects without limits of their own. Resources that are not among
    /// them are not limited.
    #[must_use]
    pub fn quota_limits(&self, project: Option<&str>) -> Limits {
        let mut limits = Limits::new();
        for scope in self.scopes(project) {
            for (resource, limit) in scope {
                limits.entry(resource.clone()).or_insert(*limit);
            }
        }
        limits
    }

    /// The amount of a resource that a project holds: 0 for key pairs, which belong to users, and for members of server
    /// groups, which are limited for each group.
    #[must_use]
    pub fn used(&self, project: &str, resource: &Resource) -> u64 {
        if *resource == Resource::ServerGroups {
            return self.listing().group_count(project) as u64;
        }
        let held = self.listing().usage(project);
        held.map_or(0, |held| held.amount(resource))
    }

    /// The limits of all scopes that include a project, the highest precedence first: the first of
    /// them that has a resource decides its limit.
    fn scopes(&self, project: Option<&str>) -> impl Iterator<Item = &Limits> {
        let is_unified = self.has_unified_limits();
        let own = project.map(|project| match is_unified {
            true => QuotaScope::Unified(project.to_owned()),
            false => QuotaScope::Project(project.to_owned()),
        });
        let for_all_projects = match is_unified {
            true => [Some(QuotaScope::Registered), None],
            false => [
                Some(QuotaScope::Class(DEFAULT_QUOTA_CLASS.to_owned())),
                Some(QuotaScope::Configured),
            ],
        };
        let scopes = own
            .into_iter()
            .chain(for_all_projects.into_iter().flatten());
        scopes.filter_map(|scope| self.quotas.get(&scope).map(|set| &set.limits))
    }
}
