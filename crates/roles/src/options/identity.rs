//! The options of the Identity API.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::kinds::{ClientCertificateMode, Number, PlainHttpMode};
use super::spec::section;

section! {
    /// The installation's own identity API (docs/identity.md), for `auth.strategy = "identity"`: users, projects, roles
    /// and tokens, as clients of OpenStack Identity v3 expect them.
    identity: IdentityOptions {
        /// Address and port to listen on. 5000 is Keystone's port in OpenStack. Not set: `placewright up` takes
        /// 127.0.0.1:5000, or a free port; with other commands there is no identity API.
        listen: Option<SocketAddr> = "";
        /// Scheme and host that clients use (`https://cloud.example:5000`), if they differ from those in the requests
        /// that arrive, as behind a proxy.
        public_url: Option<String> = "";
        /// The file that the credentials of the first administrator are written to, when there is no user yet: a
        /// `clouds.yaml` for clients. Not set: `clouds.yaml` in the folder of `placewright up`; of other commands a
        /// file beside the store's directory with its name and `.clouds.yaml`, such as `placement.clouds.yaml`.
        clouds_file: Option<PathBuf> = "";
        /// How long a token is valid.
        #[unit("seconds")]
        token_lifetime_s: Number<60, 86_400> = "3600";
        /// The name of the only region in the catalog.
        region: String = "RegionOne";
        /// Most passwords that are checked at a time. A check takes 19 MiB of memory. 0: one for two processors.
        #[unit("checks")]
        checks_max: Number<0, 1_024> = "0";
        /// Most passwords that wait to be checked, in each class of priority. A further one gets 503.
        #[unit("passwords")]
        waiting_max: Number<1, 1_000_000> = "256";
        /// Most passwords of one address that wait to be checked. A further one gets 429.
        #[unit("passwords")]
        waiting_per_source_max: Number<1, 1_000_000> = "64";
        /// Wrong passwords that an address may send in a burst.
        #[unit("passwords")]
        failures_burst: Number<1, 1_000_000> = "100";
        /// Wrong passwords that an address may send each minute after that.
        #[unit("passwords")]
        failures_per_minute: Number<1, 1_000_000> = "60";
        /// Wrong passwords that an address may send in a burst for one name. A further password gets 429, and is not
        /// checked. Nobody else waits, and from elsewhere the user of that name signs in as ever.
        #[unit("passwords")]
        name_failures_burst: Number<1, 1_000_000> = "10";
        /// Wrong passwords that an address may send each minute after that for one name.
        #[unit("passwords")]
        name_failures_per_minute: Number<1, 1_000_000> = "10";
        /// How long a verified password is accepted without another slow check.
        #[unit("seconds")]
        cache_seconds: Number<0, 86_400> = "300";
        /// Most verified passwords that are remembered, as keyed hashes.
        #[unit("passwords")]
        cache_entries: Number<1, 10_000_000> = "1024";
        /// A file with the certificate (PEM) that the identity API shows, then those of the authorities between it
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
