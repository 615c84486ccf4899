//! The HTTP client to Keystone, and the authorities of its certificate.

use std::path::Path;
use std::time::Duration;

use placewright_tls::{ClientSettings, FileBacked, FileError, Outcome, read_authorities};

use crate::config::KeystoneConfig;
use crate::error::SetupError;

/// A client that trusts the system's authorities, or those of a file, which is read again when it
/// changes.
pub(crate) enum Http {
    System(reqwest::Client),
    Own(FileBacked<reqwest::Client, SetupError>),
}

impl Http {
    /// Prepares the client; does not contact Keystone yet.
    pub(crate) fn new(config: &KeystoneConfig) -> Result<Self, SetupError> {
        // Installing a second provider is an error; one that is installed already is fine.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let times = Times {
            connect: Duration::from_millis(config.connect_timeout_ms),
            request: Duration::from_millis(config.request_timeout_ms),
        };
        let Some(path) = config.cafile.clone() else {
            return Ok(Self::System(times.client(None)?));
        };
        let load = {
            let path = path.clone();
            move |_: Option<&reqwest::Client>| times.client(Some(&path))
        };
        Ok(Self::Own(FileBacked::load(vec![path], load)?))
    }

    /// The client in force. It shares its connections with its copies.
    pub(crate) fn current(&self) -> reqwest::Client {
        match self {
            Self::System(client) => client.clone(),
            Self::Own(client) => (*client.current()).clone(),
        }
    }

    /// Whether there is a file with authorities.
    pub(crate) fn has_authorities(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    /// Reads the file of authorities again if it has changed. Blocks.
    pub(crate) fn look(&self) -> Result<(), SetupError> {
        match self {
            Self::System(_) => Ok(()),
            Self::Own(client) => told(client.check()),
        }
    }

    /// Reads the file of authorities again if it has changed since it was read. Blocks.
    pub(crate) fn reread_if_changed(&self) -> Result<(), SetupError> {
        match self {
            Self::System(_) => Ok(()),
            Self::Own(client) => told(client.reread_if_changed()),
        }
    }

    /// Reads the file of authorities again. Blocks.
    pub(crate) fn reread(&self) -> Result<(), SetupError> {
        match self {
            Self::System(_) => Ok(()),
            Self::Own(client) => told(client.reread()),
        }
    }
}

fn told(outcome: Outcome<SetupError>) -> Result<(), SetupError> {
    match outcome {
        Outcome::Invalid(error) => Err(error),
        Outcome::Replaced => {
            tracing::info!("read the authorities of Keystone's certificate again");
            Ok(())
        }
        Outcome::Unchanged | Outcome::Changing => Ok(()),
    }
}

/// Time-outs of the client.
#[derive(Clone, Copy)]
struct Times {
    connect: Duration,
    request: Duration,
}

impl Times {
    fn client(self, cafile: Option<&Path>) -> Result<reqwest::Client, SetupError> {
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("placewright/", env!("CARGO_PKG_VERSION")))
            // Neither a proxy from the environment nor a redirect target may see tokens.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.connect)
            .timeout(self.request);
        if let Some(path) = cafile {
            let settings = ClientSettings {
                authorities: read_authorities(path)?,
                identity: None,
                protocols: vec![b"http/1.1".to_vec()],
            };
            let config = settings.config();
            let config = config.map_err(|fault| FileError::new(path, fault))?;
            http = http.tls_backend_preconfigured(config);
        }
        http.build()
            .map_err(|error| SetupError::Client(error.into()))
    }
}
