//! Tokens: signing in, showing and revoking a token, and the scopes for which its user can get further tokens.

use hyper::header::{HeaderName, HeaderValue};
use placewright_conductor::accounts::{AccountCommand, AssignmentScope, DEFAULT_DOMAIN};
use placewright_control::accounts::TokenDetails;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use crate::call::{Call, REJECT_EXPIRED};
use crate::sign_in_body::SignInBody;
use crate::{domains, error, projects, token_json};

/// The header with the token that a request or a response is about.
const SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");

/// `POST /v3/auth/tokens`.
pub(crate) async fn sign_in(call: &Call<'_>) -> ApiResult<Reply> {
    let body = SignInBody::parse(&call.json()?)?;
    // Another replica may have made the user a moment ago, or disabled it. The dispatcher confirms the state for
    // requests with a token only.
    call.api_state.gateway.confirm_state().await?;
    let issued = call.issue(body).await?;
    let value = call.token_body(&issued.details).await;
    Reply::value(201, &value)?.with_subject_token(&issued.text)
}

/// `GET /v3/auth/tokens`.
pub(crate) async fn show(call: &Call<'_>) -> ApiResult<Reply> {
    let allow_expired = matches!(call.query.get("allow_expired"), Some("1" | "true" | "True"));
    let details = call.subject(allow_expired)?;
    let value = call.token_body(&details).await;
    Reply::value(200, &value)?.with_subject_token(call.head.subject_token.expose())
}

/// `DELETE /v3/auth/tokens`.
pub(crate) async fn revoke(call: &Call<'_>) -> ApiResult<Reply> {
    let content = call.subject(REJECT_EXPIRED)?.content;
    call.note(&content.user);
    call.execute(AccountCommand::RevokeToken {
        audit_id: content.audit_id(),
        expires_at: content.expires_at,
        user: content.user,
    })
    .await?;
    Ok(Reply::empty(204))
}

/// `GET /v3/auth/catalog`.
pub(crate) async fn catalog(call: &Call<'_>) -> ApiResult<Reply> {
    let catalog = call.api_state.catalog.in_token(&call.head.host);
    Reply::value(
        200,
        &json!({"catalog": catalog, "links": {"self": call.link("/auth/catalog")}}),
    )
}

/// `GET /v3/auth/projects`.
pub(crate) async fn projects(call: &Call<'_>) -> ApiResult<Reply> {
    let user = call.caller_id();
    let items = call
        .read(|state| projects::of_user(call, state, user))
        .await;
    call.list("projects", "/auth/projects", items)
}

/// `GET /v3/auth/domains`.
pub(crate) async fn domains(call: &Call<'_>) -> ApiResult<Reply> {
    let has_role = has_role(call, AssignmentScope::Domain(DEFAULT_DOMAIN.to_owned())).await;
    let items = has_role.then(|| domains::to_json(call));
    call.list("domains", "/auth/domains", items.into_iter().collect())
}

/// `GET /v3/auth/system`.
pub(crate) async fn system(call: &Call<'_>) -> ApiResult<Reply> {
    let items = match has_role(call, AssignmentScope::System).await {
        true => vec![json!({"all": true})],
        false => Vec::new(),
    };
    call.list("system", "/auth/system", items)
}

async fn has_role(call: &Call<'_>, scope: AssignmentScope) -> bool {
    let user = call.caller_id();
    call.read(|state| !state.roles_in(user, &scope).is_empty())
        .await
}

impl Call<'_> {
    /// Checks the token that the request is about. Administrators and services may ask about every token, and users
    /// about all tokens of theirs. Whoever asks about another user's token learns only that this is forbidden, also if
    /// the token is not valid.
    fn subject(&self, allow_expired: bool) -> ApiResult<TokenDetails> {
        let subject = self.head.subject_token.expose();
        if subject.is_empty() {
            return Err(ApiError::bad_request(
                "The header X-Subject-Token is missing.",
            ));
        }
        let checked = self.api_state.accounts.check(subject, allow_expired);
        let is_own = |details: &TokenDetails| details.content.user == self.caller_id();
        if !checked.as_ref().is_ok_and(is_own) {
            self.require_admin_or_service()?;
        }
        checked.map_err(|reason| {
            tracing::debug!(%reason, "a token is not valid");
            error::missing("token", "like this")
        })
    }

    async fn token_body(&self, details: &TokenDetails) -> Value {
        let wants_catalog = self.query.get("nocatalog").is_none();
        self.read(|state| {
            let catalog = wants_catalog.then(|| self.api_state.catalog.in_token(&self.head.host));
            token_json::token(details, state, catalog)
        })
        .await
    }
}

/// Adds the token to a response.
trait WithSubjectToken: Sized {
    fn with_subject_token(self, token: &str) -> ApiResult<Self>;
}

impl WithSubjectToken for Reply {
    fn with_subject_token(self, token: &str) -> ApiResult<Self> {
        let value = HeaderValue::from_str(token);
        let mut value = value.map_err(|_| error::unauthorized())?;
        value.set_sensitive(true);
        Ok(self.with_header(SUBJECT_TOKEN, value))
    }
}
