//! What a policy can ask about a caller: the left side of `project_id:%(project_id)s`.

use crate::identity::{Identity, ServiceIdentity};

macro_rules! credentials {
    ($( $variant:ident = $name:literal ),+ $(,)?) => {
        /// A credential by name, resolved when the policy is compiled.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Credential {
            $( $variant, )+
        }

        /// The names of all credentials.
        pub(crate) const NAMES: &[&str] = &[ $( $name ),+ ];

        impl Credential {
            /// The credential with that name; policies may ask for others, which nobody has.
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
    /// Whether the caller's credential is `text`; of a list, whether any of it is. An absent text
    /// is `None`, a truth `True` or `False`, as Python writes them.
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
            // Filled in from the scope, and missing without one.
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
