//! The certificates of the roles of this process: where they come from, and who looks after them.

mod authority;
mod keeper;

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use placewright_identity::{Identity, Role};
use placewright_link::CertificateLink;
use placewright_pki::invitation::Word;
use placewright_pki::{Authority, Credentials, Grant, KeyRequest, PkiError, holder, now};
use placewright_rpc::{ClientIdentity, ClientOptions, ServerRole};

use crate::config::{ConfigErrors, chain};
use crate::options::Options;
pub(crate) use authority::LocalAuthority;
pub(crate) use keeper::{Kept, keep};

/// The folder of control's certificate within that of the authority, when no other is named.
const OF_CONTROL: &str = "control";
/// The most that is read of a file with a word.
const WORD_FILE_BYTES_MAX: u64 = 4096;

/// What control has: its certificate, and the authority if that is here.
#[derive(Clone, Default)]
pub(crate) struct ControlIdentity {
    pub(crate) credentials: Option<Arc<Credentials>>,
    pub(crate) authority: Option<Arc<LocalAuthority>>,
}

fn wrong(key: &str, why: &str) -> ConfigErrors {
    ConfigErrors(vec![format!("{key}: {why}")])
}

fn wrong_pki(key: &str, error: &PkiError) -> ConfigErrors {
    wrong(key, &chain(error))
}

impl ControlIdentity {
    /// Loads what control's options name. With the authority here, control's own certificate is made
    /// when it is missing or has ended.
    ///
    /// # Errors
    ///
    /// A folder lacks something, or the certificate is not control's.
    pub(crate) fn open(options: &Options) -> Result<Self, ConfigErrors> {
        let control = &options.control;
        let key = "control.authority_path";
        let authority = control.authority_path.as_deref().map(Authority::open);
        let authority = authority
            .transpose()
            .map_err(|error| wrong_pki(key, &error))?;
        let Some(folder) = identity_path(options) else {
            return Ok(Self::default());
        };
        let key = "control.identity_path";
        if let Some(authority) = &authority {
            let own = Identity::new(authority.installation(), Role::Control);
            let own = own.map_err(|error| wrong(key, &error.to_string()))?;
            let held = ensure(authority, &folder, &own);
            held.map_err(|error| wrong_pki(key, &error))?;
        }
        let list = authority.as_ref().map(Authority::list_path);
        let credentials = load(key, &folder, list.as_deref(), "control's", |role| {
            *role == Role::Control
        })?;
        Ok(Self {
            credentials: Some(credentials),
            authority: authority.map(|authority| Arc::new(LocalAuthority::new(authority))),
        })
    }

    /// How control reaches a cell.
    pub(crate) fn towards_cell(&self, name: &str) -> Option<ClientIdentity> {
        let credentials = self.credentials.clone()?;
        Some(ClientIdentity {
            credentials,
            server: ServerRole::Cell(name.to_owned()),
        })
    }

    /// The authority as a server offers it.
    pub(crate) fn offered(&self) -> Option<Arc<dyn CertificateLink>> {
        let authority = self.authority.clone()?;
        Some(authority as _)
    }

    /// What has to be looked after.
    pub(crate) fn kept(&self) -> Option<Kept> {
        let credentials = self.credentials.clone()?;
        Some(Kept::new(credentials, self.offered(), None))
    }
}

/// Where control's certificate is, or is to be.
pub(crate) fn identity_path(options: &Options) -> Option<PathBuf> {
    let control = &options.control;
    let beside = || Some(control.authority_path.as_ref()?.join(OF_CONTROL));
    control.identity_path.clone().or_else(beside)
}

/// Makes the certificate in a folder if it is missing, has ended, or is another one than wanted.
pub(crate) fn ensure(
    authority: &Authority,
    folder: &Path,
    identity: &Identity,
) -> Result<(), PkiError> {
    if holder::is_in(folder) {
        let present = Credentials::load(folder, Some(&authority.list_path()))?.current();
        let is_good = present.check_client(&present.certificate).is_ok();
        if is_good && present.identity() == identity {
            return Ok(());
        }
        if !present.is_own_form {
            return Err(PkiError::Refused(format!(
                "the certificate in {} has ended or is not that of {identity}",
                folder.display()
            )));
        }
    }
    let request = KeyRequest::new()?;
    let issued = authority.issue(&Grant::new(identity.clone()), &request.request, "issue")?;
    holder::write(folder, &request, &issued)?;
    tracing::info!(%identity, folder = %folder.display(), "a certificate was issued");
    Ok(())
}

