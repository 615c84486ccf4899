//! The options of the Compute API.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::kinds::{ClientCertificateMode, Number, PlainHttpMode, QuotaDefaults, QuotaDriver};
use super::spec::section;

section! {
    /// The compute API (`docs/compute-api.md`): servers, flavors, server groups, aggregates, services,
    /// hypervisors and migrations of OpenStack Compute v2.1.
    compute: ComputeApiOptions {
        /// Address and port to listen on, 127.0.0.1:8774 for example. Not set: there is no compute API.
        listen: Option<SocketAddr> = "";
        /// Scheme and host that clients use (`https://cloud.example:8774`), if they differ from those in the requests
        /// that arrive, as behind a proxy.
        public_url: Option<String> = "";
        /// A file with the properties of images, as the image service lists them (`GET /v2/images`). They take part in
        /// choosing hosts and in deciding about rebuilds. Read again when it changes. Not set: every UUID is an image
        /// without properties.
        images_file: Option<PathBuf> = "";
        /// A file with the device profiles that flavors name (`accel:device_profile`), as the accelerator service lists
        /// them (`GET /v2/device_profiles`). Read again when it changes. Not set: a flavor that names one cannot be used.
        device_profiles_file: Option<PathBuf> = "";
        /// The longest body of a request that creates a server or does something with one (`POST
        /// /servers`, `POST /servers/{server_id}/action`). User data have 65,535 bytes of it at most.
        #[unit("bytes")]
        server_body_bytes_max: Number<1_024, 16_777_216> = "262144";
        /// The longest body of any other request.
        #[unit("bytes")]
        body_bytes_max: Number<1_024, 16_777_216> = "131072";
        /// The most bytes that the records of all servers of one `POST /servers` (Nova: of one reservation) have
        /// together: control keeps one record for all servers, but a cell gets one for each.
        #[unit("bytes")]
        reservation_bytes_max: Number<65_536, 1_073_741_824> = "67108864";
        /// The most bytes of a request's scheduler hints, names and values together. Topology rules do not count.
        #[unit("bytes")]
        hint_bytes_max: Number<0, 16_777_216> = "16384";
        /// The most parameters that a query may have.
        parameters_max: Number<8, 1_000> = "64";
        /// The longest regular expression in a query (`name=` of a list of servers).
        #[unit("characters")]
        pattern_chars_max: Number<1, 4_096> = "255";
        /// How long one list of servers may match names and descriptions against regular expressions.
        #[unit("milliseconds")]
        match_ms_max: Number<1, 600_000> = "1000";
        /// The most bytes of one page of servers: a page that gets longer ends there, with a link to the next, however
        /// many servers were requested.
        #[unit("bytes")]
        page_bytes_max: Number<65_536, 1_073_741_824> = "4194304";
        /// The most bytes that the records of a project's servers may have together: what was specified for each when
        /// it was created, rebuilt or labelled, and 2,048 bytes more for each server.
        #[unit("bytes")]
        project_bytes_max: Number<65_536, 1_099_511_627_776> = "67108864";
        /// The most key pairs that a user may have.
        keypairs_max: Number<0, 1_000_000> = "500";
        /// The most server groups that a project may have.
        server_groups_max: Number<0, 1_000_000> = "1000";
        /// The most members that a server group may have.
        server_group_members_max: Number<1, 1_000_000> = "2000";
        /// The levels of the topology that users see (`GET /v2.1/placewright/topology`) and may name in topology rules:
        /// `rack`, `row` …, or `*` for all. Rules that name another level are refused. Single hosts (`host`) may always
        /// be meant, and administrators see all levels. Rules in flavors, which administrators make, may name any.
        topology_levels: Vec<String> = "";
        /// The levels among `topology_levels` whose places users see by name and may name as wishes (`place=rack-12`),
        /// or `*` for all of these.
        topology_places: Vec<String> = "";
        /// A file with the certificate (PEM) that the compute API shows, then those of the authorities between it
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
        /// Where the quotas of projects come from: `local` is this API (`/os-quota-sets`) with
        /// `quota_defaults`, `unified` is Keystone's limits for the service of type `compute`.
        quota_driver: QuotaDriver = "local";
        /// The quotas of projects that have none of their own: `instances=10`, `cores=20`, `ram=51200` (MiB),
        /// `key_pairs`, `server_groups`, `server_group_members`, and `class:NAME` for a resource class. -1 means
        /// unlimited, and so are resources that are not named.
        quota_defaults: QuotaDefaults = "";
        /// With `unified`: the region whose limits apply. Not set: those of all regions apply, and where several limit
        /// the same resource, the lowest.
        quota_region: Option<String> = "";
        /// With `unified`: how often the limits are read from Keystone, and so how old they may be. While Keystone
        /// does not answer, the last known limits apply.
        #[unit("seconds")]
        quota_refresh_s: Number<1, 86_400> = "30";
    }
}
