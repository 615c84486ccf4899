//! The identity of a caller, as policies see it.

use std::fmt;

/// The identity of a caller.
///
/// It contains the attributes that the reference's request context passes to oslo.policy. In a policy, an absent text
/// compares as `None`, as in the reference.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    parts: IdentityParts,
    /// The roles in lower case, because role checks ignore case.
    roles_lower: Vec<Box<str>>,
}

/// The attributes of an [`Identity`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentityParts {
    /// The id of the user.
    pub user_id: Option<String>,
    /// The domain of the user.
    pub user_domain_id: Option<String>,
    /// The project of the request.
    pub project_id: Option<String>,
    /// The domain of that project.
    pub project_domain_id: Option<String>,
    /// The domain of the request (domain scope).
    pub domain_id: Option<String>,
    /// `all` for a request to the whole system (system scope).
    pub system_scope: Option<String>,
    /// The roles as they were given: upper and lower case are kept.
    pub roles: Vec<String>,
    /// Whether the project is the deployment's admin project. Every strategy sets it to true unless the caller's
    /// credentials say otherwise; in `IdentityParts::default()` it is false.
    pub is_admin_project: bool,
    /// The value for `is_admin:True` in policies. With all strategies but `http_basic` it is absent, and such a check
    /// fails, because Placement never passes the value. `http_basic` sets it, to true for users with the role `admin`.
    pub is_admin: Option<bool>,
    /// The service that forwarded the user's request, if there is one.
    pub service: Option<Box<ServiceIdentity>>,
}

/// The service whose token accompanied the user's (`X-Service-Token`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceIdentity {
    /// The user of the service.
    pub user_id: Option<String>,
    /// The domain of the service's user.
    pub user_domain_id: Option<String>,
    /// The project of the service.
    pub project_id: Option<String>,
    /// The domain of the service's project.
    pub project_domain_id: Option<String>,
    /// The roles of the service.
    pub roles: Vec<String>,
}

/// The scope of a request. A request has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The request concerns the whole system.
    System,
    /// The request concerns a domain.
    Domain,
    /// The request concerns a project, or names no scope.
    Project,
}

impl Scope {
    /// The name in policies and messages.
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
    /// Builds an identity from its attributes.
    pub fn new(parts: IdentityParts) -> Self {
        let roles_lower = parts
            .roles
            .iter()
            .map(|role| role.to_lowercase().into())
            .collect();
        Self { parts, roles_lower }
    }

    /// All attributes of the identity.
    pub fn parts(&self) -> &IdentityParts {
        &self.parts
    }

    /// The id of the user, if known.
    pub fn user_id(&self) -> Option<&str> {
        self.parts.user_id.as_deref()
    }

    /// The id of the project, if known.
    pub fn project_id(&self) -> Option<&str> {
        self.parts.project_id.as_deref()
    }

    /// The roles as they were given: upper and lower case are kept.
    pub fn roles(&self) -> &[String] {
        &self.parts.roles
    }

    /// Whether the caller has the role `admin` or `service`, so that it is an operator or a service and not a tenant.
    pub fn is_operator_or_service(&self) -> bool {
        self.roles_lower
            .iter()
            .any(|role| matches!(&**role, "admin" | "service"))
    }

    /// Whether the identity has `role`, which must be in lower case.
    pub(crate) fn has_role_lower(&self, role: &str) -> bool {
        self.roles_lower
            .iter()
            .any(|caller_role| **caller_role == *role)
    }

    /// The scope of the request. System scope takes precedence over domain scope; an empty text is
    /// no scope.
    pub fn scope(&self) -> Scope {
        let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        if is_set(&self.parts.system_scope) {
            Scope::System
        } else if is_set(&self.parts.domain_id) {
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