/// Loads a folder, whose certificate has to be of a role and not out of date.
pub(crate) fn load(
    key: &str,
    folder: &Path,
    list: Option<&Path>,
    whose: &str,
    is_wanted: impl Fn(&Role) -> bool,
) -> Result<Arc<Credentials>, ConfigErrors> {
    let credentials = Credentials::load(folder, list).map_err(|error| wrong_pki(key, &error))?;
    let current = credentials.current();
    if !is_wanted(current.identity().role()) {
        let whole = format!(
            "the certificate in {} is that of {}, and not {whose}",
            folder.display(),
            current.identity()
        );
        return Err(wrong(key, &whole));
    }
    if current.facts.not_after < now() {
        let whole = format!(
            "the certificate in {} has ended: get a new one with `placewright pki invite` and --enrol",
            folder.display()
        );
        return Err(wrong(key, &whole));
    }
    Ok(credentials)
}

/// Whether a folder has a certificate that has not ended.
fn is_held(folder: &Path) -> bool {
    let loaded = Credentials::load(folder, None);
    loaded.is_ok_and(|loaded| loaded.current().facts.not_after > now())
}

/// Uses a word, or one that is in a file, unless the folder has a certificate already: a command line
/// with a word may be run again.
///
/// # Errors
///
/// The word is none, there is no folder for the certificate, or the server refuses.
pub(crate) async fn enrol(
    section: &str,
    word: Option<&str>,
    folder: Option<&Path>,
    server: &str,
) -> anyhow::Result<()> {
    let Some(word) = word else { return Ok(()) };
    let key = format!("{section}.identity_path");
    let missing = || wrong(&key, "--enrol needs it: the folder for the certificate");
    let folder = folder.ok_or_else(missing)?;
    if is_held(folder) {
        tracing::info!(folder = %folder.display(), "there is a certificate already: no enrolment");
        return Ok(());
    }
    let word = read_word(word).map_err(|why| wrong("--enrol", &why))?;
    placewright_rpc::enrol(&word, ClientOptions::new(server), folder).await?;
    Ok(())
}

/// A word, as it is given or as a file has it. No message repeats what is given, which may be a word.
fn read_word(given: &str) -> Result<Word, String> {
    let given = given.trim();
    if Word::looks_like_one(given) {
        return Word::read(given).map_err(|error| error.to_string());
    }
    let mut text = String::new();
    let file = File::open(given).map(|file| file.take(WORD_FILE_BYTES_MAX));
    let read = file.and_then(|mut file| file.read_to_string(&mut text));
    read.map_err(|error| format!("this is neither a word nor a file with one: {error}"))?;
    Word::read(&text).map_err(|error| format!("the file: {error}"))
}

/// The message of a role that would listen for everybody without knowing who calls.
pub(crate) fn refuse_open(section: &str, listen: SocketAddr) -> String {
    format!(
        "{section}.listen: {listen} is not on loopback, and without a certificate of its own the {section} \
         cannot tell who calls: a shared token is for loopback only, because whoever has it is every \
         role and every host. Give it a certificate (`placewright pki --help`, docs/operations.md, \
         \"Identities\") and name its folder as {section}.identity_path, or say --i-know-this-is-open"
    )
}

/// The warning of a role that does so all the same.
pub(crate) fn warn_open(section: &str, listen: SocketAddr, has_token: bool) -> String {
    let who = if has_token {
        "everybody who has the token"
    } else {
        "everybody who reaches it"
    };
    format!(
        "{section}.listen is on an open address, {listen}, without a certificate: nothing is encrypted, and \
         {who} may do everything"
    )
}
