//! Seals and opens the secrets of specifications.
//!
//! A specification has two sets of secrets: those of the first build, which are deleted once the
//! guest exists, and those that are needed each time the guest is built again. Each set is one text
//! of three parts, separated by dots: the fields, sealed with a data key that is used for them only;
//! the id of the installation's key; and the data key, sealed with the installation's key and bound
//! to the server. Servers of one request share the first part. A new key of the installation replaces
//! the other two parts only.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use placewright_conductor::{InstanceId, SharedText, Spec};

use crate::body;
use crate::error::{KeyError, OpenError, SealError};
use crate::fields::SecretFields;
use crate::key_id::KeyId;
use crate::keyring::Keyring;
use crate::sealed::{Binding, DataKey, Sealed};
use crate::source::{Fingerprint, KeySource};

/// The sets of secrets of a specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecretSet {
    /// The secrets of the first build, which are deleted once the guest exists.
    Build,
    /// The secrets that are stored as long as the server exists.
    Server,
}

impl SecretSet {
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

/// How long user data is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserDataRetention {
    /// Until the server is deleted, because rebuilds, evacuations and unshelving need it, and the API
    /// shows it.
    #[default]
    UntilDeleted,
    /// Until the guest exists, as passwords are.
    UntilBuilt,
}

/// Seals and opens the secrets of specifications. Clones share their keys.
#[derive(Clone)]
pub struct Sealer {
    shared: Arc<Shared>,
}

struct Shared {
    keyring: RwLock<Arc<Keyring>>,
    /// Where the keys are read again; `None` if they never change.
    source: Option<KeySource>,
    user_data_retention: UserDataRetention,
    last_read: Mutex<LastRead>,
    /// In the order of the fields of [`SecretCounts`]. They are metrics alone, so `Relaxed` is enough.
    secret_counts: [AtomicU64; 3],
}

/// The last time that keys were read from the source.
struct LastRead {
    /// When they were read, or could not be read.
    at: Instant,
    /// The fingerprint of the key file whose keys are in use; `None` if the keys do not come from a file, or the file
    /// was not there.
    fingerprint: Option<Fingerprint>,
}

/// The number of sealed sets of secrets in a state, by the key that opens them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecretCounts {
    /// Sets that are sealed with the current key.
    pub current: u64,
    /// Sets that are sealed with older keys of the keyring.
    pub older: u64,
    /// Sets that no key of the keyring opens.
    pub unknown: u64,
}

/// Written by hand, so that no log has a key.
impl fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sealer").finish_non_exhaustive()
    }
}

/// A sealer with a random key, for states in memory that end with the process as the key does.
///
/// # Panics
///
/// If the system gives no random bytes.
impl Default for Sealer {
    fn default() -> Self {
        let keyring = Keyring::random().expect("the system has random bytes");
        Self::new(keyring, None, UserDataRetention::default())
    }
}

impl Sealer {
    /// A sealer with the keys of a source.
    ///
    /// # Errors
    ///
    /// See [`KeyError`].
    pub fn open(
        source: KeySource,
        user_data_retention: UserDataRetention,
    ) -> Result<Self, KeyError> {
        let keyring = source.read()?;
        Ok(Self::new(keyring, Some(source), user_data_retention))
    }

    /// A sealer with a keyring that does not change.
    #[must_use]
    pub fn with_keyring(keyring: Keyring) -> Self {
        Self::new(keyring, None, UserDataRetention::default())
    }

    /// A sealer with the same keys and source for another state, with counts of its own.
    #[must_use]
    pub fn fork(&self) -> Self {
        let keyring = Keyring::clone(&self.keyring());
        Self::new(
            keyring,
            self.shared.source.clone(),
            self.shared.user_data_retention,
        )
    }

    fn new(
        keyring: Keyring,
        source: Option<KeySource>,
        user_data_retention: UserDataRetention,
    ) -> Self {
        let last_read = LastRead {
            at: Instant::now(),
            fingerprint: source.as_ref().and_then(KeySource::fingerprint),
        };
        Self {
            shared: Arc::new(Shared {
                keyring: RwLock::new(Arc::new(keyring)),
                source,
                user_data_retention,
                last_read: Mutex::new(last_read),
                secret_counts: Default::default(),
            }),
        }
    }

    /// The keys in use now. [`Self::refresh`] replaces them, but not in this keyring.
    #[must_use]
    pub fn keyring(&self) -> Arc<Keyring> {
        Arc::clone(&self.shared.keyring.read())
    }

