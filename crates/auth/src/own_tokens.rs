//! The strategy `identity`: a token that this installation issued itself, checked in this process.
//!
//! The implementation of [`TokenCheck`] decides what a token is and whether it is valid. This module reads the headers,
//! and handles service tokens, which work as with `keystone`.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::AuthError;
use crate::headers::{Headers, text};
use crate::identity::{Identity, IdentityParts, ServiceIdentity};

/// The maximum length of a token in bytes.
const TOKEN_BYTES_MAX: usize = 4096;
/// The role that a service token must have.
const SERVICE_ROLE: &str = "service";

/// For `allow_expired`: a token that has expired is rejected.
const REJECT_EXPIRED: bool = false;
/// For `allow_expired`: a token that has expired lately is accepted.
const ALLOW_EXPIRED: bool = true;

/// The outcome of checking a token.
#[derive(Debug, Clone)]
pub enum CheckedToken {
    /// The token is valid.
    Valid(Arc<Identity>),
    /// The token is not valid, whatever the state is.
    Invalid,
    /// The signature of the token is valid, but by the state of this process the token is not. A newer state, with the
    /// changes of other processes, might make it valid.
    NotByThisState,
}

/// A wait until the state has every change that was acknowledged before the wait began.
pub type Refreshing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The part of the installation that issues tokens, and so can check them.
pub trait TokenCheck: Send + Sync {
    /// Checks a token, without waiting. With `allow_expired`, a token that has expired lately is valid too.
    fn check(&self, token: &str, allow_expired: bool) -> CheckedToken;

    /// Brings the state up to date, because other processes may have changed it; `None` if the state is always up to
    /// date.
    fn refresh(&self) -> Option<Refreshing>;
}

/// The state of the strategy: the check of tokens. It is set once control runs; until then requests are refused with
/// 503.
#[derive(Default)]
pub(crate) struct OwnTokens {
    check: OnceLock<Arc<dyn TokenCheck>>,
}

impl OwnTokens {
    /// Sets the check of tokens.
    pub(crate) fn set(&self, check: Arc<dyn TokenCheck>) {
        // An error would mean that a check is set already. Each process sets one only.
        let _ = self.check.set(check);
    }

    /// Checks the request's token, and the service token if there is one.
    pub(crate) async fn authenticate(
        &self,
        headers: &(impl Headers + Sync + ?Sized),
    ) -> Result<Arc<Identity>, AuthError> {
        let Some(check) = self.check.get() else {
            return Err(AuthError::Unavailable {
                reason: "Tokens cannot be checked yet.".to_owned(),
                retry_after: Duration::from_secs(1),
            });
        };
        let user_token = text(headers, "x-auth-token").unwrap_or_default();
        let service_token = text(headers, "x-service-token").filter(|token| !token.is_empty());
        let Some(service_token) = service_token else {
            return valid(&**check, &user_token, REJECT_EXPIRED).await;
        };
        let service = valid(&**check, &service_token, REJECT_EXPIRED).await?;
        let is_service = service.roles().iter().any(|role| role == SERVICE_ROLE);
        if !is_service {
            return Err(unauthorized());
        }
        let user = valid(&**check, &user_token, ALLOW_EXPIRED).await?;
        Ok(Arc::new(with_service(&user, &service)))
    }
}

/// The identity of a valid token. If the state does not allow the token, it is checked again once the state is up to
/// date.
async fn valid(
    check: &dyn TokenCheck,
    token: &str,
    allow_expired: bool,
) -> Result<Arc<Identity>, AuthError> {
    let token = token.trim();
    if token.is_empty() || token.len() > TOKEN_BYTES_MAX {
        return Err(unauthorized());
    }
    let mut checked = check.check(token, allow_expired);
    if matches!(checked, CheckedToken::NotByThisState)
        && let Some(refreshing) = check.refresh()
    {
        refreshing.await;
        checked = check.check(token, allow_expired);
    }
    match checked {
        CheckedToken::Valid(identity) => Ok(identity),
        CheckedToken::Invalid | CheckedToken::NotByThisState => Err(unauthorized()),
    }
}

fn unauthorized() -> AuthError {
    AuthError::Unauthorized { challenge: None }
}

/// The identity of a user whose request a service forwards.
fn with_service(user: &Identity, service: &Identity) -> Identity {
    let service = service.parts();
    Identity::new(IdentityParts {
        service: Some(Box::new(ServiceIdentity {
            user_id: service.user_id.clone(),
            user_domain_id: service.user_domain_id.clone(),
            project_id: service.project_id.clone(),
            project_domain_id: service.project_domain_id.clone(),
            roles: service.roles.clone(),
        })),
        ..user.parts().clone()
    })
}
