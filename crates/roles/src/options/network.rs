//! The options of the Network API.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::kinds::{ClientCertificateMode, PlainHttpMode};
use super::spec::section;

section! {
    /// The network API (`docs/compute-api.md`, "Networks"): the part of OpenStack Networking that clients read before
    /// they do anything else. All its lists are empty, because Placewright has no networks. While this API is enabled,
    /// the compute API refuses to create a server that requests networks or ports, except for ports with a resource
    /// request.
    network: NetworkApiOptions {
        /// Address and port to listen on, 127.0.0.1:9696 for example. Not set: there is no network API.
        listen: Option<SocketAddr> = "";
        /// Scheme and host that clients use (`https://cloud.example:9696`), if they differ from those in the requests
        /// that arrive, as behind a proxy. The catalog of `auth.strategy = "identity"` names them.
        public_url: Option<String> = "";
        /// A file with the certificate (PEM) that the network API shows, then those of the authorities between it
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
