//! Who sends a request, as policies see it.

use std::fmt;

/// Who sends a request.
///
/// It is what the reference's request context says to oslo.policy. A text that is absent compares as
/// `None` in a policy, like there.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    parts: IdentityParts,
    /// The roles in lower case: role checks do not depend on case.
    roles_lower: Vec<Box<str>>,
}

/// What an [`Identity`] is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentityParts {
    /// The user.
    pub user_id: Option<String>,
    /// The domain that the user belongs to.
    pub user_domain_id: Option<String>,
    /// The project that the request is made for.
    pub project_id: Option<String>,
    /// The domain of that project.
    pub project_domain_id: Option<String>,
    /// The domain that the request is made for (domain scope).
    pub domain_id: Option<String>,
    /// `all` when the request is made for the whole system (system scope).
    pub system_scope: Option<String>,
    /// The roles, as they were given.
    pub roles: Vec<String>,
    /// Whether the project is the deployment's admin project. True when nothing says otherwise.
    pub is_admin_project: bool,
    /// What `is_admin:True` looks at. Placement never tells policies, so it is absent with `noauth2`
    /// and `keystone`, and such a check fails; `http_basic` sets it for users with the role `admin`.
    pub is_admin: Option<bool>,
    /// The service that handed the user's request on, if one did.
    pub service: Option<Box<ServiceIdentity>>,
}

/// The service whose token came with the user's (`X-Service-Token`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceIdentity {
    /// The service's user.
    pub user_id: Option<String>,
    /// The domain of that user.
    pub user_domain_id: Option<String>,
    /// The service's project.
    pub project_id: Option<String>,
    /// The domain of that project.
    pub project_domain_id: Option<String>,
    /// The service's roles.
    pub roles: Vec<String>,
}

/// What a request is made for. A request has exactly one scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The whole system.
    System,
    /// One domain.
    Domain,
    /// One project, or none named at all.
    Project,
}

impl Scope {
    /// The name that policies and people use.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Domain => "domain",
            Self::Project => "project",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Identity {
    /// Makes an identity of its parts.
    pub fn new(parts: IdentityParts) -> Self {
        let roles_lower = parts
            .roles
            .iter()
            .map(|role| role.to_lowercase().into())
            .collect();
        Self { parts, roles_lower }
    }

    /// The parts.
    pub fn parts(&self) -> &IdentityParts {
        &self.parts
    }

    /// The user, if one is known.
    pub fn user_id(&self) -> Option<&str> {
        self.parts.user_id.as_deref()
    }

    /// The project, if one is known.
    pub fn project_id(&self) -> Option<&str> {
        self.parts.project_id.as_deref()
    }

    /// The roles, as they were given.
    pub fn roles(&self) -> &[String] {
        &self.parts.roles
    }

    /// Whether the identity has `role`, which must be in lower case.
    pub(crate) fn has_role_lower(&self, role: &str) -> bool {
        self.roles_lower.iter().any(|own| **own == *role)
    }

    /// What the request is made for. System scope wins over domain scope; an empty text is no scope.
    pub fn scope(&self) -> Scope {
        let named = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        if named(&self.parts.system_scope) {
            Scope::System
        } else if named(&self.parts.domain_id) {
            Scope::Domain
        } else {
            Scope::Project
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.fmt(f)
    }
}
