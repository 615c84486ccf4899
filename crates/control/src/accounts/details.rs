//! The details of a token: its content, with the names and roles that control's present state has for it.

use placewright_conductor::super_conductor::State;
use placewright_placement::Timestamp;

use super::token::{TokenContent, TokenRefusal, TokenScope};

/// A valid token, with the names and roles that control's state has for it now.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenDetails {
    /// The content of the token itself.
    pub content: TokenContent,
    /// The name of the token's user.
    pub user_name: String,
    /// The name of the project of the token's scope; `None` if the scope is no project.
    pub project_name: Option<String>,
    /// The roles in the token's scope, implied ones too: ids and names.
    pub roles: Vec<(String, String)>,
    /// Whether the token may manage application credentials. A token that was obtained with a restricted application
    /// credential may not.
    pub manages_credentials: bool,
}

/// The details of a token whose signature and time are valid.
///
/// # Errors
///
/// Why the state does not allow the token.
pub(super) fn details(
    state: &State,
    content: TokenContent,
    now: Timestamp,
) -> Result<TokenDetails, TokenRefusal> {
    let user = state.users().get(&content.user);
    let user = user
        .filter(|user| user.enabled)
        .ok_or(TokenRefusal::NoUser)?;
    let is_revoked = || {
        let audit_id = content.audit_id();
        let key = (content.user.clone(), audit_id);
        state.revoked_tokens().contains_key(&key)
    };
    // When the user's epoch is raised, for example by a new password, all earlier tokens of the user become invalid.
    if user.epoch != content.epoch || is_revoked() {
        return Err(TokenRefusal::Revoked);
    }
    let mut project_name = None;
    if let TokenScope::Project(id) = &content.scope {
        let project = state.projects().get(id).filter(|project| project.enabled);
        project_name = Some(project.ok_or(TokenRefusal::NoProject)?.name.clone());
    }
    let mut roles = match content.scope.assignment() {
        Some(scope) => state.roles_in(&content.user, &scope),
        None => Default::default(),
    };
    let mut manages_credentials = true;
    if let Some(id) = &content.application_credential {
        let credential = state.application_credentials().get(id);
        let is_valid = |expires_at: Option<Timestamp>| expires_at.is_none_or(|end| now < end);
        let credential = credential.filter(|row| is_valid(row.expires_at));
        let credential = credential.ok_or(TokenRefusal::NoCredential)?;
        let granted = state.with_implied(&credential.roles);
        roles.retain(|role| granted.contains(role));
        manages_credentials = credential.unrestricted;
    }
    if roles.is_empty() && content.scope != TokenScope::None {
        return Err(TokenRefusal::NoRole);
    }
    let roles = roles.into_iter().filter_map(|id| {
        let name = state.roles().get(&id)?.name.clone();
        Some((id, name))
    });
    Ok(TokenDetails {
        user_name: user.name.clone(),
        project_name,
        roles: roles.collect(),
        manages_credentials,
        content,
    })
}
