//! How the services of this process check the installation's own tokens.

use std::fmt;
use std::sync::Arc;

use placewright_auth::{CheckedToken, Identity, IdentityParts, Refreshing, Secret, TokenCheck};
use placewright_conductor::accounts::{ADMIN_ROLE, DEFAULT_DOMAIN};
use placewright_control::accounts::{Accounts, TokenDetails, TokenScope};

/// Checks tokens on control's state.
pub struct OwnTokenCheck {
    accounts: Accounts,
    /// A token of this process alone, with which its own agents write to placement. `None` if there is no such token.
    process_token: Option<Secret>,
    /// The identity of a caller with the process token: an administrator.
    process_identity: Arc<Identity>,
}

impl fmt::Debug for OwnTokenCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OwnTokenCheck")
            .finish_non_exhaustive()
    }
}

impl OwnTokenCheck {
    /// A check of the tokens of these accounts. Whoever sends `process_token` is an administrator.
    #[must_use]
    pub fn new(accounts: Accounts, process_token: Option<Secret>) -> Self {
        let process_identity = Identity::new(IdentityParts {
            user_id: Some("placewright".to_owned()),
            project_id: Some("placewright".to_owned()),
            roles: vec![ADMIN_ROLE.to_owned(), "service".to_owned()],
            is_admin_project: true,
            ..IdentityParts::default()
        });
        Self {
            accounts,
            process_token,
            process_identity: Arc::new(process_identity),
        }
    }

    fn is_process_token(&self, token: &str) -> bool {
        let Some(own) = &self.process_token else {
            return false;
        };
        // The signatures of both tokens under one key are compared in place of the tokens, because that takes constant
        // time.
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, own.expose().as_bytes());
        let signature = ring::hmac::sign(&key, own.expose().as_bytes());
        ring::hmac::verify(&key, token.as_bytes(), signature.as_ref()).is_ok()
    }
}

impl TokenCheck for OwnTokenCheck {
    fn check(&self, token: &str, allow_expired: bool) -> CheckedToken {
        match self.accounts.check(token, allow_expired) {
            Ok(details) => CheckedToken::Valid(Arc::new(identity(details))),
            Err(_) if self.is_process_token(token) => {
                CheckedToken::Valid(Arc::clone(&self.process_identity))
            }
            Err(reason) if reason.depends_on_state() => CheckedToken::NotByThisState,
            Err(_) => CheckedToken::Invalid,
        }
    }

    fn refresh(&self) -> Option<Refreshing> {
        let engine = self.accounts.control().engine();
        // The state of a process that is alone, and whose store has lost nothing, is always up to date.
        let has_to_ask = engine.is_replica() || engine.has_lost_entries();
        let confirming = has_to_ask.then(|| engine.confirm())?;
        Some(Box::pin(async move {
            // Without an answer the token is checked on the same state again, and refused.
            let _ = confirming.await;
        }))
    }
}

/// The identity of a token's user, as policies see it.
fn identity(details: TokenDetails) -> Identity {
    let mut parts = IdentityParts {
        user_id: Some(details.content.user),
        user_domain_id: Some(DEFAULT_DOMAIN.to_owned()),
        roles: details.roles.into_iter().map(|(_, name)| name).collect(),
        is_admin_project: true,
        ..IdentityParts::default()
    };
    match details.content.scope {
        TokenScope::None => {}
        TokenScope::Project(id) => {
            parts.project_id = Some(id);
            parts.project_domain_id = Some(DEFAULT_DOMAIN.to_owned());
        }
        TokenScope::Domain(id) => parts.domain_id = Some(id),
        TokenScope::System => parts.system_scope = Some("all".to_owned()),
    }
    Identity::new(parts)
}
