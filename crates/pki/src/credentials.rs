//! A holder's folder as TLS configurations, loaded again when it changes.

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

/// The protocol inside of TLS, as ALPN names it.
pub(crate) const PROTOCOL: &[u8] = b"h2";

/// The certificate of a role and the authorities that it trusts, as its folder was loaded last.
pub struct Credentials {
    directory: PathBuf,
    /// The file of the authority's revocation list, if this process has the authority.
    revocation_list_path: Option<PathBuf>,
    current: RwLock<Arc<LoadedCredentials>>,
    /// The stamps of the files as they were loaded last; `None` for a file that did not exist.
    stamps: RwLock<Vec<Option<FileStamp>>>,
    /// Sends [`LoadedCredentials::number`] when the folder was loaded again.
    changes: watch::Sender<u64>,
}

/// The content of a folder as it was loaded at one time.
pub struct LoadedCredentials {
    /// Counts the times that the folder was loaded, from 1.
    pub number: u64,
    /// The fields of the holder's own certificate.
    pub facts: CertificateFacts,
    /// The holder's own certificate.
    pub certificate: CertificateDer<'static>,
    /// Whether Placewright renews the certificate; otherwise a tool of another authority does.
    pub is_renewed_by_placewright: bool,
    /// The revocation list, if there is one.
    pub revocation_list: Option<Vec<u8>>,
    /// The TLS configuration of a server. Clients need no certificate; if they have one, it must be of a
    /// trusted authority.
    pub server: Arc<ServerConfig>,
    /// The TLS configuration of a client. The server's role has to be checked after the handshake.
    pub client: Arc<ClientConfig>,
    authorities: Vec<CertificateDer<'static>>,
    client_verifier: Arc<dyn ClientCertVerifier>,
    revoked_serials: BTreeSet<Vec<u8>>,
}

/// The metadata of a file that changes when the file is replaced.
#[derive(PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    modified_s: i64,
    modified_ns: i64,
    length: u64,
}

impl FileStamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            inode: metadata.ino(),
            modified_s: metadata.mtime(),
            modified_ns: metadata.mtime_nsec(),
            length: metadata.len(),
        })
    }
}

impl Credentials {
    /// Loads a folder. `revocation_list_path` names a revocation list that is used in place of the folder's own.
    ///
    /// # Errors
    ///
    /// A file is missing, or its content is not valid.
    pub fn load(
        directory: &Path,
        revocation_list_path: Option<&Path>,
    ) -> Result<Arc<Self>, PkiError> {
        let stamps = stamps(directory, revocation_list_path);
        let loaded = LoadedCredentials::read(directory, revocation_list_path, 1)?;
        Ok(Arc::new(Self {
            directory: directory.to_owned(),
            revocation_list_path: revocation_list_path.map(Path::to_owned),
            current: RwLock::new(Arc::new(loaded)),
            stamps: RwLock::new(stamps),
            changes: watch::Sender::new(1),
        }))
    }

    /// The folder that the credentials are loaded from.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The folder as it was loaded last.
    #[must_use]
    pub fn current(&self) -> Arc<LoadedCredentials> {
        Arc::clone(&self.current.read())
    }

    /// Receives [`LoadedCredentials::number`] whenever the folder was loaded again.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Loads the folder again if one of its files changed. Returns whether it was loaded.
    ///
    /// # Errors
    ///
    /// The new content is not valid; the content that was loaded before stays in effect.
    pub fn reload_if_changed(&self) -> Result<bool, PkiError> {
        let stamps = stamps(&self.directory, self.revocation_list_path.as_deref());
        if *self.stamps.read() == stamps {
            return Ok(false);
        }
        let number = self.current().number + 1;
        let loaded = LoadedCredentials::read(
            &self.directory,
            self.revocation_list_path.as_deref(),
            number,
        );
        // An error is returned once, until the files change again.
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

fn stamps(directory: &Path, revocation_list_path: Option<&Path>) -> Vec<Option<FileStamp>> {
    let folder_files = holder::files_of(directory);
    let paths = folder_files
        .iter()
        .map(PathBuf::as_path)
        .chain(revocation_list_path);
    paths.map(FileStamp::of).collect()
}

impl LoadedCredentials {
    fn read(
        directory: &Path,
        revocation_list_path: Option<&Path>,
        number: u64,
    ) -> Result<Self, PkiError> {
        let content = holder::read(directory)?;
        let list = match revocation_list_path {
            Some(path) => files::read_if_exists(path)?,
            None => content.revocation_list,
        };
        let Some(certificate) = content.chain.first().cloned() else {
            return Err(PkiError::Certificate("there is none".to_owned()));
        };
        let facts = CertificateFacts::read(&certificate)?;
        let client_verifier = verify::client_verifier(&content.authorities, list.as_deref())?;
        let server_verifier =
            verify::ServerChainVerifier::new(&content.authorities, list.as_deref())?;
        let server = ServerConfig::builder_with_provider(verify::provider())
            .with_protocol_versions(&[&version::TLS13])?
            .with_client_cert_verifier(Arc::clone(&client_verifier));
        let mut server = server.with_single_cert(content.chain.clone(), content.key.clone_key())?;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        // A resumed session would not check dates and revocations again.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let client = ClientConfig::builder_with_provider(verify::provider())
            .with_protocol_versions(&[&version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(server_verifier));
        let mut client = client.with_client_auth_cert(content.chain, content.key)?;
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.resumption = Resumption::disabled();
        let list = list
            .as_deref()
            .map(verify::parse_revocation_list)
            .transpose()?;
        let revoked_serials = list.as_deref().map(revoked_serials).transpose()?;
        Ok(Self {
            number,
            facts,
            certificate,
            is_renewed_by_placewright: content.is_renewed_by_placewright,
            revocation_list: list.map(|list| list.to_vec()),
            server: Arc::new(server),
            client: Arc::new(client),
            authorities: content.authorities,
            client_verifier,
            revoked_serials: revoked_serials.unwrap_or_default().into_iter().collect(),
        })
    }

    /// The identity in the holder's own certificate.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.facts.identity
    }

    /// Whether a certificate with this serial number was revoked.
    #[must_use]
    pub fn is_revoked(&self, serial: &[u8]) -> bool {
        self.revoked_serials.contains(serial)
    }

    /// Verifies a certificate that another role forwarded, as a handshake would, and parses it.
    ///
    /// # Errors
    ///
    /// The certificate is not of a trusted authority, is revoked or has expired, or names no role.
    pub fn check_client(
        &self,
        certificate: &CertificateDer<'_>,
    ) -> Result<CertificateFacts, PkiError> {
        verify::verify_client(&*self.client_verifier, certificate)?;
        CertificateFacts::read(certificate)
    }

    /// Checks the result of a renewal: a certificate of the same names, of an authority that is trusted
    /// already. The trusted authorities stay as they are, because a cell that forwarded the renewal of an
    /// agent must not be able to change them.
    ///
    /// # Errors
    ///
    /// The certificate is not of a trusted authority, or has other names.
    pub fn checked_renewal(&self, mut issued: Issued) -> Result<Issued, PkiError> {
        let no_certificate = || PkiError::Certificate("there is none".to_owned());
        let facts = self.check_client(issued.chain.first().ok_or_else(no_certificate)?)?;
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

impl std::fmt::Debug for LoadedCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedCredentials")
            .field("number", &self.number)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}
