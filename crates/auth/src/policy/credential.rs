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
    /// Whether the attribute equals `text`; a list has to contain it. As in Python, an absent text is
    /// `None`, and a boolean `True` or `False`.
    pub(crate) fn equals(self, identity: &Identity, text: &str) -> bool {
        let parts = identity.parts();
        let text_equals = |value: &Option<String>| value.as_deref().unwrap_or("None") == text;
        let contains = |list: &[String]| list.iter().any(|value| value == text);
        let bool_equals = |value: bool| (if value { "True" } else { "False" }) == text;
        let service_text_equals =
            |field: fn(&ServiceIdentity) -> &Option<String>| match &parts.service {
                Some(service) => text_equals(field(service)),
                None => text == "None",
            };
        match self {
            Self::UserId => text_equals(&parts.user_id),
            Self::UserDomainId => text_equals(&parts.user_domain_id),
            Self::SystemScope => text_equals(&parts.system_scope),
            // Derived from the system scope; without it the attribute is absent, and equals nothing.
            Self::System => parts
                .system_scope
                .as_deref()
                .is_some_and(|s| !s.is_empty() && s == text),
            Self::DomainId => text_equals(&parts.domain_id),
            Self::ProjectId => text_equals(&parts.project_id),
            Self::ProjectDomainId => text_equals(&parts.project_domain_id),
            Self::Roles => contains(&parts.roles),
            Self::IsAdmin => parts.is_admin.is_some_and(bool_equals),
            Self::IsAdminProject => bool_equals(parts.is_admin_project),
            Self::ServiceUserId => service_text_equals(|service| &service.user_id),
            Self::ServiceUserDomainId => service_text_equals(|service| &service.user_domain_id),
            Self::ServiceProjectId => service_text_equals(|service| &service.project_id),
            Self::ServiceProjectDomainId => {
                service_text_equals(|service| &service.project_domain_id)
            }
            Self::ServiceRoles => parts
                .service
                .as_ref()
                .is_some_and(|service| contains(&service.roles)),
        }
    }
}
