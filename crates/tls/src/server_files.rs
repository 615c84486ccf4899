//! A server's configuration from files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::ServerConfig;

use crate::authorities::Authorities;
use crate::error::{Fault, FileError};
use crate::file_backed::FileBacked;
use crate::files::{IdentityFiles, read_authorities};
use crate::server::{ClientCertificates, ServerSettings, Tickets};
use crate::validity::Validity;

/// The files of a server's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFiles {
    /// Who the server is.
    pub identity: IdentityFiles,
    /// The authorities of clients' certificates, if clients are asked for one.
    pub clients: Option<ClientFiles>,
    /// The protocols that it offers by ALPN, the best first.
    pub protocols: Vec<Vec<u8>>,
}

/// Who judges clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// The bundle of authorities.
    pub authorities: PathBuf,
    /// Whether a client without a certificate is refused.
    pub is_required: bool,
}

/// A server's configuration that was read.
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

    /// The authorities of clients' certificates.
    pub fn authorities(&self) -> Option<&Authorities> {
        self.authorities.as_ref()
    }
}

impl ServerFiles {
    /// Reads the files, and can read them again. A certificate that has expired does not take the
    /// place of one that has not. Sessions that began with other authorities of clients cannot be
    /// resumed.
    ///
    /// # Errors
    ///
    /// The file that is wrong, and what is.
    pub fn load(self) -> Result<FileBacked<LoadedServer, FileError>, FileError> {
        let mut files = vec![self.identity.certificate.clone(), self.identity.key.clone()];
        files.extend(
            self.clients
                .iter()
                .map(|clients| clients.authorities.clone()),
        );
        FileBacked::load(files, move |before| self.read(before))
    }

    fn read(&self, before: Option<&LoadedServer>) -> Result<LoadedServer, FileError> {
        let of_identity = |fault| FileError::new(&self.identity.certificate, fault);
        let identity = self.identity.read()?;
        let validity = identity.validity();
        let now = now_s();
        if validity.is_over(now) && before.is_some_and(|before| !before.validity.is_over(now)) {
            return Err(of_identity(Fault::Expired(validity.not_after_text())));
        }
        let clients = self.clients.as_ref();
        let authorities = clients
            .map(|clients| read_authorities(&clients.authorities))
            .transpose()?;
        let tickets = match before.filter(|before| before.authorities == authorities) {
            Some(before) => before.tickets.clone(),
            None => Tickets::new().map_err(of_identity)?,
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
        // Everything else was judged as it was read.
        let config = settings.config().map_err(|fault| match clients {
            Some(clients) => FileError::new(&clients.authorities, fault),
            None => of_identity(fault),
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
