//! Seals and opens the secrets of specifications.
//!
//! A specification has two sets of secrets: those of the first build, which are forgotten once the
//! guest exists, and those that are needed each time the guest is built anew. Each set is one text
//! of three parts, divided by dots: the fields under a key that is made for them alone, the id of
//! the installation's key, and the first key under the second, bound to the server. Servers of one
//! request share the first part, and a new key of the installation replaces the other two only.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use placewright_conductor::{InstanceId, SharedText, Spec};

use crate::body;
use crate::error::{KeyError, OpenError, SealError};
use crate::fields::Fields;
use crate::key_id::KeyId;
use crate::keyring::Keyring;
use crate::sealed::{Binding, DataKey, Sealed};
use crate::source::{Fingerprint, KeySource};

/// The sets of secrets of a specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    /// Forgotten once the guest exists.
    Build,
    /// Kept as long as the server exists.
    Server,
}

impl Set {
    const ALL: [Self; 2] = [Self::Build, Self::Server];

    fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Server => "server",
        }
    }

    fn text(self, spec: &Spec) -> &SharedText {
        match self {
            Self::Build => &spec.build_secrets,
            Self::Server => &spec.secrets,
        }
    }

    fn text_mut(self, spec: &mut Spec) -> &mut SharedText {
        match self {
            Self::Build => &mut spec.build_secrets,
            Self::Server => &mut spec.secrets,
        }
    }
}

/// How long user data is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserDataUntil {
    /// Until the server is deleted: what builds a guest anew (a rebuild, an evacuation, an unshelve)
    /// needs it, and the API shows it.
    #[default]
    Deleted,
    /// Until the guest exists, as passwords.
    Built,
}

/// Seals and opens the secrets of specifications. Clones share their keys.
#[derive(Clone)]
pub struct Sealer {
    shared: Arc<Shared>,
}

struct Shared {
    keyring: RwLock<Arc<Keyring>>,
    source: Option<KeySource>,
    user_data_until: UserDataUntil,
    last_read: Mutex<LastRead>,
    held: [AtomicU64; 3],
}

/// When keys were read last, and from what file.
struct LastRead {
    at: Instant,
    fingerprint: Option<Fingerprint>,
}

/// How many sealed sets of secrets a state holds, by the key that opens them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldSecrets {
    /// Those under the current key.
    pub current: u64,
    /// Those under older keys of the keyring.
    pub older: u64,
    /// Those that no key of the keyring opens.
    pub unknown: u64,
}

/// Shows no key.
impl fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sealer").finish_non_exhaustive()
    }
}

/// With a random key that ends with the process, for states that end with it too.
///
/// # Panics
///
/// The system gives no random bytes.
impl Default for Sealer {
    fn default() -> Self {
        let keyring = Keyring::random().expect("the system has random bytes");
        Self::of(keyring, None, UserDataUntil::default())
    }
}

impl Sealer {
    /// With the keys of a source.
    ///
    /// # Errors
    ///
    /// See [`KeyError`].
    pub fn open(source: KeySource, user_data_until: UserDataUntil) -> Result<Self, KeyError> {
        let keyring = source.read()?;
        Ok(Self::of(keyring, Some(source), user_data_until))
    }

    /// With a keyring that does not change.
    #[must_use]
    pub fn with_keyring(keyring: Keyring) -> Self {
        Self::of(keyring, None, UserDataUntil::default())
    }

    /// Another one with the same keys and source, which counts what another state holds.
    #[must_use]
    pub fn apart(&self) -> Self {
        let keyring = Keyring::clone(&self.keyring());
        Self::of(
            keyring,
            self.shared.source.clone(),
            self.shared.user_data_until,
        )
    }

    fn of(keyring: Keyring, source: Option<KeySource>, user_data_until: UserDataUntil) -> Self {
        let last_read = LastRead {
            at: Instant::now(),
            fingerprint: source.as_ref().and_then(KeySource::fingerprint),
        };
        Self {
            shared: Arc::new(Shared {
                keyring: RwLock::new(Arc::new(keyring)),
                source,
                user_data_until,
                last_read: Mutex::new(last_read),
                held: Default::default(),
            }),
        }
    }

    /// The present keys.
    #[must_use]
    pub fn keyring(&self) -> Arc<Keyring> {
        Arc::clone(&self.shared.keyring.read())
    }

