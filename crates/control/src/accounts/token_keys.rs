//! The keys that sign tokens: opened once, made when there is none, and replaced when they are old.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::RwLock;
use placewright_conductor::accounts::{HiddenText, TokenKey};
use placewright_conductor::super_conductor::State;
use placewright_placement::Timestamp;
use placewright_secrets::{Binding, Sealed, Sealer};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use uuid::Uuid;
use zeroize::Zeroizing;

/// The age at which a key is replaced. Three keys are kept, so each verifies for at least twice this time.
const REPLACED_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);
/// The length of a key in bytes.
const KEY_BYTES: usize = 32;

/// The keys that were opened, with the sealed form that they were opened from.
#[derive(Default)]
pub(super) struct TokenKeys {
    opened: RwLock<BTreeMap<u32, (HiddenText, hmac::Key)>>,
}

impl TokenKeys {
    /// The key with a number, if the state has it and the installation's keys open it.
    pub(super) fn key(&self, state: &State, sealer: &Sealer, number: u32) -> Option<hmac::Key> {
        let row = state.token_keys().get(&number)?;
        if let Some((sealed, key)) = self.opened.read().get(&number)
            && *sealed == row.sealed
        {
            return Some(key.clone());
        }
        let sealed = Sealed::parse(&row.sealed.0).ok()?;
        let bytes = sealed.open(&sealer.keyring(), &binding(number)).ok()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        let mut opened = self.opened.write();
        opened.retain(|number, _| state.token_keys().contains_key(number));
        opened.insert(number, (row.sealed.clone(), key.clone()));
        Some(key)
    }
}

/// The binding of a sealed key: the key opens only under its own number.
fn binding(number: u32) -> Binding {
    Binding {
        server: Uuid::from_u128(number.into()),
        field: "token key",
    }
}

/// Whether a key is so old that it has to be replaced.
pub(super) fn is_old(row: &TokenKey, now: Timestamp) -> bool {
    let microseconds = i64::try_from(REPLACED_AFTER.as_micros()).unwrap_or(i64::MAX);
    now.0.saturating_sub(row.created_at.0) > microseconds
}

/// Makes a key, and seals it.
///
/// # Errors
///
/// The system has no random numbers: for the log.
pub(super) fn make_key(sealer: &Sealer, number: u32, now: Timestamp) -> Result<TokenKey, String> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    let filled = SystemRandom::new().fill(&mut bytes[..]);
    filled.map_err(|_| "the system has no random numbers".to_owned())?;
    let sealed = Sealed::seal(&sealer.keyring(), &binding(number), &bytes[..]);
    let sealed = sealed.map_err(|error| error.to_string())?;
    Ok(TokenKey {
        sealed: HiddenText(sealed.to_string()),
        created_at: now,
    })
}
