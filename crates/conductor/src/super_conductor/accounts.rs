//! Queries of control's state about accounts.

use std::collections::BTreeSet;

use super::state::State;
use crate::accounts::{
    ApplicationCredential, Assignment, AssignmentScope, Project, RevokedToken, Role, User,
};

impl State {
    /// The id and the record of the user with this name.
    #[must_use]
    pub fn user_named(&self, name: &str) -> Option<(&str, &User)> {
        let mut users = self.users.iter();
        let (id, user) = users.find(|(_, user)| user.name == name)?;
        Some((id, user))
    }

    /// The id and the record of the project with this name.
    #[must_use]
    pub fn project_named(&self, name: &str) -> Option<(&str, &Project)> {
        let mut projects = self.projects.iter();
        let (id, project) = projects.find(|(_, project)| project.name == name)?;
        Some((id, project))
    }

    /// The id and the record of the role with this name.
    #[must_use]
    pub fn role_named(&self, name: &str) -> Option<(&str, &Role)> {
        let mut roles = self.roles.iter();
        let (id, role) = roles.find(|(_, role)| role.name == name)?;
        Some((id, role))
    }

    /// The assignments of a user, scope by scope.
    pub fn assignments_of<'s>(
        &'s self,
        user: &'s str,
    ) -> impl Iterator<Item = (&'s AssignmentScope, &'s Assignment)> + 's {
        let first = (user.to_owned(), AssignmentScope::Project(String::new()));
        let rows = self.assignments.range(first..);
        rows.take_while(move |((of, _), _)| of == user)
            .map(|((_, scope), row)| (scope, row))
    }

    /// The ids of all roles of a user in a scope, also of those that other roles imply.
    #[must_use]
    pub fn roles_in(&self, user: &str, scope: &AssignmentScope) -> BTreeSet<String> {
        let key = (user.to_owned(), scope.clone());
        let assigned = self.assignments.get(&key);
        self.with_implied(assigned.into_iter().flat_map(|row| row.roles.iter()))
    }

    /// The ids of roles and of all roles that they imply.
    pub fn with_implied<'s>(
        &'s self,
        roles: impl IntoIterator<Item = &'s String>,
    ) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let mut pending: Vec<&String> = roles.into_iter().collect();
        while let Some(id) = pending.pop() {
            let Some(role) = self.roles.get(id) else {
                continue;
            };
            if all.insert(id.clone()) {
                pending.extend(&role.implies);
            }
        }
        all
    }

    /// The application credentials of a user.
    pub fn application_credentials_of<'s>(
        &'s self,
        user: &'s str,
    ) -> impl Iterator<Item = (&'s str, &'s ApplicationCredential)> + 's {
        let rows = self.application_credentials.iter();
        rows.filter(move |(_, row)| row.user == user)
            .map(|(id, row)| (id.as_str(), row))
    }

    /// The revoked tokens of a user, by audit id.
    pub fn revoked_tokens_of<'s>(
        &'s self,
        user: &'s str,
    ) -> impl Iterator<Item = (&'s str, &'s RevokedToken)> + 's {
        let rows = self
            .revoked_tokens
            .range((user.to_owned(), String::new())..);
        rows.take_while(move |((of, _), _)| of == user)
            .map(|((_, audit_id), row)| (audit_id.as_str(), row))
    }
}
