//! A server's configuration from files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::ServerConfig;

use crate::authorities::Authorities;
use crate::error::{FileError, TlsError};
use crate::file_backed::FileBacked;
use crate::files::{IdentityFiles, read_authorities};
use crate::server::{ClientCertificates, ServerSettings, Tickets};
use crate::validity::Validity;

/// The files of a server's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFiles {
    /// The server's certificate and key.
    pub identity: IdentityFiles,
    /// How clients' certificates are verified; `None` if clients are not asked for a certificate.
    pub clients: Option<ClientFiles>,
    /// The protocols that it offers by ALPN, the best first.
    pub protocols: Vec<Vec<u8>>,
}

/// How clients' certificates are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// The bundle of authorities.
    pub authorities: PathBuf,
    /// Whether a client without a certificate is refused.
    pub is_required: bool,
}

/// A server's configuration that was loaded from files.
#[derive(Debug, Clone)]
pub struct LoadedServer {
    config: Arc<ServerConfig>,
    validity: Validity,
    authorities: Option<Authorities>,
    tickets: Tickets,
}

impl LoadedServer {
    /// The configuration for rustls.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// When the server's certificate is valid.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// The authorities of clients' certificates; none if clients are not asked for one.
    pub fn authorities(&self) -> Option<&Authorities> {
        self.authorities.as_ref()
    }
}

impl ServerFiles {
    /// Loads the configuration from the files; [`FileBacked::check`] loads it again after they have changed. An expired
    /// certificate does not replace one that has not expired. When the authorities of clients change, sessions that
    /// began before cannot be resumed.
    ///
    /// # Errors
    ///
    /// The file that is not valid, and the error.
    pub fn load(self) -> Result<FileBacked<LoadedServer, FileError>, FileError> {
        let mut files = vec![self.identity.certificate.clone(), self.identity.key.clone()];
        files.extend(
            self.clients
                .iter()
                .map(|clients| clients.authorities.clone()),
        );
        FileBacked::load(files, move |previous| self.read(previous))
    }

    fn read(&self, previous: Option<&LoadedServer>) -> Result<LoadedServer, FileError> {
        let identity_error = |error| FileError::new(&self.identity.certificate, error);
        let identity = self.identity.read()?;
        let validity = identity.validity();
        let now = now_s();
        if validity.is_over(now) && previous.is_some_and(|previous| !previous.validity.is_over(now))
        {
            return Err(identity_error(TlsError::Expired(validity.not_after_text())));
        }
        let clients = self.clients.as_ref();
        let authorities = clients
            .map(|clients| read_authorities(&clients.authorities))
            .transpose()?;
        let tickets = match previous.filter(|previous| previous.authorities == authorities) {
            Some(previous) => previous.tickets.clone(),
            None => Tickets::new().map_err(identity_error)?,
        };
        let settings = ServerSettings {
            identity,
            clients: match (&authorities, clients) {
                (Some(authorities), Some(clients)) if clients.is_required => {
                    ClientCertificates::Required(authorities.clone())
                }
                (Some(authorities), _) => ClientCertificates::Optional(authorities.clone()),
                (None, _) => ClientCertificates::Off,
            },
            protocols: self.protocols.clone(),
            tickets: tickets.clone(),
        };
        // Identity and authorities were checked when they were read. The revocation lists were not; they are in the
        // file of the authorities.
        let config = settings.config().map_err(|error| match clients {
            Some(clients) => FileError::new(&clients.authorities, error),
            None => identity_error(error),
        })?;
        Ok(LoadedServer {
            config,
            validity,
            authorities,
            tickets,
        })
    }
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs().cast_signed())
}