    /// Reads the keys again: a file if it has changed, a command if it was not run for so long.
    /// Returns whether they are other keys now. It may wait for a command.
    ///
    /// # Errors
    ///
    /// See [`KeyError`]; the present keys stay.
    pub fn refresh(&self, command_interval: Duration) -> Result<bool, KeyError> {
        let Some(source) = &self.shared.source else {
            return Ok(false);
        };
        let mut last = self.shared.last_read.lock();
        let fingerprint = source.fingerprint();
        let is_due = match source {
            KeySource::File(_) => fingerprint != last.fingerprint,
            KeySource::Command(_) => last.at.elapsed() >= command_interval,
        };
        if !is_due {
            return Ok(false);
        }
        last.at = Instant::now();
        let new = source.read()?;
        last.fingerprint = fingerprint;
        let ids = |keyring: &Keyring| {
            let older = keyring.older().collect::<Vec<KeyId>>();
            (keyring.current().id(), older)
        };
        let mut keyring = self.shared.keyring.write();
        let is_changed = ids(&keyring) != ids(&new);
        *keyring = Arc::new(new);
        Ok(is_changed)
    }

    /// How many sealed sets the state held when it was looked over last.
    #[must_use]
    pub fn held(&self) -> HeldSecrets {
        let [current, older, unknown] = &self.shared.held;
        HeldSecrets {
            current: current.load(Ordering::Relaxed),
            older: older.load(Ordering::Relaxed),
            unknown: unknown.load(Ordering::Relaxed),
        }
    }

    /// Notes how many sealed sets the state holds.
    pub fn set_held(&self, held: HeldSecrets) {
        let counts = [held.current, held.older, held.unknown];
        for (counter, count) in self.shared.held.iter().zip(counts) {
            counter.store(count, Ordering::Relaxed);
        }
    }

    /// Seals the secrets of a request, which its servers share.
    ///
    /// # Errors
    ///
    /// See [`SealError`].
    pub fn seal(&self, fields: Fields) -> Result<RequestSeal, SealError> {
        let mut build = Fields::default();
        let mut server = Fields::default();
        build.admin_pass = fields.admin_pass;
        match self.shared.user_data_until {
            UserDataUntil::Deleted => server.user_data = fields.user_data,
            UserDataUntil::Built => build.user_data = fields.user_data,
        }
        Ok(RequestSeal {
            keyring: self.keyring(),
            build: SetSeal::of(Set::Build, &build)?,
            server: SetSeal::of(Set::Server, &server)?,
        })
    }

    /// Opens the secrets of a specification.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_fields(&self, instance: InstanceId, spec: &Spec) -> Result<Fields, OpenError> {
        let mut fields = Fields::default();
        let keyring = self.keyring();
        for set in Set::ALL {
            let text = set.text(spec);
            if !text.is_empty() {
                fields.add(open_set(&keyring, set, instance, &text.text())?);
            }
        }
        Ok(fields)
    }

    /// Takes over a specification of another role, or of an earlier release, which may have secrets
    /// in the clear: they are sealed. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// See [`SealError`].
    pub fn take_in(&self, instance: InstanceId, spec: &mut Spec) -> Result<bool, SealError> {
        let Some((rest, fields)) = body::take(&spec.body) else {
            return Ok(false);
        };
        let sealed = self.seal(fields)?;
        (spec.build_secrets, spec.secrets) = sealed.of_instance(instance)?;
        spec.body = rest;
        Ok(true)
    }

    /// Makes a specification ready for another role or for a driver: its secrets are in the clear,
    /// in a body that is not shown and is overwritten when it is dropped.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]; the specification has no secrets then.
    pub fn hand_out(&self, instance: InstanceId, spec: &mut Spec) -> Result<(), OpenError> {
        if !spec.has_secrets() {
            return Ok(());
        }
        let opened = self.open_fields(instance, spec);
        spec.forget_secrets();
        let body = body::put(&spec.body, &opened?);
        spec.body = body.ok_or(OpenError::Unreadable)?;
        Ok(())
    }

    /// The specification as it is when it comes to another role, for comparisons of digests; none if
    /// its secrets cannot be opened.
    #[must_use]
    pub fn handed_out(&self, instance: InstanceId, spec: &Spec) -> Option<Spec> {
        let mut spec = spec.clone();
        self.hand_out(instance, &mut spec).ok().map(|()| spec)
    }

    /// The specification with its secrets under the current key; none if they are. `with_bodies`:
    /// secrets that an earlier release left in the body are looked for too, which takes longer.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn renewed(
        &self,
        instance: InstanceId,
        spec: &Spec,
        with_bodies: bool,
    ) -> Result<Option<Spec>, OpenError> {
        if with_bodies && !spec.has_secrets() {
            let mut spec = spec.clone();
            let taken = self.take_in(instance, &mut spec);
            return taken
                .map(|is_changed| is_changed.then_some(spec))
                .map_err(|_| OpenError::Unreadable);
        }
        let keyring = self.keyring();
        let is_old = |set: &Set| {
            let text = set.text(spec);
            !text.is_empty() && key_of(&text.text()) != Some(keyring.current().id())
        };
        if !Set::ALL.iter().any(is_old) {
            return Ok(None);
        }
        let mut spec = spec.clone();
        for set in Set::ALL.into_iter().filter(is_old) {
            let text = set.text_mut(&mut spec);
            *text = renewed_set(&keyring, set, instance, text)?;
        }
        Ok(Some(spec))
    }

    /// Counts the sealed sets of a specification.
    pub fn count(&self, spec: &Spec, held: &mut HeldSecrets) {
        if !spec.has_secrets() {
            return;
        }
        let keyring = self.keyring();
        for set in Set::ALL {
            let text = set.text(spec);
            if text.is_empty() {
                continue;
            }
            let key = key_of(&text.text());
            let known = key.and_then(|key| keyring.key(key));
            let count = match known {
                Some(key) if key.id() == keyring.current().id() => &mut held.current,
                Some(_) => &mut held.older,
                None => &mut held.unknown,
            };
            *count += 1;
        }
    }

    /// The ids of the keys that a specification's secrets are sealed with.
    pub fn keys_of(spec: &Spec) -> impl Iterator<Item = Option<KeyId>> {
        let sets = Set::ALL.into_iter().map(|set| set.text(spec));
        let sealed = sets.filter(|text| !text.is_empty());
        sealed.map(|text| key_of(&text.text()))
    }
}

