//! The options of the page.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::kinds::{ClientCertificateMode, PlainHttpMode};
use super::spec::section;

section! {
    /// The page for operators and tenants (`docs/ui.md`), at `/ui/` of a listener of its own. It gets all data from
    /// the other APIs, with the rights of the user who signed in to it; those of placement and of the scheduler are
    /// reached below `/ui/api/`, also without a listener of their own.
    ui: UiOptions {
        /// Address and port to listen on, 127.0.0.1:8770 for example. Not set: `placewright up` takes that address, or a
        /// free port; with other commands there is no page.
        listen: Option<SocketAddr> = "";
        /// A file with the certificate (PEM) that the listener of the page shows, then those of the authorities between
        /// it and the root. With it the port takes HTTPS; docs/operations.md, "TLS". Not set: HTTP only.
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
