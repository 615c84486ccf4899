//! The strategy `noauth2`: the caller's claims are accepted without a check.
//!
//! The headers are interpreted as by the reference with `auth_strategy = noauth2`: any
//! `X-Auth-Token` is accepted, even an empty one, and the other headers complete the identity.

use std::borrow::Cow;

use crate::error::AuthError;
use crate::headers::{Headers, latin1};
use crate::identity::{Identity, IdentityParts, ServiceIdentity};

/// The maximum length in bytes of the name of a user, project or domain; the reference stores no
/// longer ones.
const NAME_BYTES_MAX: usize = 255;
/// The maximum length of a role in bytes.
const ROLE_BYTES_MAX: usize = 255;
/// The indexes of the headers with lists of roles in the array of [`authenticate`].
const ROLES_INDEX: usize = 2;
const SERVICE_ROLES_INDEX: usize = 14;

/// Checks the length of the name in a header, or of both names in a token.
fn check_name(value: &[u8]) -> Result<(), AuthError> {
    let mut names = value.splitn(2, |byte| *byte == b':');
    if names.all(|name| name.len() <= NAME_BYTES_MAX) {
        return Ok(());
    }
    Err(AuthError::TooLarge {
        reason: format!(
            "The headers say who you are with a name of more than {NAME_BYTES_MAX} bytes."
        ),
    })
}

/// Checks the number and length of roles.
fn check_roles(value: &[u8], roles_max: usize) -> Result<(), AuthError> {
    let too_large = |reason| Err(AuthError::TooLarge { reason });
    let roles = value.split(|byte| *byte == b',');
    if roles.clone().any(|role| role.len() > ROLE_BYTES_MAX) {
        return too_large(format!("A role has more than {ROLE_BYTES_MAX} bytes."));
    }
    let count = roles.count();
    if count > roles_max {
        return too_large(format!(
            "The headers name {count} roles; auth.roles_max allows {roles_max}."
        ));
    }
    Ok(())
}

/// Reads the identity that the caller claims. The token is `USER:PROJECT`, or `USER` for the project of the same name.
///
/// # Errors
/// [`AuthError::Unauthorized`] when there is no `X-Auth-Token`, [`AuthError::TooLarge`] when a name or
/// a list of roles exceeds its limit.
pub(crate) fn authenticate(
    headers: &(impl Headers + ?Sized),
    roles_max: usize,
) -> Result<Identity, AuthError> {
    let values = headers.values([
        "x-auth-token",
        "openstack-system-scope",
        "x-roles",
        "x-project-id",
        "x-tenant-id",
        "x-tenant",
        "x-is-admin-project",
        "x-user-domain-id",
        "x-project-domain-id",
        "x-domain-id",
        "x-service-user-id",
        "x-service-user-domain-id",
        "x-service-project-id",
        "x-service-project-domain-id",
        "x-service-roles",
    ]);
    for (index, value) in values.iter().enumerate() {
        let Some(value) = value else { continue };
        if index == ROLES_INDEX || index == SERVICE_ROLES_INDEX {
            check_roles(value, roles_max)?;
        } else {
            check_name(value)?;
        }
    }
    let [
        token,
        system_scope,
        roles,
        project_id,
        tenant_id,
        tenant,
        is_admin_project,
        user_domain_id,
        project_domain_id,
        domain_id,
        service @ ..,
    ] = values;
    let token = text(token).ok_or(AuthError::Unauthorized { challenge: None })?;
    let (user, project) = token.split_once(':').unwrap_or((&token, ""));
    let project = if project.is_empty() { user } else { project };
    let system_scope = text(system_scope);
    let roles = match text(roles) {
        Some(roles) => split_roles(&roles),
        None if user == "admin" => vec!["admin".to_owned()],
        None => Vec::new(),
    };
    // `X-Project-Id` has precedence, then the token's project or, with system scope, that of the older headers.
    let project_id = text(project_id).or_else(|| {
        if system_scope.as_deref().is_none_or(str::is_empty) {
            Some(project.to_owned())
        } else {
            text(tenant_id).or_else(|| text(tenant))
        }
    });
    let is_admin_project = is_admin_project.is_none_or(|value| value.eq_ignore_ascii_case(b"true"));
    Ok(Identity::new(IdentityParts {
        user_id: Some(user.to_owned()),
        user_domain_id: text(user_domain_id),
        project_id,
        project_domain_id: text(project_domain_id),
        domain_id: text(domain_id),
        system_scope,
        roles,
        is_admin_project,
        is_admin: None,
        service: service_of(service),
    }))
}

/// The service in the last five headers: user, its domain, project, its domain, roles.
fn service_of(values: [Option<Cow<'_, [u8]>>; 5]) -> Option<Box<ServiceIdentity>> {
    if values.iter().all(Option::is_none) {
        return None;
    }
    let [
        user_id,
        user_domain_id,
        project_id,
        project_domain_id,
        roles,
    ] = values.map(text);
    let service = ServiceIdentity {
        user_id,
        user_domain_id,
        project_id,
        project_domain_id,
        roles: roles.map_or_else(Vec::new, |roles| split_roles(&roles)),
    };
    (service != ServiceIdentity::default()).then(|| Box::new(service))
}

/// Decodes a header's value.
fn text(value: Option<Cow<'_, [u8]>>) -> Option<String> {
    value.map(|value| latin1(&value))
}

/// Splits a list of roles at its commas; an empty list has no roles.
pub(crate) fn split_roles(roles: &str) -> Vec<String> {
    if roles.is_empty() {
        return Vec::new();
    }
    roles
        .split(',')
        .map(|role| role.trim().to_owned())
        .collect()
}
