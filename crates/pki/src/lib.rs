//! Certificates of the roles of an installation.
//!
//! - [`Authority`]: a small authority in a folder. It issues, renews and revokes, and keeps what it did.
//! - [`invitation`]: one-time words with which somebody new gets a first certificate.
//! - [`holder`]: the folder in which a role has its certificate, its key and the authorities it trusts.
//! - [`Credentials`]: such a folder loaded, as configurations of TLS, and loaded again when it changes.
//! - [`CertificateFacts`]: what a certificate says.
//!
//! What the names in certificates allow is in `placewright_identity`. An operator's own authority
//! serves as well: a holder's folder does not tell who signed.

mod authority;
mod certificate;
mod clock;
mod credentials;
mod enrolment;
mod error;
mod files;
pub mod holder;
pub mod invitation;
mod ledger;
mod renewals;
mod request;
mod verify;

pub use authority::{AUTHORITY_LIFE, Authority, Grant, Issued, LIFE};
pub use certificate::CertificateFacts;
pub use clock::{SKEW, now};
pub use credentials::{Credentials, Loaded};
pub use enrolment::{enrolled, pinned_client};
pub use error::PkiError;
pub use ledger::{Entry, Revocation};
pub use renewals::{RENEWED_MAX, Renewals};
pub use request::{KeyRequest, REQUEST_BYTES_MAX};
pub use rustls::pki_types::CertificateDer;
