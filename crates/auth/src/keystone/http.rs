//! The HTTP client to Keystone, and the authorities of its certificate.

use std::path::Path;
use std::time::Duration;

use placewright_tls::{ClientSettings, FileBacked, FileError, Outcome, read_authorities};

use crate::config::KeystoneConfig;
use crate::error::SetupError;

/// A client that trusts the system's authorities, or those in a file that is read again when it
/// changes.
pub(crate) enum Http {
    System(reqwest::Client),
    FromFile(FileBacked<reqwest::Client, SetupError>),
}

impl Http {
    /// Prepares the client; does not contact Keystone yet.
    pub(crate) fn new(config: &KeystoneConfig) -> Result<Self, SetupError> {
        // An error means that another thread has just installed a crypto provider, which is as good.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let time_outs = TimeOuts {
            connect: Duration::from_millis(config.connect_timeout_ms),
            request: Duration::from_millis(config.request_timeout_ms),
        };
        let Some(path) = config.cafile.clone() else {
            return Ok(Self::System(time_outs.build_client(None)?));
        };
        let load = {
            let path = path.clone();
            move |_: Option<&reqwest::Client>| time_outs.build_client(Some(&path))
        };
        Ok(Self::FromFile(FileBacked::load(vec![path], load)?))
    }

    /// The client with the authorities that were read last. Its copies share its connections.
    pub(crate) fn current(&self) -> reqwest::Client {
        match self {
            Self::System(client) => client.clone(),
            Self::FromFile(client) => (*client.current()).clone(),
        }
    }

    /// Whether there is a file with authorities.
    pub(crate) fn has_authorities(&self) -> bool {
        matches!(self, Self::FromFile(_))
    }

    /// Reads the file of authorities again if it has changed. A file that has changed again since the last call may
    /// still be written to, and is not read yet. Blocks.
    pub(crate) fn reread_if_settled(&self) -> Result<(), SetupError> {
        match self {
            Self::System(_) => Ok(()),
            Self::FromFile(client) => log_outcome(client.check()),
        }
    }

    /// Reads the file of authorities again if it has changed, even if it may still be being written. Blocks.
    pub(crate) fn reread_if_changed(&self) -> Result<(), SetupError> {
        match self {
            Self::System(_) => Ok(()),
            Self::FromFile(client) => log_outcome(client.reread_if_changed()),
        }
    }

    /// Reads the file of authorities again, whether it has changed or not. Blocks.
    pub(crate) fn reread(&self) -> Result<(), SetupError> {
        match self {
            Self::System(_) => Ok(()),
            Self::FromFile(client) => log_outcome(client.reread()),
        }
    }
}

/// Logs that the authorities were replaced, and returns the error of an invalid file.
fn log_outcome(outcome: Outcome<SetupError>) -> Result<(), SetupError> {
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
struct TimeOuts {
    connect: Duration,
    request: Duration,
}

impl TimeOuts {
    fn build_client(self, cafile: Option<&Path>) -> Result<reqwest::Client, SetupError> {
        let mut builder = reqwest::Client::builder()
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
            let config = config.map_err(|error| FileError::new(path, error))?;
            builder = builder.tls_backend_preconfigured(config);
        }
        builder
            .build()
            .map_err(|error| SetupError::Client(error.into()))
    }
}
