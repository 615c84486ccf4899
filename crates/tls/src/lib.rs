//! TLS with rustls: certificates, keys and authorities from PEM files, configurations of servers and
//! clients, and reading the files again without closing connections.
//!
//! - [`Identity`] is a certificate chain with its key; [`Authorities`] are the certificates and
//!   revocation lists against which peers are verified. Both are made from bytes without I/O;
//!   [`IdentityFiles`] and [`read_authorities`] read files, and their errors name the file.
//! - [`ServerSettings`] and [`ClientSettings`] make configurations of rustls: TLS 1.2 and 1.3 with the
//!   cipher suites of ring, all of which have authenticated encryption and forward secrecy.
//! - [`PeerNames`] are the names in a verified peer's certificate, [`Validity`] the time in which it
//!   is valid.
//! - [`ServerFiles`] makes a server's configuration from files; [`FileBacked`] is a value that is loaded
//!   from files and again when they change. A file that is not valid changes nothing.
//!
//! ```no_run
//! use placewright_tls::{ClientCertificates, IdentityFiles, ServerSettings, Tickets, read_authorities};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let files = IdentityFiles { certificate: "server.pem".into(), key: "server.key".into() };
//! let server = ServerSettings {
//!     identity: files.read()?,
//!     clients: ClientCertificates::Required(read_authorities("clients.pem".as_ref())?),
//!     protocols: vec![b"h2".to_vec()],
//!     tickets: Tickets::new()?,
//! };
//! let config = server.config()?;
//! # Ok(()) }
//! ```

mod authorities;
mod client;
mod der;
mod error;
mod file_backed;
mod files;
mod identity;
mod names;
mod provider;
mod server;
mod server_files;
mod validity;

pub use authorities::Authorities;
pub use client::ClientSettings;
pub use error::{FileError, TlsError};
pub use file_backed::{FileBacked, Outcome};
pub use files::{IdentityFiles, others_may_read, read_authorities};
pub use identity::Identity;
pub use names::PeerNames;
pub use provider::provider;
pub use rustls;
pub use server::{ClientCertificates, ServerSettings, Tickets};
pub use server_files::{ClientFiles, LoadedServer, ServerFiles};
pub use validity::Validity;
