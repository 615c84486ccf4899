//! A holder's folder, loaded as configurations of TLS, and loaded again when it changes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use placewright_identity::Identity;
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, ServerConfig, version};
use tokio::sync::watch;

use crate::authority::Issued;
use crate::certificate::{CertificateFacts, revoked_serials};
use crate::error::PkiError;
use crate::{files, holder, verify};

/// The protocol that is spoken inside of TLS.
const PROTOCOL: &[u8] = b"h2";

/// The certificate of a role with what it trusts, as it is at present.
pub struct Credentials {
    directory: PathBuf,
    /// A revocation list elsewhere: that of the authority, when this process has it.
    list_path: Option<PathBuf>,
    current: RwLock<Arc<Loaded>>,
    stamps: RwLock<Vec<Stamp>>,
    changes: watch::Sender<u64>,
}

/// What was loaded at one time.
pub struct Loaded {
    /// Counts what was loaded, from 1.
    pub number: u64,
    /// What the own certificate says.
    pub facts: CertificateFacts,
    /// The own certificate.
    pub certificate: CertificateDer<'static>,
    /// Whether it is renewed by the process itself.
    pub is_own_form: bool,
    /// The revocation list, if there is one.
    pub list: Option<Vec<u8>>,
    /// TLS as a server: clients may have a certificate, and have to have one of the authorities.
    pub server: Arc<ServerConfig>,
    /// TLS as a client. Which role the server is has to be checked afterwards.
    pub client: Arc<ClientConfig>,
    authorities: Vec<CertificateDer<'static>>,
    clients: Arc<dyn ClientCertVerifier>,
    revoked: BTreeSet<Vec<u8>>,
}

/// What tells that a file was replaced.
#[derive(PartialEq, Eq)]
struct Stamp(Option<(u64, i64, i64, u64)>);

impl Stamp {
    fn of(path: &Path) -> Self {
        let metadata = fs::metadata(path).ok();
        Self(metadata.map(|found| (found.ino(), found.mtime(), found.mtime_nsec(), found.len())))
    }
}

impl Credentials {
    /// Loads a folder. `list_path` is a revocation list elsewhere, in place of the folder's own.
    ///
    /// # Errors
    ///
    /// The folder lacks something, or its content is not valid.
    pub fn load(directory: &Path, list_path: Option<&Path>) -> Result<Arc<Self>, PkiError> {
        let stamps = stamps(directory, list_path);
        let loaded = Loaded::read(directory, list_path, 1)?;
        Ok(Arc::new(Self {
            directory: directory.to_owned(),
            list_path: list_path.map(Path::to_owned),
            current: RwLock::new(Arc::new(loaded)),
            stamps: RwLock::new(stamps),
            changes: watch::Sender::new(1),
        }))
    }

    /// The folder.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What is loaded now.
    #[must_use]
    pub fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.current.read())
    }

    /// Tells the number of what is loaded whenever it changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Loads the folder again if a file of it is another one. Returns whether something changed.
    ///
    /// # Errors
    ///
    /// The new content is not valid; what was loaded before stays in force.
    pub fn reload_if_changed(&self) -> Result<bool, PkiError> {
        let stamps = stamps(&self.directory, self.list_path.as_deref());
        if *self.stamps.read() == stamps {
            return Ok(false);
        }
        let number = self.current().number + 1;
        let loaded = Loaded::read(&self.directory, self.list_path.as_deref(), number);
        // What is wrong is told once, until it changes again.
        *self.stamps.write() = stamps;
        *self.current.write() = Arc::new(loaded?);
        self.changes.send_replace(number);
        Ok(true)
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let current = self.current();
        f.debug_struct("Credentials")
            .field("directory", &self.directory)
            .field("identity", &current.facts.identity)
            .finish_non_exhaustive()
    }
}

fn stamps(directory: &Path, list_path: Option<&Path>) -> Vec<Stamp> {
    let own = holder::files_of(directory);
    let paths = own.iter().map(PathBuf::as_path).chain(list_path);
    paths.map(Stamp::of).collect()
}

impl Loaded {
    fn read(directory: &Path, list_path: Option<&Path>, number: u64) -> Result<Self, PkiError> {
        let held = holder::read(directory)?;
        let list = match list_path {
            Some(path) => files::read_if_there(path)?,
            None => held.list,
        };
        let Some(certificate) = held.chain.first().cloned() else {
            return Err(PkiError::Certificate("there is none".to_owned()));
        };
        let facts = CertificateFacts::read(&certificate)?;
        let clients = verify::of_clients(&held.authorities, list.as_deref())?;
        let servers = verify::ServerChain::new(&held.authorities, list.as_deref())?;
        let server = ServerConfig::builder_with_provider(verify::provider())
            .with_protocol_versions(&[&version::TLS13])?
            .with_client_cert_verifier(Arc::clone(&clients));
        let mut server = server.with_single_cert(held.chain.clone(), held.key.clone_key())?;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        // A session that is resumed would be let in without a look at dates and revocations.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let client = ClientConfig::builder_with_provider(verify::provider())
            .with_protocol_versions(&[&version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(servers));
        let mut client = client.with_client_auth_cert(held.chain, held.key)?;
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.resumption = Resumption::disabled();
        let list = list.as_deref().map(verify::list).transpose()?;
        let revoked = list.as_deref().map(revoked_serials).transpose()?;
        Ok(Self {
            number,
            facts,
            certificate,
            is_own_form: held.is_own_form,
            list: list.map(|list| list.to_vec()),
            server: Arc::new(server),
            client: Arc::new(client),
            authorities: held.authorities,
            clients,
            revoked: revoked.unwrap_or_default().into_iter().collect(),
        })
    }

    /// What the own certificate says of its holder.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.facts.identity
    }

    /// Whether a certificate with this serial number was revoked.
    #[must_use]
    pub fn is_revoked(&self, serial: &[u8]) -> bool {
        self.revoked.contains(serial)
    }

    /// Checks a certificate that somebody else has seen as a handshake would, and reads it.
    ///
    /// # Errors
    ///
    /// It is not of a trusted authority, is revoked or out of date, or names no role.
    pub fn check_client(
        &self,
        certificate: &CertificateDer<'_>,
    ) -> Result<CertificateFacts, PkiError> {
        verify::client(&*self.clients, certificate)?;
        CertificateFacts::read(certificate)
    }

    /// What a renewal gave, as it may be taken: a certificate of the same names, of an authority that is
    /// trusted already. Whom to trust stays as it is, because whoever passed the renewal on, a cell for
    /// its agents, has no say in that.
    ///
    /// # Errors
    ///
    /// The certificate is none of a trusted authority, or has other names.
    pub fn renewed(&self, mut issued: Issued) -> Result<Issued, PkiError> {
        let none = || PkiError::Certificate("there is none".to_owned());
        let facts = self.check_client(issued.chain.first().ok_or_else(none)?)?;
        if facts.identity != self.facts.identity {
            return Err(PkiError::Refused(format!(
                "the new certificate is that of {}",
                facts.identity
            )));
        }
        issued.authorities.clone_from(&self.authorities);
        Ok(issued)
    }
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded")
            .field("number", &self.number)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}
