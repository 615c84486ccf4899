//! `noauth2`: the caller is believed.
//!
//! The headers mean what they mean to the reference with `auth_strategy = noauth2`: any
//! `X-Auth-Token` will do, even an empty one, and the other headers say the rest.

use crate::error::AuthError;
use crate::headers::{Headers, text};
use crate::identity::{Identity, IdentityParts, ServiceIdentity};

/// Reads who the caller claims to be.
///
/// # Errors
/// [`AuthError::Unauthorized`] when there is no `X-Auth-Token`.
pub(crate) fn authenticate(headers: &(impl Headers + ?Sized)) -> Result<Identity, AuthError> {
    let token = text(headers, "x-auth-token").ok_or(AuthError::Unauthorized { challenge: None })?;
    let (user, project) = token.split_once(':').unwrap_or((&token, ""));
    let project = if project.is_empty() { user } else { project };
    let system_scope = text(headers, "openstack-system-scope");
    let roles = match text(headers, "x-roles") {
        Some(roles) => split_roles(&roles),
        None if user == "admin" => vec!["admin".to_owned()],
        None => Vec::new(),
    };
    // With system scope the token's project is not filled in; what the headers say still counts.
    let project_id = text(headers, "x-project-id").or_else(|| {
        if system_scope.as_deref().is_none_or(str::is_empty) {
            Some(project.to_owned())
        } else {
            text(headers, "x-tenant-id").or_else(|| text(headers, "x-tenant"))
        }
    });
    let is_admin_project = headers
        .value("x-is-admin-project")
        .is_none_or(|value| value.eq_ignore_ascii_case(b"true"));
    Ok(Identity::new(IdentityParts {
        user_id: Some(user.to_owned()),
        user_domain_id: text(headers, "x-user-domain-id"),
        project_id,
        project_domain_id: text(headers, "x-project-domain-id"),
        domain_id: text(headers, "x-domain-id"),
        system_scope,
        roles,
        is_admin_project,
        is_admin: None,
        service: service(headers),
    }))
}

fn service(headers: &(impl Headers + ?Sized)) -> Option<Box<ServiceIdentity>> {
    let service = ServiceIdentity {
        user_id: text(headers, "x-service-user-id"),
        user_domain_id: text(headers, "x-service-user-domain-id"),
        project_id: text(headers, "x-service-project-id"),
        project_domain_id: text(headers, "x-service-project-domain-id"),
        roles: text(headers, "x-service-roles").map_or_else(Vec::new, |roles| split_roles(&roles)),
    };
    (service != ServiceIdentity::default()).then(|| Box::new(service))
}

/// Parts a list of roles at its commas; an empty list has no roles, not one without a name.
pub(crate) fn split_roles(roles: &str) -> Vec<String> {
    if roles.is_empty() {
        return Vec::new();
    }
    roles
        .split(',')
        .map(|role| role.trim().to_owned())
        .collect()
}