    /// Reads the keys again: a file if it has changed, a command if it was last run at least
    /// `command_interval` ago. Returns whether the keys have changed. Blocks while a command runs.
    ///
    /// # Errors
    ///
    /// See [`KeyError`]; the present keys remain in use.
    pub fn refresh(&self, command_interval: Duration) -> Result<bool, KeyError> {
        let Some(source) = &self.shared.source else {
            return Ok(false);
        };
        let mut last_read = self.shared.last_read.lock();
        let fingerprint = source.fingerprint();
        let is_due = match source {
            KeySource::File(_) => fingerprint != last_read.fingerprint,
            KeySource::Command(_) => last_read.at.elapsed() >= command_interval,
        };
        if !is_due {
            return Ok(false);
        }
        last_read.at = Instant::now();
        let new = source.read()?;
        last_read.fingerprint = fingerprint;
        let ids = |keyring: &Keyring| {
            let older = keyring.older().collect::<Vec<KeyId>>();
            (keyring.current().id(), older)
        };
        let mut keyring = self.shared.keyring.write();
        let is_changed = ids(&keyring) != ids(&new);
        *keyring = Arc::new(new);
        Ok(is_changed)
    }

    /// The counts that were set last.
    #[must_use]
    pub fn secret_counts(&self) -> SecretCounts {
        let [current, older, unknown] = &self.shared.secret_counts;
        SecretCounts {
            current: current.load(Ordering::Relaxed),
            older: older.load(Ordering::Relaxed),
            unknown: unknown.load(Ordering::Relaxed),
        }
    }

    /// Sets the counts of the state, for metrics.
    pub fn set_secret_counts(&self, new: SecretCounts) {
        let counts = [new.current, new.older, new.unknown];
        for (counter, count) in self.shared.secret_counts.iter().zip(counts) {
            counter.store(count, Ordering::Relaxed);
        }
    }

    /// Seals the secrets of a request, which are the same for all of its servers.
    ///
    /// # Errors
    ///
    /// See [`SealError`].
    pub fn seal(&self, fields: SecretFields) -> Result<RequestSecrets, SealError> {
        let mut build = SecretFields::default();
        let mut server = SecretFields::default();
        build.admin_pass = fields.admin_pass;
        match self.shared.user_data_retention {
            UserDataRetention::UntilDeleted => server.user_data = fields.user_data,
            UserDataRetention::UntilBuilt => build.user_data = fields.user_data,
        }
        Ok(RequestSecrets {
            keyring: self.keyring(),
            build: SealedSet::new(SecretSet::Build, &build)?,
            server: SealedSet::new(SecretSet::Server, &server)?,
        })
    }

    /// Opens the secrets of a specification.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_fields(
        &self,
        instance: InstanceId,
        spec: &Spec,
    ) -> Result<SecretFields, OpenError> {
        let mut fields = SecretFields::default();
        let keyring = self.keyring();
        for set in SecretSet::ALL {
            let text = set.text(spec);
            if !text.is_empty() {
                fields.merge(open_set(&keyring, set, instance, &text.text())?);
            }
        }
        Ok(fields)
    }

    /// Seals the secrets that a specification has in the clear, because it comes from another role or
    /// an earlier release. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// See [`SealError`].
    pub fn seal_spec(&self, instance: InstanceId, spec: &mut Spec) -> Result<bool, SealError> {
        let Some((rest, fields)) = body::remove(&spec.body) else {
            return Ok(false);
        };
        let sealed = self.seal(fields)?;
        (spec.build_secrets, spec.secrets) = sealed.for_instance(instance)?;
        spec.body = rest;
        Ok(true)
    }

    /// Opens the secrets of a specification for another role or a driver: they are in the clear, in a
    /// body that `Debug` does not show and that is overwritten when it is dropped.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]; the specification is then left without secrets.
    pub fn open_spec(&self, instance: InstanceId, spec: &mut Spec) -> Result<(), OpenError> {
        if !spec.has_secrets() {
            return Ok(());
        }
        let opened = self.open_fields(instance, spec);
        spec.forget_secrets();
        let body = body::add(&spec.body, &opened?);
        spec.body = body.ok_or(OpenError::Unreadable)?;
        Ok(())
    }

    /// A copy of the specification as another role receives it, for comparisons of digests; none if its secrets
    /// cannot be opened.
    #[must_use]
    pub fn clone_opened(&self, instance: InstanceId, spec: &Spec) -> Option<Spec> {
        let mut spec = spec.clone();
        self.open_spec(instance, &mut spec).ok().map(|()| spec)
    }

    /// The specification with its secrets sealed with the current key; none if they are sealed with it already.
    /// If `with_bodies`, secrets that an earlier release left in the body are sealed too, for which the body has
    /// to be read.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn resealed(
        &self,
        instance: InstanceId,
        spec: &Spec,
        with_bodies: bool,
    ) -> Result<Option<Spec>, OpenError> {
        if with_bodies && !spec.has_secrets() {
            let mut spec = spec.clone();
            let sealed = self.seal_spec(instance, &mut spec);
            return sealed
                .map(|is_changed| is_changed.then_some(spec))
                .map_err(|_| OpenError::Unreadable);
        }
        let keyring = self.keyring();
        let is_old = |set: &SecretSet| {
            let text = set.text(spec);
            !text.is_empty() && key_id_of(&text.text()) != Some(keyring.current().id())
        };
        if !SecretSet::ALL.iter().any(is_old) {
            return Ok(None);
        }
        let mut spec = spec.clone();
        for set in SecretSet::ALL.into_iter().filter(is_old) {
            let text = set.text_mut(&mut spec);
            *text = resealed_set(&keyring, set, instance, text)?;
        }
        Ok(Some(spec))
    }

    /// Adds the sealed sets of a specification to the counts.
    pub fn count(&self, spec: &Spec, counts: &mut SecretCounts) {
        if !spec.has_secrets() {
            return;
        }
        let keyring = self.keyring();
        for set in SecretSet::ALL {
            let text = set.text(spec);
            if text.is_empty() {
                continue;
            }
            let key_id = key_id_of(&text.text());
            let known_key = key_id.and_then(|id| keyring.key(id));
            let count = match known_key {
                Some(key) if key.id() == keyring.current().id() => &mut counts.current,
                Some(_) => &mut counts.older,
                None => &mut counts.unknown,
            };
            *count += 1;
        }
    }

    /// The id of the key of each sealed set of a specification; none for a set in an unknown format.
    pub fn key_ids_of(spec: &Spec) -> impl Iterator<Item = Option<KeyId>> {
        let sets = SecretSet::ALL.into_iter().map(|set| set.text(spec));
        let sealed = sets.filter(|text| !text.is_empty());
        sealed.map(|text| key_id_of(&text.text()))
    }
}

