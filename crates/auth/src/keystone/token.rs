//! Parses Keystone's data of a token.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use crate::identity::{Identity, IdentityParts, ServiceIdentity};

/// A token that Keystone has validated.
#[derive(Debug)]
pub(crate) struct Token {
    /// The identity of the token's owner.
    pub(crate) identity: Arc<Identity>,
    expires_at: Timestamp,
    /// Whether the token may be used only for certain requests (access rules) or by certain clients (bind). Such a
    /// token is never usable here, because these restrictions are not implemented.
    is_restricted: bool,
}

impl Token {
    /// Parses the body of a response; `None` if it has no valid token object.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let Body { token } = serde_json::from_slice(body).ok()?;
        let (project, user_domain) = (token.project.as_ref(), token.user.domain.as_ref());
        let has_system_scope = token.system.as_ref().is_some_and(|system| system.all);
        let is_restricted = token
            .application_credential
            .as_ref()
            .is_some_and(|credential| credential.access_rules.is_some())
            || token
                .bind
                .as_ref()
                .is_some_and(|bind| bind.kerberos.is_some());
        let identity = Identity::new(IdentityParts {
            user_domain_id: user_domain.and_then(|domain| domain.id.clone()),
            project_id: project.and_then(|project| project.id.clone()),
            project_domain_id: project.and_then(|p| p.domain.as_ref()?.id.clone()),
            domain_id: token.domain.as_ref().and_then(|domain| domain.id.clone()),
            system_scope: has_system_scope.then(|| "all".to_owned()),
            roles: token
                .roles
                .into_iter()
                .map(|role| role.name.trim().to_owned())
                .collect(),
            // Keystone leaves it out if no project is configured as the one of administrators.
            is_admin_project: token.is_admin_project.unwrap_or(true),
            is_admin: None,
            service: None,
            user_id: Some(token.user.id),
        });
        let expires_at = token.expires_at.parse().ok()?;
        Some(Self {
            identity: Arc::new(identity),
            expires_at,
            is_restricted,
        })
    }

    /// Whether the token can be used now. With `allow_expired`, also after it expired: Keystone has checked then that
    /// it did so lately.
    pub(crate) fn is_usable(&self, now: Timestamp, allow_expired: bool) -> bool {
        !self.is_restricted && (allow_expired || now < self.expires_at)
    }

    /// The time until the token expires; zero if it has expired.
    pub(crate) fn remaining(&self, now: Timestamp) -> Duration {
        Duration::try_from(self.expires_at.duration_since(now)).unwrap_or(Duration::ZERO)
    }

    /// The identity of this token's user, whose request is forwarded by the owner of the token `service`.
    pub(crate) fn with_service(&self, service: &Self) -> Identity {
        let service_parts = service.identity.parts();
        Identity::new(IdentityParts {
            service: Some(Box::new(ServiceIdentity {
                user_id: service_parts.user_id.clone(),
                user_domain_id: service_parts.user_domain_id.clone(),
                project_id: service_parts.project_id.clone(),
                project_domain_id: service_parts.project_domain_id.clone(),
                roles: service_parts.roles.clone(),
            })),
            ..self.identity.parts().clone()
        })
    }
}

#[derive(Deserialize)]
struct Body {
    token: TokenBody,
}

#[derive(Deserialize)]
struct TokenBody {
    expires_at: String,
    user: UserBody,
    project: Option<ScopeBody>,
    domain: Option<ScopeBody>,
    system: Option<SystemBody>,
    #[serde(default)]
    roles: Vec<RoleBody>,
    is_admin_project: Option<bool>,
    application_credential: Option<ApplicationCredentialBody>,
    bind: Option<BindBody>,
}

#[derive(Deserialize)]
struct UserBody {
    id: String,
    domain: Option<DomainBody>,
}

#[derive(Deserialize)]
struct ScopeBody {
    id: Option<String>,
    domain: Option<DomainBody>,
}

#[derive(Deserialize)]
struct DomainBody {
    id: Option<String>,
}

#[derive(Deserialize)]
struct SystemBody {
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize)]
struct RoleBody {
    name: String,
}

#[derive(Deserialize)]
struct ApplicationCredentialBody {
    access_rules: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct BindBody {
    kerberos: Option<serde_json::Value>,
}
