//! The handle on accounts: commands, and issuing and checking tokens.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use placewright_conductor::accounts::AccountCommand;
use placewright_conductor::super_conductor::Command;
use placewright_placement::Timestamp;
use ring::hmac;

use super::details::{TokenDetails, details};
use super::token::{self, TokenContent, TokenRefusal};
use super::token_keys::{self, TokenKeys};
use crate::handle::{CommandAnswer, ControlHandle};

/// How many times this replica tries to make a key if other replicas make one at the same time.
const TRIES_MAX: usize = 3;
/// For how long after its expiry a token is accepted by callers that allow expired tokens, for example because the
/// request has a service token, too.
const EXPIRED_ACCEPTED: Duration = Duration::from_secs(48 * 3600);

/// A handle on accounts and tokens. Clones share everything.
#[derive(Clone)]
pub struct Accounts {
    shared: Arc<Shared>,
}

struct Shared {
    control: ControlHandle,
    token_lifetime: Duration,
    keys: TokenKeys,
}

impl fmt::Debug for Accounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Accounts").finish_non_exhaustive()
    }
}

impl Accounts {
    /// The accounts in the state of `control`. Tokens are valid for `token_lifetime`.
    #[must_use]
    pub fn new(control: ControlHandle, token_lifetime: Duration) -> Self {
        Self {
            shared: Arc::new(Shared {
                keys: TokenKeys::default(),
                control,
                token_lifetime,
            }),
        }
    }

    /// The handle on control, to read the tables of accounts.
    #[must_use]
    pub fn control(&self) -> &ControlHandle {
        &self.shared.control
    }

    /// Submits a command about accounts.
    pub fn submit(&self, command: AccountCommand) -> impl Future<Output = CommandAnswer> + Send {
        self.shared.control.submit(Command::Accounts(command))
    }

    /// Checks a token against the present state, which may have changes that are not durable yet. If such a change
    /// cannot be made durable, it is undone, and the answers that were based on it may have been wrong. With
    /// `allow_expired`, a token is accepted for two more days after its expiry.
    ///
    /// # Errors
    ///
    /// See [`TokenRefusal`].
    pub fn check(&self, token: &str, allow_expired: bool) -> Result<TokenDetails, TokenRefusal> {
        let signed = token::parse(token).ok_or(TokenRefusal::Malformed)?;
        let control = &self.shared.control;
        let now = control.now();
        control.engine().read_now(|machine| {
            let state = &machine.state.conductor;
            let key = self.shared.keys.key(state, control.sealer(), signed.key);
            let content = signed.verify(&key.ok_or(TokenRefusal::UnknownKey)?)?;
            let grace = if allow_expired {
                EXPIRED_ACCEPTED
            } else {
                Duration::ZERO
            };
            if now >= later(content.expires_at, grace) {
                return Err(TokenRefusal::Expired);
            }
            details(state, content, now)
        })
    }

    /// The text of a token.
    ///
    /// # Errors
    ///
    /// There is no key, and none can be made: the reason, for the log.
    pub async fn sign(&self, content: &TokenContent) -> Result<String, String> {
        let (number, key) = self.signing_key().await?;
        Ok(token::sign(number, &key, content))
    }

    /// When a token that is issued now expires.
    #[must_use]
    pub fn expiry(&self, now: Timestamp) -> Timestamp {
        later(now, self.shared.token_lifetime)
    }

    /// The newest key. If there is none, or if it cannot be opened or is old, a new key is made first.
    async fn signing_key(&self) -> Result<(u32, hmac::Key), String> {
        let mut failure = String::new();
        for _ in 0..TRIES_MAX {
            let (newest, is_old) = self.newest_key();
            match newest {
                Some(newest) if !is_old => return Ok(newest),
                newest => match self.add_key().await {
                    Ok(()) => {}
                    // While no new key can be made, the old one goes on signing.
                    Err(error) => match newest {
                        Some(newest) => return Ok(newest),
                        None => failure = error,
                    },
                },
            }
        }
        let (newest, _) = self.newest_key();
        newest.ok_or(failure)
    }

    /// The newest key with its number, and whether the key is old. `None` if there is no key, or if the key cannot be
    /// opened.
    fn newest_key(&self) -> (Option<(u32, hmac::Key)>, bool) {
        let control = self.control();
        control.engine().read_now(|machine| {
            let state = &machine.state.conductor;
            let Some((number, row)) = state.token_keys().last_key_value() else {
                return (None, true);
            };
            let key = self.shared.keys.key(state, control.sealer(), *number);
            let is_old = token_keys::is_old(row, control.now());
            (key.map(|key| (*number, key)), is_old)
        })
    }

    async fn add_key(&self) -> Result<(), String> {
        let control = self.control();
        let number = control.engine().read_now(|machine| {
            let keys = machine.state.conductor.token_keys();
            keys.last_key_value()
                .map_or(0, |(number, _)| number.saturating_add(1))
        });
        let key = token_keys::make_key(control.sealer(), number, control.now())?;
        let added = self
            .submit(AccountCommand::AddTokenKey { number, key })
            .await;
        match added {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(refusal)) => Err(refusal.to_string()),
            Err(error) => Err(placewright_errors::chain(&error)),
        }
    }
}

/// The time that is `by` later than `time`.
fn later(time: Timestamp, by: Duration) -> Timestamp {
    let microseconds = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    Timestamp(time.0.saturating_add(microseconds))
}