/// The sealed secrets of one request, from which those of each of its servers are made.
pub struct RequestSecrets {
    keyring: Arc<Keyring>,
    build: Option<SealedSet>,
    server: Option<SealedSet>,
}

/// Written by hand, so that no log has a key.
impl fmt::Debug for RequestSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RequestSecrets")
            .finish_non_exhaustive()
    }
}

impl RequestSecrets {
    /// The sealed secrets of one server: those of its first build, and those that are stored as long as
    /// it exists.
    ///
    /// # Errors
    ///
    /// See [`SealError`].
    pub fn for_instance(
        &self,
        instance: InstanceId,
    ) -> Result<(SharedText, SharedText), SealError> {
        let seal_for = |set: &Option<SealedSet>| match set {
            Some(set) => set.for_instance(&self.keyring, instance),
            None => Ok(SharedText::default()),
        };
        Ok((seal_for(&self.build)?, seal_for(&self.server)?))
    }
}

/// One set of secrets of a request, sealed with its data key.
struct SealedSet {
    set: SecretSet,
    /// The key with which the fields are sealed.
    data_key: DataKey,
    /// The sealed fields, as text.
    fields: Arc<str>,
}

impl SealedSet {
    fn new(set: SecretSet, fields: &SecretFields) -> Result<Option<Self>, SealError> {
        if fields.is_empty() {
            return Ok(None);
        }
        let data_key = DataKey::random()?;
        let fields = data_key.seal(set.name(), &fields.encode())?.into();
        Ok(Some(Self {
            set,
            data_key,
            fields,
        }))
    }

    fn for_instance(
        &self,
        keyring: &Keyring,
        instance: InstanceId,
    ) -> Result<SharedText, SealError> {
        let sealed = Sealed::seal(keyring, &binding(self.set, instance), self.data_key.bytes())?;
        let own_part = format!(".{sealed}");
        Ok(SharedText::from_parts(Arc::clone(&self.fields), own_part))
    }
}

fn binding(set: SecretSet, instance: InstanceId) -> Binding {
    Binding {
        server: instance.0,
        field: set.name(),
    }
}

/// The sealed fields and the sealed data key in a set's text.
fn split_set(text: &str) -> Result<(&str, Sealed), OpenError> {
    let (fields, key) = text.split_once('.').ok_or(OpenError::Unreadable)?;
    Ok((fields, Sealed::parse(key)?))
}

/// The id of the installation's key in a set's text; `None` if the text is in an unknown format.
fn key_id_of(text: &str) -> Option<KeyId> {
    let mut parts = text.split('.');
    let (_fields, key_id, _data_key) = (parts.next()?, parts.next()?, parts.next()?);
    KeyId::parse(key_id)
}

fn open_set(
    keyring: &Keyring,
    set: SecretSet,
    instance: InstanceId,
    text: &str,
) -> Result<SecretFields, OpenError> {
    let (fields, sealed) = split_set(text)?;
    let data_key = DataKey::new(&sealed.open(keyring, &binding(set, instance))?)?;
    SecretFields::decode(&data_key.open(set.name(), fields)?)
}

/// A set with its data key sealed with the current key of the keyring. The part that servers of one
/// request share remains shared.
fn resealed_set(
    keyring: &Keyring,
    set: SecretSet,
    instance: InstanceId,
    text: &SharedText,
) -> Result<SharedText, OpenError> {
    let whole = text.text();
    let (fields, sealed) = split_set(&whole)?;
    let binding = binding(set, instance);
    let data_key = sealed.open(keyring, &binding)?;
    let sealed = Sealed::seal(keyring, &binding, &data_key).map_err(|_| OpenError::Unreadable)?;
    let common = match fields == &**text.common() {
        true => Arc::clone(text.common()),
        false => fields.into(),
    };
    Ok(SharedText::from_parts(common, format!(".{sealed}")))
}
