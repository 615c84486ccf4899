//! Signing in: from credentials to a token.
//!
//! Credentials that are not valid get the same 401 after the same time, whatever is wrong with them, so that nobody can
//! learn here which names exist.

use placewright_auth::PasswordAttempt;
use placewright_conductor::accounts::{ApplicationCredential, User};
use placewright_conductor::super_conductor::State;
use placewright_control::accounts::{
    Method, RequestedScope, TokenContent, TokenDetails, TokenScope, random_audit_number,
};
use placewright_http::{ApiError, ApiResult};
use placewright_placement::Timestamp;

use crate::call::{Call, REJECT_EXPIRED};
use crate::error::{self, unauthorized};
use crate::sign_in_body::{Credentials, Named, SignInBody};

/// A token that was just issued.
pub(crate) struct Issued {
    /// The token as clients send it.
    pub(crate) text: String,
    pub(crate) details: TokenDetails,
}

/// A user who has signed in.
struct SignedIn {
    /// The id of the user.
    user: String,
    /// How the user signed in, for this token and for those from which it was derived.
    methods: Vec<Method>,
    /// When the new token expires at the latest.
    expires_at: Timestamp,
    /// If the user signed in with another token: the audit id of the token that the user got with credentials, from
    /// which all further ones were derived.
    audit_root: Option<[u8; 16]>,
    /// The id of the application credential with which the user signed in, or from which the given token was derived.
    application_credential: Option<String>,
    /// The only scope that the new token may have: that of the application credential for which the token is issued.
    /// `None` if no application credential was used.
    fixed_scope: Option<TokenScope>,
}