/// The sealed secrets of one request, for all of its servers.
pub struct RequestSeal {
    keyring: Arc<Keyring>,
    build: Option<SetSeal>,
    server: Option<SetSeal>,
}

/// Shows nothing of the keys.
impl fmt::Debug for RequestSeal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RequestSeal")
            .finish_non_exhaustive()
    }
}

impl RequestSeal {
    /// The sealed secrets of one server: those of its first build, and those that are kept.
    ///
    /// # Errors
    ///
    /// See [`SealError`].
    pub fn of_instance(&self, instance: InstanceId) -> Result<(SharedText, SharedText), SealError> {
        let of = |seal: &Option<SetSeal>| match seal {
            Some(seal) => seal.of_instance(&self.keyring, instance),
            None => Ok(SharedText::default()),
        };
        Ok((of(&self.build)?, of(&self.server)?))
    }
}

/// One set of secrets, sealed.
struct SetSeal {
    set: Set,
    key: DataKey,
    fields: Arc<str>,
}

impl SetSeal {
    fn of(set: Set, fields: &Fields) -> Result<Option<Self>, SealError> {
        if fields.is_empty() {
            return Ok(None);
        }
        let key = DataKey::random()?;
        let fields = key.seal(set.name(), &fields.pack())?.into();
        Ok(Some(Self { set, key, fields }))
    }

    fn of_instance(
        &self,
        keyring: &Keyring,
        instance: InstanceId,
    ) -> Result<SharedText, SealError> {
        let sealed = Sealed::seal(keyring, &binding(self.set, instance), self.key.bytes())?;
        let own = format!(".{sealed}");
        Ok(SharedText::from_parts(Arc::clone(&self.fields), own))
    }
}

fn binding(set: Set, instance: InstanceId) -> Binding {
    Binding {
        server: instance.0,
        field: set.name(),
    }
}

/// The fields and the key of a set's text.
fn parts(text: &str) -> Result<(&str, Sealed), OpenError> {
    let (fields, key) = text.split_once('.').ok_or(OpenError::Unreadable)?;
    Ok((fields, Sealed::parse(key)?))
}

fn key_of(text: &str) -> Option<KeyId> {
    let (_, rest) = text.split_once('.')?;
    KeyId::parse(rest.split_once('.')?.0)
}

fn open_set(
    keyring: &Keyring,
    set: Set,
    instance: InstanceId,
    text: &str,
) -> Result<Fields, OpenError> {
    let (fields, sealed) = parts(text)?;
    let key = DataKey::of(&sealed.open(keyring, &binding(set, instance))?)?;
    Fields::unpack(&key.open(set.name(), fields)?)
}

/// A set with its key under the current key of the keyring. What the set shares with others stays
/// shared.
fn renewed_set(
    keyring: &Keyring,
    set: Set,
    instance: InstanceId,
    text: &SharedText,
) -> Result<SharedText, OpenError> {
    let whole = text.text();
    let (fields, sealed) = parts(&whole)?;
    let binding = binding(set, instance);
    let key = sealed.open(keyring, &binding)?;
    let sealed = Sealed::seal(keyring, &binding, &key).map_err(|_| OpenError::Unreadable)?;
    let common = match fields == &**text.common() {
        true => Arc::clone(text.common()),
        false => fields.into(),
    };
    Ok(SharedText::from_parts(common, format!(".{sealed}")))
}
