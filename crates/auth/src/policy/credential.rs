//! The attributes of a caller that policies can test: the left side of
//! `project_id:%(project_id)s`.

use crate::identity::{Identity, ServiceIdentity};

macro_rules! credentials {
    ($( $variant:ident = $name:literal ),+ $(,)?) => {
        /// An attribute by name, resolved when the policy is compiled.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Credential {
            $( $variant, )+
        }

        /// The names of all attributes.
        pub(crate) const NAMES: &[&str] = &[ $( $name ),+ ];

        impl Credential {
            /// The attribute with this name; `None` for names that policies may use but that no
            /// caller has.
            pub(crate) fn from_name(name: &str) -> Option<Self> {
                match name {
                    $( $name => Some(Self::$variant), )+
                    _ => None,
                }
            }
        }
    };
}

credentials! {
    UserId = "user_id",
    UserDomainId = "user_domain_id",
    SystemScope = "system_scope",
    System = "system",
    DomainId = "domain_id",
    ProjectId = "project_id",
    ProjectDomainId = "project_domain_id",
    Roles = "roles",
    IsAdmin = "is_admin",
    IsAdminProject = "is_admin_project",
    ServiceUserId = "service_user_id",
    ServiceUserDomainId = "service_user_domain_id",
    ServiceProjectId = "service_project_id",
    ServiceProjectDomainId = "service_project_domain_id",
    ServiceRoles = "service_roles",
}

impl Credential {
    /// Whether the attribute equals `text`, or for a list contains it. An absent text is `None`, a
    /// boolean `True` or `False`, as in Python.
    pub(crate) fn is(self, identity: &Identity, text: &str) -> bool {
        let own = identity.parts();
        let same = |value: &Option<String>| value.as_deref().unwrap_or("None") == text;
        let any = |list: &[String]| list.iter().any(|value| value == text);
        let truth = |value: bool| (if value { "True" } else { "False" }) == text;
        let service = |pick: fn(&ServiceIdentity) -> &Option<String>| match &own.service {
            Some(service) => same(pick(service)),
            None => text == "None",
        };
        match self {
            Self::UserId => same(&own.user_id),
            Self::UserDomainId => same(&own.user_domain_id),
            Self::SystemScope => same(&own.system_scope),
            // Derived from the scope, and absent without one.
            Self::System => own
                .system_scope
                .as_deref()
                .is_some_and(|s| !s.is_empty() && s == text),
            Self::DomainId => same(&own.domain_id),
            Self::ProjectId => same(&own.project_id),
            Self::ProjectDomainId => same(&own.project_domain_id),
            Self::Roles => any(&own.roles),
            Self::IsAdmin => own.is_admin.is_some_and(truth),
            Self::IsAdminProject => truth(own.is_admin_project),
            Self::ServiceUserId => service(|service| &service.user_id),
            Self::ServiceUserDomainId => service(|service| &service.user_domain_id),
            Self::ServiceProjectId => service(|service| &service.project_id),
            Self::ServiceProjectDomainId => service(|service| &service.project_domain_id),
            Self::ServiceRoles => own
                .service
                .as_ref()
                .is_some_and(|service| any(&service.roles)),
        }
    }
}
