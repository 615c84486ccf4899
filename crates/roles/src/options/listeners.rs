//! The options that the listeners share: health, TLS, admission control, cross-origin requests.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::kinds::{ClientCertificateMode, Number, PlainHttpMode};
use super::spec::section;

section! {
    /// Health checks and metrics on a port of their own: a thread of its own answers them while everything else is
    /// busy, and clients of other ports cannot use up its connections.
    health: HealthOptions {
        /// Address and port (HTTP) for `/healthz`, `/readyz` and `/metrics`, 127.0.0.1:8777 for example.
        /// No authentication. Not set: `placewright up` takes that address, or a free port; other commands have none.
        listen: Option<SocketAddr> = "";
        /// Whether the ports of the APIs show `/metrics` too, to everybody who reaches them. They always show
        /// `/healthz` and `/readyz`.
        metrics_on_apis: bool = "false";
        /// A file with the certificate (PEM) that the health listener shows, then those of the authorities between it
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

section! {
    /// The options that all listeners with TLS share (those with a `tls_certificate`, and those on which roles reach
    /// each other), and how often files are checked for changes.
    tls: TlsOptions {
        /// Most TLS handshakes under way at a time, of all APIs together; each port on which roles reach each other
        /// has as many of its own. Further handshakes wait; after a second of waiting, the oldest handshake that waits
        /// for its client is ended for them.
        #[unit("handshakes")]
        handshakes_max: Number<1, 100_000> = "1024";
        /// Most TLS handshakes of one peer that are under way at a time. Further ones wait in the same way.
        #[unit("handshakes")]
        handshakes_per_peer_max: Number<1, 100_000> = "128";
        /// Time that a handshake may take, including the time that it waits to begin.
        #[unit("milliseconds")]
        handshake_timeout_ms: Number<100, 600_000> = "10000";
        /// Threads that compute handshakes, apart from those of requests. 0: one for two processors.
        #[unit("threads")]
        handshake_threads: Number<0, 256> = "0";
        /// How often the files of certificates, keys and authorities, also those for Keystone, are checked for
        /// changes. A file that has changed is read again when the next check finds no further change.
        #[unit("milliseconds")]
        reload_check_ms: Number<100, 3_600_000> = "5000";
    }
}

section! {
    /// Admission control of the REST services (docs/limits.md): callers with the role `admin` or `service`
    /// have seats of their own, and all others share theirs fairly, by project and then by user.
    admission: AdmissionControlOptions {
        /// Whether there is admission control. Without it every request is carried out at once.
        enabled: bool = "true";
        /// Requests of administrators and services that run at a time. Further ones wait.
        #[unit("requests")]
        operator_seats: Number<1, 1_000_000> = "4096";
        /// Requests of tenants that run at a time, of kinds that take less than a millisecond of processor time; at
        /// most half of these seats for one project. 0: four for each processor, at least eight.
        #[unit("requests")]
        tenant_seats: Number<0, 1_000_000> = "0";
        /// Requests of tenants that run at a time, of kinds that take longer; one project may have all but one of
        /// these seats. Keep it below `placement.costly_running_max`. 0: one more than there are processors, or one if
        /// there is one processor.
        #[unit("requests")]
        tenant_costly_seats: Number<0, 10_000> = "0";
        /// Most requests of one project that wait. A further one gets 429.
        #[unit("requests")]
        queue_max: Number<1, 4_096> = "100";
        /// Time for which a request waits before it gets 429.
        #[unit("milliseconds")]
        queue_time_ms: Number<10, 600_000> = "2000";
    }
}

section! {
    /// Pages of other origins that may call the API from a browser (CORS).
    cors: CorsOptions {
        /// The origins, each as a browser sends it (`https://dashboard.example.com`), or `*`. None: no CORS.
        allowed_origins: Vec<String> = "";
        /// Whether the browser may send credentials.
        allow_credentials: bool = "true";
        /// Headers of answers that scripts may read.
        expose_headers: Vec<String> = "X-Auth-Token,X-Openstack-Request-Id,X-Subject-Token,X-Service-Token,OpenStack-API-Version";
        /// How long a browser may remember what it was allowed; 0: the header for it is left out.
        #[unit("seconds")]
        max_age_s: Number<0, 604_800> = "3600";
        /// Methods that may be used.
        allow_methods: Vec<String> = "GET,PUT,POST,DELETE,PATCH";
        /// Headers that may be sent besides the simple ones.
        allow_headers: Vec<String> = "X-Auth-Token,X-Openstack-Request-Id,X-Identity-Status,X-Roles,X-Service-Catalog,X-User-Id,X-Tenant-Id,OpenStack-API-Version";
    }
}
