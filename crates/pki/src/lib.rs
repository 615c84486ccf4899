//! Certificates of the roles of an installation.
//!
//! - [`Authority`]: a certificate authority in a folder. It issues, renews and revokes certificates, and records all of
//!   this in a register.
//! - [`invitation`]: one-time words with which a new role gets its first certificate.
//! - [`holder`]: the folder in which a role has its certificate, its key and the authorities it trusts.
//! - [`Credentials`]: such a folder as TLS configurations, loaded again when it changes.
//! - [`CertificateFacts`]: the parsed fields of a certificate.
//!
//! `placewright_identity` defines which calls the names in a certificate allow. An authority of the operator's own
//! can be used instead of [`Authority`]: a holder's folder has the same content then.

mod authority;
mod certificate;
mod clock;
mod credentials;
mod enrolment;
mod error;
mod files;
pub mod holder;
pub mod invitation;
mod register;
mod renewals;
mod request;
mod verify;

pub use authority::{AUTHORITY_LIFE, Authority, Grant, Issued, LIFE};
pub use certificate::CertificateFacts;
pub use clock::{SKEW, now};
pub use credentials::{Credentials, LoadedCredentials};
pub use enrolment::{check_enrolment, pinned_client};
pub use error::PkiError;
pub use register::{RegisterEntry, Revocation};
pub use renewals::{RENEWED_MAX, Renewals};
pub use request::{KeyRequest, SIGNING_REQUEST_BYTES_MAX};
pub use rustls::pki_types::CertificateDer;
