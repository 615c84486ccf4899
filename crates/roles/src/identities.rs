//! The certificates of the roles of this process: loads them, gets new ones, and keeps them valid.

mod authority;
mod managed;

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use placewright_identity::{Identity, Role};
use placewright_link::CertificateLink;
use placewright_pki::holder::{self, WritableFolder};
use placewright_pki::invitation::Word;
use placewright_pki::{Authority, Credentials, Grant, KeyRequest, PkiError, now};
use placewright_rpc::{ClientIdentity, ClientOptions, ServerRole};

use crate::config::{ConfigErrors, chain};
use crate::options::Options;
pub(crate) use authority::LocalAuthority;
pub(crate) use managed::{ManagedCredentials, manage};

/// The folder of control's certificate in the authority's folder, unless the options name another.
const CONTROL_FOLDER: &str = "control";
/// The most bytes that are read of a file with an invitation's word.
const WORD_FILE_BYTES_MAX: u64 = 4096;

/// Control's certificate, and the authority if this process has it.
#[derive(Clone, Default)]
pub(crate) struct ControlIdentity {
    pub(crate) credentials: Option<Arc<Credentials>>,
    pub(crate) authority: Option<Arc<LocalAuthority>>,
}

fn config_error(key: &str, error: &str) -> ConfigErrors {
    ConfigErrors(vec![format!("{key}: {error}")])
}

fn pki_config_error(key: &str, error: &PkiError) -> ConfigErrors {
    config_error(key, &chain(error))
}

impl ControlIdentity {
    /// Loads the folders of control's certificate and of the authority, if the options name them. With the
    /// authority, a certificate is issued if control has no valid one.
    ///
    /// # Errors
    ///
    /// A folder is not complete, or the certificate is not control's or has expired.
    pub(crate) fn open(options: &Options) -> Result<Self, ConfigErrors> {
        let control = &options.control;
        let key = "control.authority_path";
        let authority = control.authority_path.as_deref().map(Authority::open);
        let authority = authority
            .transpose()
            .map_err(|error| pki_config_error(key, &error))?;
        let Some(folder) = identity_path(options) else {
            return Ok(Self::default());
        };
        let key = "control.identity_path";
        if let Some(authority) = &authority {
            let control_identity = Identity::new(authority.installation(), Role::Control);
            let control_identity =
                control_identity.map_err(|error| config_error(key, &error.to_string()))?;
            let ensured = ensure(authority, &folder, &control_identity);
            ensured.map_err(|error| pki_config_error(key, &error))?;
        }
        let revocation_list = authority.as_ref().map(Authority::revocation_list_path);
        let credentials = load(
            key,
            &folder,
            revocation_list.as_deref(),
            "control's",
            |role| *role == Role::Control,
        )?;
        Ok(Self {
            credentials: Some(credentials),
            authority: authority.map(|authority| Arc::new(LocalAuthority::new(authority))),
        })
    }

    /// The identity with which control connects to the cell of this name; `None` if control has no certificate.
    pub(crate) fn client_identity_for(&self, name: &str) -> Option<ClientIdentity> {
        let credentials = self.credentials.clone()?;
        Some(ClientIdentity {
            credentials,
            server: ServerRole::Cell(name.to_owned()),
        })
    }

    /// The authority as the service that control's gRPC server offers; `None` if this process has no authority.
    pub(crate) fn certificate_link(&self) -> Option<Arc<dyn CertificateLink>> {
        let authority = self.authority.clone()?;
        Some(authority as _)
    }

    /// Control's credentials, to be kept valid by [`manage`]; `None` if control has no certificate.
    pub(crate) fn managed(&self) -> Option<ManagedCredentials> {
        let credentials = self.credentials.clone()?;
        Some(ManagedCredentials::new(
            credentials,
            self.certificate_link(),
            None,
        ))
    }
}

/// The folder of control's certificate; `None` if the options name neither this folder nor an authority.
pub(crate) fn identity_path(options: &Options) -> Option<PathBuf> {
    let control = &options.control;
    let in_authority = || Some(control.authority_path.as_ref()?.join(CONTROL_FOLDER));
    control.identity_path.clone().or_else(in_authority)
}

