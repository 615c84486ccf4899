//! A request after routing, with the operations that handlers need.

use std::net::IpAddr;
use std::sync::Arc;

use placewright_auth::{Identity, Passwords, Secret};
use placewright_conductor::accounts::AccountCommand;
use placewright_conductor::super_conductor::{self, Command};
use placewright_control::accounts::{Accounts, TokenDetails};
use placewright_engine::SubmitError;
use placewright_errors::chain;
use placewright_http::{ApiError, ApiResult, Gateway, Query};
use placewright_placement::Timestamp;
use serde_json::Value;

use crate::catalog::Catalog;
use crate::error;

/// The data that all requests of the Identity API share.
pub(crate) struct ApiState {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) accounts: Accounts,
    pub(crate) passwords: Passwords,
    pub(crate) catalog: Catalog,
    /// Scheme and host that clients use, if they differ from those in the requests.
    pub(crate) public_url: Option<String>,
}

/// The data that the handlers need from the head of a request.
pub(crate) struct Head {
    /// The parameters of the path, decoded.
    pub(crate) parameters: Vec<(&'static str, String)>,
    /// Scheme, host and port of the API as the client addresses it, for links.
    pub(crate) origin: String,
    /// The host alone, for the catalog.
    pub(crate) host: String,
    /// The address of the client. If the request came through trusted proxies, they name it. `None` if it is not known.
    pub(crate) client_address: Option<IpAddr>,
    /// The token of the caller; empty if there is none.
    pub(crate) token: Secret,
    /// The token that the request is about; empty if there is none.
    pub(crate) subject_token: Secret,
}

/// For `allow_expired`: a token that has expired is not valid.
pub(crate) const REJECT_EXPIRED: bool = false;

/// The maximum number of attempts to change a row that other requests change at the same time.
const CHANGE_TRIES_MAX: usize = 5;

/// A request, as handlers see it.
pub(crate) struct Call<'r> {
    pub(crate) api_state: &'r ApiState,
    pub(crate) head: &'r Head,
    pub(crate) identity: Option<&'r Identity>,
    pub(crate) query: Query<'r>,
    pub(crate) body: &'r [u8],
}

impl Call<'_> {
    /// A parameter of the path; empty if the path does not have it.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        let mut parameters = self.head.parameters.iter();
        let found = parameters.find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| value)
    }

    /// The present time.
    pub(crate) fn now(&self) -> Timestamp {
        self.api_state.accounts.control().now()
    }

    /// A link to a path below `/v3`.
    pub(crate) fn link(&self, path: &str) -> String {
        format!("{}/v3{path}", self.head.origin)
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> ApiResult<Value> {
        serde_json::from_slice(self.body)
            .map_err(|error| ApiError::bad_request(format!("The body is not JSON: {error}.")))
    }

    /// The id of the caller; empty if the caller has no identity.
    pub(crate) fn caller_id(&self) -> &str {
        self.identity.and_then(Identity::user_id).unwrap_or("")
    }

    /// The details of the caller's token. They say more than the caller's identity, so the token is checked again.
    pub(crate) fn caller_token(&self) -> ApiResult<TokenDetails> {
        let token = self.head.token.expose();
        let checked = self.api_state.accounts.check(token, REJECT_EXPIRED);
        checked.map_err(|_| error::unauthorized())
    }

    /// Computes a value from the durable state.
    pub(crate) async fn read<T: Send>(
        &self,
        compute: impl Fn(&super_conductor::State) -> T + Send,
    ) -> T {
        let control = self.api_state.accounts.control();
        control
            .read(move |state, _| compute(&state.conductor))
            .await
    }

    /// Submits a command.
    pub(crate) async fn execute(&self, command: AccountCommand) -> ApiResult<()> {
        let decided = self.submit(Command::Accounts(command)).await?;
        decided.map_err(|refusal| error::from_refusal(&refusal))
    }

    /// Submits a command. The outer error is a response for the client, the inner one the refusal of the state machine.
    async fn submit(&self, command: Command) -> ApiResult<Result<(), super_conductor::Refusal>> {
        let answer = self.api_state.accounts.control().submit(command).await;
        match answer {
            Ok(decision) => Ok(decision.map(|_| ())),
            Err(SubmitError::TooLarge { .. }) => {
                Err(ApiError::too_large("The change is too large."))
            }
            Err(error) => {
                let effect = error.effect();
                tracing::warn!("a change of accounts: {effect}: {}", chain(&error));
                Err(ApiError::unavailable(format!("{effect}: try again later.")))
            }
        }
    }

    /// Changes a row. `prepare` reads the row, and returns the row as it read it, the command that changes it, and the
    /// result for the caller. If the row has changed before the command is decided, `prepare` is called again.
    pub(crate) async fn change<T: Send>(
        &self,
        prepare: impl Fn(
            &super_conductor::State,
        ) -> ApiResult<(super_conductor::Change, AccountCommand, T)>
        + Send
        + Sync,
    ) -> ApiResult<T> {
        for _ in 0..CHANGE_TRIES_MAX {
            let (expected, command, value) = self.read(&prepare).await?;
            let command = Command::Guarded {
                expected: vec![expected],
                command: Box::new(Command::Accounts(command)),
            };
            match self.submit(command).await? {
                Ok(()) => return Ok(value),
                Err(super_conductor::Refusal::Changed) => {}
                Err(refusal) => return Err(error::from_refusal(&refusal)),
            }
        }
        Err(ApiError::conflict(
            "Others change the same thing all the time: try again.",
        ))
    }

    /// Adds the id of an object that the request made or used to the audit log's event.
    pub(crate) fn note(&self, id: &str) {
        if let Some(note) = placewright_audit_log::current_note() {
            note.add_id(id);
        }
    }
}