impl Call<'_> {
    /// Checks credentials, and issues a token for the requested scope.
    pub(crate) async fn issue(&self, body: SignInBody) -> ApiResult<Issued> {
        let signed_in = match body.credentials {
            Credentials::Password { user, password } => {
                let found = self.read(|state| find_user(state, &user)).await;
                self.with_password(&user, found, &password).await?
            }
            Credentials::Token(token) => self.with_token(token.expose())?,
            Credentials::ApplicationCredential { id, name, secret } => {
                let found = self
                    .read(|state| find_credential(state, id.as_deref(), name.as_ref()))
                    .await;
                let given = id.or(name.map(|(name, _)| name)).unwrap_or_default();
                self.with_credential(&given, found, &secret).await?
            }
        };
        self.issue_for(signed_in, &body.scope).await
    }

    async fn with_password(
        &self,
        given: &Named,
        found: Option<(String, User)>,
        password: &placewright_auth::Secret,
    ) -> ApiResult<SignedIn> {
        // A client may give the id or the name of a user. Guesses with the id and guesses with the name count together.
        let name = match (&found, given) {
            (Some((id, _)), _) => id.as_str(),
            (None, Named::Id(text) | Named::Name(text)) => text.as_str(),
            // All guesses at users of other domains count together, because no such user exists.
            (None, Named::Elsewhere) => "",
        };
        let hash = found.as_ref().map(|(_, user)| user.password.0.as_str());
        self.verify(name, password, hash).await?;
        let (user, row) = found.ok_or_else(unauthorized)?;
        if !row.enabled {
            return Err(unauthorized());
        }
        Ok(self.signed_in(user, Method::Password))
    }

    async fn with_credential(
        &self,
        given: &str,
        found: Option<(String, ApplicationCredential)>,
        secret: &placewright_auth::Secret,
    ) -> ApiResult<SignedIn> {
        let name = found.as_ref().map_or(given, |(id, _)| id);
        let hash = found.as_ref().map(|(_, row)| row.secret.0.as_str());
        self.verify(name, secret, hash).await?;
        let (id, row) = found.ok_or_else(unauthorized)?;
        let mut signed_in = self.signed_in(row.user, Method::ApplicationCredential);
        if let Some(end) = row.expires_at {
            signed_in.expires_at = signed_in.expires_at.min(end);
        }
        signed_in.application_credential = Some(id);
        signed_in.fixed_scope = Some(TokenScope::Project(row.project));
        Ok(signed_in)
    }

    fn with_token(&self, token: &str) -> ApiResult<SignedIn> {
        let details = self.api_state.accounts.check(token, REJECT_EXPIRED);
        let content = details.map_err(|_| unauthorized())?.content;
        let mut methods = content.methods.clone();
        if !methods.contains(&Method::Token) {
            methods.push(Method::Token);
        }
        let has_fixed_scope = content.application_credential.is_some();
        Ok(SignedIn {
            methods,
            expires_at: content.expires_at,
            audit_root: Some(content.audit_root.unwrap_or(content.audit)),
            fixed_scope: has_fixed_scope.then_some(content.scope),
            application_credential: content.application_credential,
            user: content.user,
        })
    }

    fn signed_in(&self, user: String, method: Method) -> SignedIn {
        SignedIn {
            user,
            methods: vec![method],
            expires_at: self.api_state.accounts.expiry(self.now()),
            audit_root: None,
            application_credential: None,
            fixed_scope: None,
        }
    }

    /// Checks a password or a secret. Without a hash it counts as wrong, after the same time as a check with a hash.
    async fn verify(
        &self,
        name: &str,
        password: &placewright_auth::Secret,
        hash: Option<&str>,
    ) -> ApiResult<()> {
        let attempt = PasswordAttempt {
            address: self.head.client_address,
            name,
            password,
            hash: hash.filter(|hash| !hash.is_empty()),
        };
        let verified = self.api_state.passwords.verify(attempt).await;
        match verified.map_err(error::from_auth)? {
            true => Ok(()),
            false => Err(unauthorized()),
        }
    }

    async fn issue_for(&self, signed_in: SignedIn, wanted: &RequestedScope) -> ApiResult<Issued> {
        let user = signed_in.user.as_str();
        let (row, scope) = self
            .read(|state| {
                (
                    state.users().get(user).cloned(),
                    wanted.resolve(state, user),
                )
            })
            .await;
        let row = row.filter(|row| row.enabled).ok_or_else(unauthorized)?;
        let scope = match signed_in.fixed_scope {
            None => scope.map_err(|_| unauthorized())?,
            // The client need not name the only scope that is possible, but may not name another one.
            Some(fixed) => match wanted {
                RequestedScope::Default => fixed,
                _ if scope.as_ref() == Ok(&fixed) => fixed,
                _ => return Err(unauthorized()),
            },
        };
        let audit = random_audit_number().map_err(ApiError::unavailable)?;
        let content = TokenContent {
            scope,
            methods: signed_in.methods,
            issued_at: self.now(),
            expires_at: signed_in.expires_at,
            audit,
            audit_root: signed_in.audit_root,
            epoch: row.epoch,
            application_credential: signed_in.application_credential,
            user: signed_in.user,
        };
        let accounts = &self.api_state.accounts;
        let text = accounts.sign(&content).await.map_err(|reason| {
            tracing::error!(reason, "no token can be signed");
            ApiError::unavailable("No token can be issued at present: try again later.")
        })?;
        // The new token is checked as each service will check it, so that no client gets one that would be refused.
        let details = accounts.check(&text, REJECT_EXPIRED);
        let details = details.map_err(|_| unauthorized())?;
        self.note(&details.content.user);
        Ok(Issued { text, details })
    }
}

/// The user with its id; `None` if there is no such user.
fn find_user(state: &State, user: &Named) -> Option<(String, User)> {
    let (id, row) = match user {
        Named::Id(id) => (id.as_str(), state.users().get(id)?),
        Named::Name(name) => state.user_named(name)?,
        Named::Elsewhere => return None,
    };
    Some((id.to_owned(), row.clone()))
}

/// The application credential with its id; `None` if there is no such credential.
fn find_credential(
    state: &State,
    id: Option<&str>,
    name: Option<&(String, Named)>,
) -> Option<(String, ApplicationCredential)> {
    if let Some(id) = id {
        let row = state.application_credentials().get(id)?;
        return Some((id.to_owned(), row.clone()));
    }
    let (name, user) = name?;
    let (user, _) = find_user(state, user)?;
    let mut of_user = state.application_credentials_of(&user);
    let (id, row) = of_user.find(|(_, row)| row.name == *name)?;
    Some((id.to_owned(), row.clone()))
}