/// Issues a certificate into a folder, unless there is a valid one of this identity. Refuses to replace a certificate
/// that Placewright does not renew.
pub(crate) fn ensure(
    authority: &Authority,
    folder: &Path,
    identity: &Identity,
) -> Result<(), PkiError> {
    if holder::has_certificate(folder) {
        let present = Credentials::load(folder, Some(&authority.revocation_list_path()))?.current();
        let is_valid = present.check_client(&present.certificate).is_ok();
        if is_valid && present.identity() == identity {
            return Ok(());
        }
        if !present.is_renewed_by_placewright {
            return Err(PkiError::Refused(format!(
                "the certificate in {} has ended or is not that of {identity}",
                folder.display()
            )));
        }
    }
    let writable = WritableFolder::of(folder)?;
    let key_request = KeyRequest::new()?;
    let grant = Grant::new(identity.clone());
    let issued = authority.issue(&grant, &key_request.request, "issue")?;
    writable.write(&key_request, &issued)?;
    tracing::info!(%identity, folder = %folder.display(), "a certificate was issued");
    Ok(())
}

/// Loads the credentials in a folder. The certificate must be of the right role, and must not have expired.
/// `revocation_list` is the path of a list that is used in place of the folder's own. Errors name the option `key`, and
/// the right role as `whose`.
pub(crate) fn load(
    key: &str,
    folder: &Path,
    revocation_list: Option<&Path>,
    whose: &str,
    is_right_role: impl Fn(&Role) -> bool,
) -> Result<Arc<Credentials>, ConfigErrors> {
    let credentials = Credentials::load(folder, revocation_list)
        .map_err(|error| pki_config_error(key, &error))?;
    let current = credentials.current();
    if !is_right_role(current.identity().role()) {
        let message = format!(
            "the certificate in {} is that of {}, and not {whose}",
            folder.display(),
            current.identity()
        );
        return Err(config_error(key, &message));
    }
    if current.facts.not_after < now() {
        let message = format!(
            "the certificate in {} has ended: get a new one with `placewright pki invite` and --enrol",
            folder.display()
        );
        return Err(config_error(key, &message));
    }
    Ok(credentials)
}

/// Whether a folder has a certificate that has not expired.
fn has_valid_certificate(folder: &Path) -> bool {
    let loaded = Credentials::load(folder, None);
    loaded.is_ok_and(|loaded| loaded.current().facts.not_after > now())
}

/// Enrols with an invitation's word, or a file with one. Does nothing without either, or if the folder has a
/// certificate that has not expired, because the same command line may be run again.
///
/// # Errors
///
/// The word is not valid, no folder for the certificate is configured, or the server refuses.
pub(crate) async fn enrol(
    section: &str,
    word_or_file: Option<&str>,
    folder: Option<&Path>,
    server: &str,
) -> anyhow::Result<()> {
    let Some(word_or_file) = word_or_file else {
        return Ok(());
    };
    let key = format!("{section}.identity_path");
    let missing = || config_error(&key, "--enrol needs it: the folder for the certificate");
    let folder = folder.ok_or_else(missing)?;
    if has_valid_certificate(folder) {
        tracing::info!(folder = %folder.display(), "there is a certificate already: no enrolment");
        return Ok(());
    }
    let word = read_word(word_or_file).map_err(|error| config_error("--enrol", &error))?;
    placewright_rpc::enrol(&word, ClientOptions::new(server), folder).await?;
    Ok(())
}

/// Reads an invitation's word: the argument itself, or the content of the file that the argument names. Errors
/// do not contain the argument, which may be a secret word.
fn read_word(argument: &str) -> Result<Word, String> {
    let argument = argument.trim();
    if Word::has_prefix(argument) {
        return Word::read(argument).map_err(|error| error.to_string());
    }
    let mut text = String::new();
    let file = File::open(argument).map(|file| file.take(WORD_FILE_BYTES_MAX));
    let read = file.and_then(|mut file| file.read_to_string(&mut text));
    read.map_err(|error| format!("this is neither a word nor a file with one: {error}"))?;
    Word::read(&text).map_err(|error| format!("the file: {error}"))
}

/// The error of a role that would listen on an address beyond loopback without authenticating its callers.
pub(crate) fn open_listener_error(section: &str, address: SocketAddr) -> String {
    format!(
        "{section}.listen: {address} is not on loopback, and without a certificate of its own the {section} \
         cannot tell who calls: a shared token is for loopback only, because whoever has it is every \
         role and every host. Give it a certificate (`placewright pki --help`, docs/operations.md, \
         \"Identities\") and name its folder as {section}.identity_path, or say --i-know-this-is-open"
    )
}

/// The warning of a role that listens on an address beyond loopback without authenticating its callers.
pub(crate) fn open_listener_warning(section: &str, address: SocketAddr, has_token: bool) -> String {
    let callers = if has_token {
        "everybody who has the token"
    } else {
        "everybody who reaches it"
    };
    format!(
        "{section}.listen is on an open address, {address}, without a certificate: nothing is encrypted, and \
         {callers} may do everything"
    )
}
