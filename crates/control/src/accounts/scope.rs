//! For which scope a user gets a token.

use std::collections::BTreeSet;

use placewright_conductor::accounts::{AssignmentScope, DEFAULT_DOMAIN};
use placewright_conductor::super_conductor::State;

use super::token::TokenScope;

/// The scope that a client requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedScope {
    /// The client names no scope: the user's default project, if it is enabled and the user has a role in it; otherwise
    /// no scope.
    Default,
    /// The client asks for a token without a scope.
    Unscoped,
    /// A project, by its id.
    ProjectId(String),
    /// A project, by its name.
    ProjectName(String),
    /// A domain, by its id.
    Domain(String),
    /// The whole installation.
    System,
}

/// The user has no role in the requested scope, the project is disabled, or there is no such scope. Clients do not
/// learn which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the user has no role in the requested scope")]
pub struct ScopeRefusal;

impl RequestedScope {
    /// The scope of the user's token.
    ///
    /// # Errors
    ///
    /// [`ScopeRefusal`].
    pub fn resolve(&self, state: &State, user: &str) -> Result<TokenScope, ScopeRefusal> {
        let project = |id: &str| {
            let is_enabled = state.projects().get(id).is_some_and(|row| row.enabled);
            let scope = TokenScope::Project(id.to_owned());
            (is_enabled && has_role(state, user, &scope)).then_some(scope)
        };
        match self {
            Self::Unscoped => Ok(TokenScope::None),
            Self::Default => {
                let row = state.users().get(user);
                let default = row.and_then(|row| row.default_project.as_deref());
                Ok(default.and_then(project).unwrap_or(TokenScope::None))
            }
            Self::ProjectId(id) => project(id).ok_or(ScopeRefusal),
            Self::ProjectName(name) => {
                let found = state.project_named(name);
                found.and_then(|(id, _)| project(id)).ok_or(ScopeRefusal)
            }
            Self::Domain(id) => {
                let scope = TokenScope::Domain(id.clone());
                let is_allowed = id == DEFAULT_DOMAIN && has_role(state, user, &scope);
                is_allowed.then_some(scope).ok_or(ScopeRefusal)
            }
            Self::System => {
                let is_allowed = has_role(state, user, &TokenScope::System);
                is_allowed.then_some(TokenScope::System).ok_or(ScopeRefusal)
            }
        }
    }
}

fn has_role(state: &State, user: &str, scope: &TokenScope) -> bool {
    let assignment: Option<AssignmentScope> = scope.assignment();
    let roles = assignment.map_or_else(BTreeSet::new, |scope| state.roles_in(user, &scope));
    !roles.is_empty()
}
