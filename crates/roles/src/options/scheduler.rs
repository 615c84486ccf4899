//! The options of the scheduler API.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::kinds::{ClientCertificateMode, Number, PlainHttpMode};
use super::spec::section;

section! {
    /// The scheduler's own API (`docs/scheduler-api.md`), beside the Placement API in the same process:
    /// on the same state, with the same limits, authentication and policies.
    scheduler: SchedulerOptions {
        /// Address and port to listen on, 127.0.0.1:8779 for example. Not set: there is no scheduler API.
        listen: Option<SocketAddr> = "";
        /// For how long a candidate can be claimed after it was offered.
        #[unit("milliseconds")]
        candidates_kept_ms: Number<0, 86_400_000> = "300000";
        /// Most candidates that are kept; the oldest ones are dropped first. Each takes some 500 bytes.
        #[unit("candidates")]
        candidates_kept_max: Number<1, 100_000_000> = "1000000";
        /// A file with filters, weighers, pre-filters, expressions and device aliases; `placewright config scheduler`
        /// prints one with all defaults. Not set: the defaults.
        rules_file: Option<PathBuf> = "";
        /// A file with the certificate (PEM) that the scheduler's API shows, then those of the authorities between it
        /// and the root. With it the port takes HTTPS; docs/operations.md, "TLS". Not set: HTTP only.
        tls_certificate: Option<PathBuf> = "";
        /// The file with the private key of the certificate. Not set: the key is in the file `tls_certificate`, too.
        tls_key: Option<PathBuf> = "";
        /// A file with the authorities (PEM) that sign clients' certificates, with their revocation lists, if any.
        tls_client_ca: Option<PathBuf> = "";
        /// Whether clients show a certificate: `off` requests none, `optional` refuses certificates that are not
        /// valid, `required` also refuses clients without one.
        tls_client_certificates: ClientCertificateMode = "off";
        /// Whether HTTP without TLS is served on the same port, or refused with 400.
        tls_plain: PlainHttpMode = "allow";
    }
}
