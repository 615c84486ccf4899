//! The table of all options: one entry makes a key of the configuration file, an environment variable, a flag, a line of
//! `--help` and a row of docs/configuration.md. Code reads the value of an option as a field of [`Options`];
//! `config/reads.rs` says which commands read the option.

mod directories;
mod kinds;
mod spec;

use std::net::SocketAddr;
use std::path::PathBuf;

use uuid::Uuid;

pub(crate) use directories::SQLITE_SCHEME;
pub use kinds::{
    Addresses, AuditDestination, AuthStrategy, CandidateStrategy, CellAddresses,
    ClientCertificateMode, DriverKind, LogFormat, Number, OptionType, PlainMode, QuotaDefaults,
    QuotaDriver, Ratio, UserDataUntil, UserGrants, ValueSyntax,
};
use spec::options;
pub use spec::{OptionSpec, SectionSpec};

options! {
    /// The Placement API: where it listens, what it allows its clients, how it searches candidates.
    placement: PlacementOptions {
        /// Address and port to listen on. 8778 is Placement's port in OpenStack.
        listen: SocketAddr = "127.0.0.1:8778";
        /// Most connections at the same time of each of the APIs: placement, scheduler, compute, identity, image and
        /// network, and of the page. For a further connection, an idle one of the peer with the most connections is
        /// closed; while none is idle, the further one waits. If there are too few file descriptors, the limit is
        /// lower, and the log says so.
        #[unit("connections")]
        connections_max: Number<1, 1_000_000> = "4096";
        /// Most connections of one peer, which is an IPv4 address or a /64 network of IPv6. A further connection
        /// replaces one that was never used; if there is none, the further one gets 503. Behind a proxy, all clients
        /// have one address: set the limit to `connections_max` there. 0: no limit.
        #[unit("connections")]
        connections_per_peer_max: Number<0, 1_000_000> = "2048";
        /// Largest body of a request. A larger one gets 413.
        #[unit("bytes")]
        body_bytes_max: Number<1_024, 1_073_741_824> = "8388608";
        /// Largest head of a request: its first line with all headers. A larger one gets 431.
        #[unit("bytes")]
        head_bytes_max: Number<8_192, 1_048_576> = "65536";
        /// Time that a client has for the first byte of a new connection.
        #[unit("milliseconds")]
        first_byte_timeout_ms: Number<100, 86_400_000> = "10000";
        /// Time for which a connection is kept after an answer when no further request comes.
        #[unit("milliseconds")]
        keep_alive_timeout_ms: Number<100, 86_400_000> = "75000";
        /// Time that a client has for sending the head of a request, counted from its first byte.
        #[unit("milliseconds")]
        head_timeout_ms: Number<100, 86_400_000> = "20000";
        /// Time that a client has for sending the body of a request. A slower one gets 408.
        #[unit("milliseconds")]
        body_timeout_ms: Number<100, 86_400_000> = "30000";
        /// Time for which a client may read nothing of an answer before it is disconnected.
        #[unit("milliseconds")]
        write_timeout_ms: Number<100, 86_400_000> = "30000";
        /// Time that requests under way have to end after SIGTERM or SIGINT.
        #[unit("milliseconds")]
        drain_timeout_ms: Number<0, 86_400_000> = "30000";
        /// Most costly requests that run at a time: searches, long lists, large bodies. They have
        /// threads of their own, and callers take turns. 0: two for each processor.
        #[unit("requests")]
        costly_running_max: Number<0, 10_000> = "0";
        /// Most costly requests of one project that wait for their turn. A further one gets 503.
        #[unit("requests")]
        costly_waiting_per_caller_max: Number<1, 1_000_000> = "256";
        /// Most costly requests of all callers that wait for their turn. A further one gets 503.
        #[unit("requests")]
        costly_waiting_max: Number<1, 1_000_000> = "4096";
        /// Most entries of one write: allocated amounts, inventories, traits and aggregates together. All other writes
        /// wait while one is decided, so a larger one gets 413.
        #[unit("entries")]
        entries_max: Number<100, 1_000_000> = "10000";
        /// Most request groups of one query for allocation candidates, and most resource classes of the group without
        /// suffix. A query with more gets 400.
        #[unit("groups")]
        groups_max: Number<2, 1_000> = "128";
        /// Largest answer of the Placement API. A request for more gets 400.
        #[unit("bytes")]
        answer_bytes_max: Number<1_048_576, 17_179_869_184> = "134217728";
        /// Most memory of all large answers together that their clients have not read yet. Further large answers get
        /// 503. Lists of servers of one project may use at most a quarter of this memory.
        #[unit("bytes")]
        answers_bytes_max: Number<1_048_576, 17_179_869_184> = "134217728";
        /// Most memory of all request bodies of more than 16 KiB together, from the first byte of a body until its
        /// request is answered. Those of one project may use at most a quarter of this memory. Further bodies wait,
        /// and get 503 when there is no room within `body_timeout_ms`.
        #[unit("bytes")]
        bodies_bytes_max: Number<1_048_576, 17_179_869_184> = "67108864";
        /// Time that requests under way have to end, in place of `drain_timeout_ms`, when the connections go to the
        /// next process: at a restart by systemd, or with `control.take_over`. New requests wait meanwhile.
        #[unit("milliseconds")]
        hand_over_timeout_ms: Number<0, 86_400_000> = "5000";
        /// Most readers of the change stream at the same time. A further reader gets 503. A reader that reads nothing
        /// for `write_timeout_ms` is disconnected.
        #[unit("readers")]
        followers_max: Number<0, 100_000> = "256";
        /// Whether an answer that `limit` cuts is a random sample of the allocation candidates.
        randomize_allocation_candidates: bool = "false";
        /// Most allocation candidates that one request makes; -1 means no limit.
        #[unit("candidates")]
        max_allocation_candidates: Number<-1, 9_223_372_036_854_775_807> = "-1";
        /// Order of the search: all candidates of one root provider before the next, or one of each in turn.
        allocation_candidates_generation_strategy: CandidateStrategy = "depth-first";
        /// Project of consumers that were written without one (microversions below 1.8).
        incomplete_consumer_project_id: String = "00000000-0000-0000-0000-000000000000";
        /// User of consumers that were written without one (microversions below 1.8).
        incomplete_consumer_user_id: String = "00000000-0000-0000-0000-000000000000";
        /// A file with the certificate (PEM) that the Placement API shows, then those of the authorities between it
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
        tls_plain: PlainMode = "allow";
    }

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
        tls_plain: PlainMode = "allow";
    }

    /// Control's part in building instances: the cells that it has, and how it deals with them. Without cells,
    /// `listen`, and the compute, image and identity APIs, only placement and the scheduler run.
    control: ControlOptions {
        /// The cells, as NAME=UUID@HOST:PORT; one of several replicas as NAME=UUID@HOST:PORT+HOST:PORT, with the addresses
        /// of all. `placewright cell` logs its UUID and address when it starts.
        cells: CellAddresses = "";
        /// Address and port (gRPC) on which cells reach placement, 127.0.0.1:8775 for example. Not set: only cells in
        /// the same process reach placement.
        listen: Option<SocketAddr> = "";
        /// The folder of control's certificate (`identity.pem`, `ca.pem`, `crl.pem`; docs/operations.md,
        /// "Identities"). With it, connections with cells use TLS, and a cell may make the calls that its certificate
        /// allows. Not set: `control` in `control.authority_path`, if that is set.
        identity_path: Option<PathBuf> = "";
        /// The folder of the installation's authority (`placewright pki init`). With it, control renews
        /// the certificates of cells and agents, and lets new ones enrol.
        authority_path: Option<PathBuf> = "";
        /// A file with a secret of 16 characters or more that control, cells and agents share, for loopback. With it,
        /// control refuses cells on loopback that do not send the secret, and sends it to the cells that it calls.
        token_file: Option<PathBuf> = "";
        /// HOST:PORT at which the other replicas of control reach this process's `listen`. With it, this process is one
        /// of several on one journal (`store.url`, not `sqlite:`), and each of them takes all requests. They need the
        /// same `secrets.key_file`, or commands that print the same keys. Not set: this process is the only one.
        replica_address: Option<String> = "";
        /// Most connections of cells at the same time.
        #[unit("connections")]
        connections_max: Number<1, 1_000_000> = "1024";
        /// Most connections with one peer at the same time. 0: no limit.
        #[unit("connections")]
        connections_per_peer_max: Number<0, 1_000_000> = "512";
        /// Time within which a caller that connected has to make a call that it may make, or it is disconnected. Its
        /// first byte has to come within a third of this time.
        #[unit("milliseconds")]
        first_call_timeout_ms: Number<100, 3_600_000> = "30000";
        /// Whether to replace the control process that runs on the same store, if there is one: that process hands
        /// over its sockets, completes its requests and ends. No client is refused meanwhile.
        take_over: bool = "false";
        /// How many alternates a build has: further hosts in the cell of the chosen one, which are tried when the
        /// build fails.
        #[unit("hosts")]
        alternates: Number<0, 100> = "2";
        /// Whether a resize may choose the host where the instance is.
        resize_to_same_host: bool = "true";
        /// A cell that sent nothing for this long is down: its instances are UNKNOWN, and new ones go elsewhere.
        #[unit("milliseconds")]
        cell_down_after_ms: Number<2_000, 3_600_000> = "5000";
        /// Time within which a cell has to answer.
        #[unit("milliseconds")]
        cell_answer_timeout_ms: Number<100, 600_000> = "10000";
        /// A message to a cell that was not answered, or whose work is not finished, is sent again after this time,
        /// and then after twice as long each time, up to a minute.
        #[unit("milliseconds")]
        resend_ms: Number<100, 60_000> = "5000";
    }

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
        tls_plain: PlainMode = "allow";
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
        /// `clouds.yaml` for clients. Not set: `clouds.yaml` in the folder of `placewright up`; of other commands
        /// `control.clouds.yaml`, beside `store.path`.
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
        tls_plain: PlainMode = "allow";
    }

    /// The image API (`docs/image-api.md`): what clients need of OpenStack Image v2, with the bytes of images in a
    /// folder. With it, servers are created of the images that it has, and no others.
    image: ImageApiOptions {
        /// Address and port to listen on, 127.0.0.1:9292 for example. Not set: there is no image API.
        listen: Option<SocketAddr> = "";
        /// Scheme and host that clients use (`https://cloud.example:9292`), if they differ from those in the requests
        /// that arrive, as behind a proxy. The catalog of `auth.strategy = "identity"` names them.
        public_url: Option<String> = "";
        /// The folder with the bytes of images, made when missing: a file for each, named by its UUID. Replicas of control
        /// share one. Not set: `images` in the folder of the store.
        folder: Option<PathBuf> = "";
        /// The most images that a project may have.
        #[unit("images")]
        images_max: Number<0, 1_000_000> = "1000";
        /// The most bytes that a project's images may have together, those that are arriving counted.
        #[unit("bytes")]
        project_bytes_max: Number<0, 1_125_899_906_842_624> = "1099511627776";
        /// The most bytes of one image.
        #[unit("bytes")]
        image_bytes_max: Number<1, 1_125_899_906_842_624> = "274877906944";
        /// How many bytes uploads leave free in the file system of the folder.
        #[unit("bytes")]
        free_bytes_min: Number<0, 1_125_899_906_842_624> = "1073741824";
        /// The most uploads at the same time, and the most downloads. A project has a quarter of them at most.
        #[unit("transfers")]
        transfers_max: Number<4, 10_000> = "64";
        /// A file with the certificate (PEM) that the image API shows, then those of the authorities between it
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
        tls_plain: PlainMode = "allow";
    }

    /// The network API (`docs/compute-api.md`, "Networks"): what clients ask of OpenStack Networking before they do
    /// anything else. There are no networks in it; with it, a server that asks for one is refused.
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
        tls_plain: PlainMode = "allow";
    }

    /// The page for operators and tenants (`docs/ui.md`), at `/ui/` of a listener of its own. What it shows it asks of the
    /// other APIs, with the rights of the user who signed in to it; those of placement and of the scheduler are reached
    /// below `/ui/api/`, also without a listener of their own.
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
        tls_plain: PlainMode = "allow";
    }

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
        tls_plain: PlainMode = "allow";
    }

    /// What the listeners with TLS share (those with a `tls_certificate`, and those on which roles reach each other),
    /// and how often files are checked for changes.
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

    /// Admission control of the REST services (docs/limits.md): callers with the role `admin` or `service`
    /// have seats of their own, and all others share theirs fairly, by project and then by user.
    admission: AdmissionControlOptions {
        /// Whether there is admission control. Without it every request is carried out at once.
        enabled: bool = "true";
        /// Requests of administrators and services that run at a time. Further ones wait.
        #[unit("requests")]
        operator_seats: Number<1, 1_000_000> = "4096";
        /// Requests of tenants that run at a time, of kinds that take less than a millisecond of a processor; at most
        /// half of these seats for one project. 0: four for each processor, at least eight.
        #[unit("requests")]
        tenant_seats: Number<0, 1_000_000> = "0";
        /// Requests of tenants that run at a time, of kinds that take longer; one project may have all but one of
        /// these seats. Keep it below `placement.costly_running_max`. 0: one more than there are processors.
        #[unit("requests")]
        tenant_costly_seats: Number<0, 10_000> = "0";
        /// Most requests of one project that wait. A further one gets 429.
        #[unit("requests")]
        queue_max: Number<1, 4_096> = "100";
        /// Time for which a request waits before it gets 429.
        #[unit("milliseconds")]
        queue_time_ms: Number<10, 600_000> = "2000";
    }

    /// The store: where the journal is kept, and how often a snapshot of the state is made.
    store: StoreOptions {
        /// The store's directory, created when missing; one program at a time may use it. Not set means `placement` in
        /// systemd's `$STATE_DIRECTORY`, else in `placewright-data` in the working directory.
        path: Option<PathBuf> = "";
        /// Where the journal is kept, if not in `path`: `sqlite:DIRECTORY`, `etcd://HOST:PORT,HOST:PORT/PREFIX`, or
        /// `postgresql://HOST,HOST/DATABASE` (docs/operations.md). `path` then has only what belongs to this machine.
        url: Option<String> = "";
        /// Most bytes that the journal's file may grow to; -1 means as large as the disk allows. A write that would
        /// exceed this gets 503, reads go on.
        #[unit("bytes")]
        file_bytes_max: Number<-1, 9_223_372_036_854_775_807> = "-1";
        /// A snapshot of the state is made in the background after this many journal entries, or
        /// after `snapshot_bytes`. More often: a faster start. Less often: less writing.
        #[unit("entries")]
        snapshot_entries: Number<1, 9_223_372_036_854_775_807> = "1000000";
        /// A snapshot is made after this many bytes of journal entries, or after as many as the newest
        /// snapshot has, if these are more.
        #[unit("bytes")]
        snapshot_bytes: Number<4_096, 9_223_372_036_854_775_807> = "67108864";
        /// Snapshots kept, with all entries after the oldest of them, so that one damaged snapshot loses nothing.
        #[unit("snapshots")]
        snapshots_kept: Number<1, 1_000> = "2";
        /// How many of the newest entries readers of the change stream can always resume from.
        #[unit("entries")]
        retain_entries: Number<0, 9_223_372_036_854_775_807> = "100000";
        /// Memory for the newest entries, so that readers of the change stream seldom touch the disk.
        #[unit("bytes")]
        recent_bytes: Number<0, 17_179_869_184> = "16777216";
        /// Most writes that may wait for their turn. A further one gets 503.
        #[unit("writes")]
        queue_commands_max: Number<1, 10_000_000> = "65536";
        /// Largest record that one write may make in the journal. A larger one gets 413 and changes nothing.
        #[unit("bytes")]
        record_bytes_max: Number<65_536, 536_870_912> = "16777216";
        /// Most writes in one append to the journal, so in one fsync.
        #[unit("writes")]
        batch_commands_max: Number<1, 1_000_000> = "4096";
    }

    /// Who is calling: how the identity of a client is found out.
    auth: AuthOptions {
        /// `noauth2` believes what the client says (loopback only), `http_basic` checks passwords against an htpasswd
        /// file, `keystone` validates tokens with a Keystone v3 API, `identity` accepts the tokens of the installation's
        /// own identity API (docs/identity.md). Not set: `placewright up` takes `identity`.
        strategy: AuthStrategy = "noauth2";
        /// Lets `noauth2`, and control and cells without certificates, listen on an address that other machines reach.
        /// Everybody who reaches it may then do everything.
        i_know_this_is_open: bool = "false";
        /// Addresses of proxies in front of the service. Of a request that comes from one of them, `X-Forwarded-For`
        /// says from which address it really comes, and limits by address use that address.
        proxies: Addresses = "";
        /// Longest time that credentials wait for their check; then they get 503. Those of an address with too many
        /// wrong ones (`failures_burst`) wait first until the address may send another, and get 429 if that takes
        /// longer.
        #[unit("milliseconds")]
        wait_max_ms: Number<100, 600_000> = "10000";
        /// Most addresses, and names of users, whose wrong credentials are remembered.
        #[unit("addresses")]
        sources_max: Number<16, 10_000_000> = "65536";
        /// Most roles that a caller may claim to have, with `noauth2`. More get 431.
        #[unit("roles")]
        roles_max: Number<1, 10_000> = "100";
    }

    /// Users and passwords in a file, for `auth.strategy = "http_basic"`.
    http_basic: HttpBasicOptions {
        /// The file, as `htpasswd -B` writes it: lines `user:hash`, bcrypt only. A changed file is read again; while
        /// it is not valid, the users of the last valid file stay.
        user_file: Option<PathBuf> = "";
        /// What a browser shows when it asks for the password.
        realm: String = "Placement";
        /// The roles of users that `users` does not name.
        roles: Vec<String> = "admin,service";
        /// The project of users that `users` does not name. Not set: each of them has a project of its own, whose ID
        /// is made of the user's name.
        project_id: Option<String> = "";
        /// Users with roles or a project of their own. Without `@PROJECT_ID` the user has a project that no other user
        /// has, and whose ID is made of the user's name.
        users: UserGrants = "";
        /// For how long a password that was right is accepted without the slow check. A change of the user's line in
        /// the file ends this at once.
        #[unit("seconds")]
        cache_seconds: Number<0, 86_400> = "300";
        /// Most users whose last right password is remembered.
        #[unit("users")]
        cache_entries: Number<1, 1_000_000> = "1024";
        /// How often the file is checked for changes.
        #[unit("milliseconds")]
        reload_check_ms: Number<10, 86_400_000> = "1000";
        /// Most passwords that are checked at the same time. Each check keeps a processor busy for 0.05
        /// to 1 s. 0: half as many as there are processors.
        #[unit("checks")]
        checks_max: Number<0, 1_024> = "0";
        /// Most passwords that wait for their check, for each of three kinds of callers: those that were authenticated
        /// before, new ones, and those that often sent wrong passwords. A further password gets 503.
        #[unit("passwords")]
        waiting_max: Number<1, 100_000> = "256";
        /// Most passwords of one address that wait for their check. A further one gets 429.
        #[unit("passwords")]
        waiting_per_source_max: Number<1, 100_000> = "64";
        /// How many wrong passwords may come from one address at once. Further ones wait, behind those of others.
        /// Passwords that were right before are not delayed.
        #[unit("passwords")]
        failures_burst: Number<1, 1_000_000> = "10";
        /// How many wrong passwords may come from one address in a minute, after `failures_burst`.
        #[unit("passwords a minute")]
        failures_per_minute: Number<1, 60_000> = "60";
    }

    /// The Keystone that validates tokens, and the service user with which it is called, for `auth.strategy =
    /// "keystone"`.
    keystone: KeystoneOptions {
        /// Keystone's address, as `https://keystone.example.org:5000/v3`; `/v3` may be left out.
        auth_url: Option<String> = "";
        /// The address to which callers without a token are referred. Not set: `auth_url`.
        www_authenticate_uri: Option<String> = "";
        /// The name of the service user.
        username: Option<String> = "";
        /// The service user's password. Better: `password_file`.
        #[secret(true)]
        password: Option<String> = "";
        /// A file with the service user's password in its first line.
        password_file: Option<PathBuf> = "";
        /// The name of the service user's domain.
        user_domain_name: String = "Default";
        /// The service user's project. Not set: its token has system scope.
        project_name: Option<String> = "service";
        /// The name of the domain of the service user's project.
        project_domain_name: String = "Default";
        /// Authorities (PEM) of which one must have signed Keystone's certificate, instead of the system's.
        cafile: Option<PathBuf> = "";
        /// For how long a token that Keystone validated is accepted without another request. A revoked token may be
        /// accepted for so long. 0: always request.
        #[unit("seconds")]
        cache_seconds: Number<0, 86_400> = "300";
        /// For how long a refused token is refused without another request.
        #[unit("seconds")]
        negative_cache_seconds: Number<0, 86_400> = "10";
        /// Most validated tokens that are remembered.
        #[unit("tokens")]
        cache_entries: Number<1, 10_000_000> = "10000";
        /// Most refused tokens that are remembered.
        #[unit("tokens")]
        negative_cache_entries: Number<1, 10_000_000> = "1024";
        /// Roles of which a service token must have one.
        service_token_roles: Vec<String> = "service";
        /// Whether a service token without such a role is refused.
        service_token_roles_required: bool = "true";
        /// Longest time for connecting to Keystone.
        #[unit("milliseconds")]
        connect_timeout_ms: Number<10, 600_000> = "5000";
        /// Longest time for an answer of Keystone.
        #[unit("milliseconds")]
        request_timeout_ms: Number<10, 600_000> = "10000";
        /// Most requests to Keystone at the same time. Further ones wait.
        #[unit("requests")]
        requests_max: Number<1, 10_000> = "64";
        /// Most tokens that wait to be validated, for each of three kinds of callers: those that were authenticated
        /// before, new ones, and those that often sent wrong tokens. A further token gets 503.
        #[unit("tokens")]
        waiting_max: Number<1, 100_000> = "1024";
        /// Most tokens of one address that wait to be validated. A further token gets 429.
        #[unit("tokens")]
        waiting_per_source_max: Number<1, 100_000> = "512";
        /// How many wrong tokens may come from one address at once. Further ones wait, behind those of others. Tokens
        /// that were valid before are not delayed.
        #[unit("tokens")]
        failures_burst: Number<1, 1_000_000> = "256";
        /// How many wrong tokens may come from one address in a minute, after `failures_burst`.
        #[unit("tokens a minute")]
        failures_per_minute: Number<1, 60_000> = "600";
    }

    /// Policies: what a caller may do, in oslo.policy's language.
    policy: PolicyOptions {
        /// A `policy.yaml` that overrides the default rules; `placewright policy sample` prints one.
        file: Option<PathBuf> = "";
        /// Whether only the new default rules apply, without the deprecated rules beside them.
        enforce_new_defaults: bool = "true";
        /// Whether a token of the wrong scope (system, domain) is refused.
        enforce_scope: bool = "true";
    }

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

    /// One cell (`placewright cell`): its instances, and the agents of its hosts. The options of `[store]` but `path`
    /// are also those of its store.
    cell: CellOptions {
        /// The cell's UUID. Not set: a random one is created at the first start, and kept in the store.
        uuid: Option<Uuid> = "";
        /// Address and port (gRPC) on which control and agents reach the cell.
        listen: SocketAddr = "127.0.0.1:8780";
        /// Address and port (gRPC) on which control offers placement to the cell; those of several replicas of control
        /// with commas.
        placement: String = "127.0.0.1:8775";
        /// The store's directory, created when missing; one program at a time may use it. Not set means `cell` in
        /// systemd's `$STATE_DIRECTORY`, else in `placewright-data` in the working directory.
        store_path: Option<PathBuf> = "";
        /// Where the cell's journal is kept, if not in `store_path`, as in `store.url`; each cell needs a prefix or schema.
        store_url: Option<String> = "";
        /// HOST:PORT at which control, agents and the other replicas of this cell reach this process's `listen`. With it, this
        /// process is one of several on one journal (`cell.store_url`, not `sqlite:`), of which one leads. They
        /// need the same `secrets.key_file`, or commands that print the same keys. Not set: this process is the only
        /// one.
        replica_address: Option<String> = "";
        /// The folder of the cell's certificate (`identity.pem`, `ca.pem`, `crl.pem`; docs/operations.md,
        /// "Identities"). With it, connections with control and agents use TLS, and each of them may make the calls
        /// that its certificate allows.
        identity_path: Option<PathBuf> = "";
        /// A file with a secret of 16 characters or more that control, cells and agents share, for loopback. With it,
        /// the cell refuses callers on loopback that do not send the secret, and sends the secret when it calls
        /// placement.
        token_file: Option<PathBuf> = "";
        /// Address and port (HTTP) for `GET /metrics`, `/healthz` and `/readyz`, which a thread of its own answers.
        /// Not set: there is no such port.
        metrics_listen: Option<SocketAddr> = "";
        /// Most connections of agents and control at the same time.
        #[unit("connections")]
        connections_max: Number<1, 1_000_000> = "4096";
        /// Most connections with one peer at the same time. 0: no limit.
        #[unit("connections")]
        connections_per_peer_max: Number<0, 1_000_000> = "2048";
        /// Time within which a caller that connected has to make a call that it may make, or it is disconnected. Its
        /// first byte has to come within a third of this time.
        #[unit("milliseconds")]
        first_call_timeout_ms: Number<100, 3_600_000> = "30000";
        /// A host is down when its agent sent nothing for this long. Agents send at least three heartbeats in this
        /// time.
        #[unit("milliseconds")]
        host_timeout_ms: Number<1_000, 86_400_000> = "30000";
        /// Time that an agent has for each step of a build or move. Then the build goes to an alternate.
        #[unit("milliseconds")]
        step_timeout_ms: Number<1_000, 4_294_967_295> = "600000";
        /// A message that was not answered is sent again after this time, and then after twice as long each time, up
        /// to a minute.
        #[unit("milliseconds")]
        resend_ms: Number<100, 60_000> = "5000";
        /// Time within which placement has to answer.
        #[unit("milliseconds")]
        ask_timeout_ms: Number<100, 600_000> = "10000";
        /// How long deletions are remembered, so that a late message does not create a deleted instance again.
        #[unit("seconds")]
        remember_deleted_s: Number<60, 31_536_000> = "86400";
        /// The most hosts that the cell may have. Further hosts are ignored, with a warning.
        hosts_max: Number<1, 10_000_000> = "200000";
        /// Time that calls under way have to end after SIGTERM or SIGINT.
        #[unit("milliseconds")]
        drain_timeout_ms: Number<0, 86_400_000> = "5000";
    }

    /// A compute agent (`placewright agent`, docs/agents.md): the hosts that it manages, their cell, and the driver
    /// that builds instances on them.
    agent: AgentOptions {
        /// What builds instances: `simulated` builds nothing and only takes time, `command` runs executables.
        driver: DriverKind = "simulated";
        /// Address and port (gRPC) of the hosts' cell; those of several replicas of the cell with commas.
        cell: String = "127.0.0.1:8780";
        /// The folder of the agent's certificate (`identity.pem`, `ca.pem`, `crl.pem`; docs/operations.md,
        /// "Identities"), which names the hosts for which the agent may send messages. With it, the connection to the
        /// cell uses TLS.
        identity_path: Option<PathBuf> = "";
        /// A file with a secret of 16 characters or more that control, cells and agents share, for loopback. With it,
        /// the agent sends the secret to its cell.
        token_file: Option<PathBuf> = "";
        /// The Placement API to which the inventories of the hosts are written.
        placement_url: String = "http://127.0.0.1:8778";
        /// The token for placement; `noauth2` accepts `admin`.
        #[secret(true)]
        placement_token: String = "admin";
        /// The user for placement, if that has `auth.strategy = "http_basic"`; needs `placement_password_file`, and
        /// replaces the token.
        placement_user: Option<String> = "";
        /// A file with the password of `placement_user` in its first line.
        placement_password_file: Option<PathBuf> = "";
        /// Whether the agent gets tokens for placement from Keystone, as the service user of `[keystone]`, for a
        /// placement with `auth.strategy = "keystone"`. Of that section it reads `auth_url`, `cafile`, the time-outs,
        /// the user, its domain and its project.
        placement_keystone: bool = "false";
        /// The service host of all hosts, as for bare-metal nodes. Not set: each host has a service host with its own
        /// name.
        service_host: Option<String> = "";
        /// The directory of what the agent has to know after a restart, created when missing: its guest log, and files
        /// of executables. Not set means `agent` in systemd's `$STATE_DIRECTORY`, else in `placewright-data` in the
        /// working directory.
        state_path: Option<PathBuf> = "";
        /// How often the agent sends its cell a heartbeat; at least three times in the cell's `cell.host_timeout_ms`.
        #[unit("milliseconds")]
        heartbeat_ms: Number<100, 3_600_000> = "5000";
        /// For how long changes of hosts are gathered before they are sent to the cell.
        #[unit("milliseconds")]
        gather_ms: Number<1, 60_000> = "50";
        /// How often the driver `command` is asked what hosts there are. 0: at the start only.
        #[unit("seconds")]
        inspect_s: Number<0, 86_400> = "60";
        /// How often the inventories in placement are compared with those of the hosts. 0: only when those of the
        /// hosts change.
        #[unit("seconds")]
        resync_s: Number<0, 86_400> = "600";
        /// Time within which the devices of an instance have to be ready, before it is built.
        #[unit("milliseconds")]
        prepare_timeout_ms: Number<1, 86_400_000> = "60000";
        /// Most builds at the same time on one host. Further ones wait.
        #[unit("builds")]
        builds_max: Number<1, 10_000> = "10";
        /// Time that builds under way have to end after SIGTERM or SIGINT.
        #[unit("milliseconds")]
        drain_timeout_ms: Number<0, 86_400_000> = "10000";
        /// The number of simulated hosts, which are identical.
        #[unit("hosts")]
        hosts: Number<1, 1_000_000> = "10";
        /// The beginning of the names of simulated hosts; a number follows.
        prefix: String = "sim-";
        /// Processors of a simulated host.
        #[unit("processors")]
        vcpus: Number<0, 2_147_483_647> = "64";
        /// The allocation ratio of a simulated host's processors.
        cpu_allocation_ratio: Ratio = "4.0";
        /// Memory of a simulated host.
        #[unit("mebibytes")]
        memory_mb: Number<0, 2_147_483_647> = "262144";
        /// Local disk of a simulated host.
        #[unit("gibibytes")]
        disk_gb: Number<0, 2_147_483_647> = "2000";
        /// GPUs of a simulated host. Each is a resource provider with 1,000 `CUSTOM_GPU_MILLI`.
        #[unit("devices")]
        gpus: Number<0, 1_024> = "0";
        /// The model of the simulated GPUs: `T4` gives them the trait `CUSTOM_GPU_MODEL_T4`.
        gpu_model: Option<String> = "";
        /// A CSV file with the machines of a trace (`sn,cpu_milli,memory_mib,gpu,model`), which are simulated in place
        /// of identical hosts.
        nodes_file: Option<PathBuf> = "";
        /// Which part of the simulated hosts: `2/3` is the second of three, with every third host.
        part: String = "1/1";
        /// How long simulated steps take, in milliseconds, as VERB=TIME: `spawn=50` always, `spawn=20-80`
        /// anything between, `spawn=~50` on average. The verbs are prepare, spawn, leave, return, offload,
        /// rebuild and destroy.
        times_ms: Vec<String> = "spawn=20-80";
        /// How often simulated steps fail, as VERB=RATE: with `spawn=0.1` a tenth of the builds.
        failures: Vec<String> = "";
        /// The seed of the simulation's random numbers.
        seed: Number<0, 9_223_372_036_854_775_807> = "1";
        /// The directory of executables for the driver `command`.
        commands: Option<PathBuf> = "";
        /// Time that an executable has, unless `command_timeouts_s` names its operation.
        #[unit("seconds")]
        command_timeout_s: Number<1, 86_400> = "600";
        /// Time-outs for single operations, as VERB=SECONDS.
        command_timeouts_s: Vec<String> = "";
        /// Names of variables of the agent's environment that executables get, besides those that every program needs
        /// (docs/agents.md).
        command_environment: Vec<String> = "";
        /// Where executables find images: the folder of the image API, as this host sees it, or the beginning of a URL.
        /// They get it with a slash and the image's UUID. Not set: they get the UUID only.
        images: Option<String> = "";
    }

    /// The secrets of servers (user data, passwords) are sealed in the stores of control and cells, with keys that are
    /// outside the stores. Each role has keys of its own.
    secrets: SecretsOptions {
        /// The file with the keys, one a line: the first one seals, the others still open. It may not be in the store.
        /// `placewright secrets new-key` creates it. If neither a file nor a command is set: a file beside the store,
        /// with the name of the store and `.key`, created when missing.
        key_file: Option<PathBuf> = "";
        /// A command that prints the lines of a key file, for a service that has the keys: the program and its
        /// arguments. It is not run by a shell, and of the environment it gets only `PATH`, `HOME`, `USER`, `LOGNAME`,
        /// `LANG`, `LANGUAGE`, `LC_*`, `TZ` and `TMPDIR`.
        key_command: Vec<String> = "";
        /// Further environment variables that the command gets.
        key_command_environment: Vec<String> = "";
        /// The command is killed after this time.
        #[unit("milliseconds")]
        key_command_timeout_ms: Number<100, 600_000> = "10000";
        /// How long user data is kept: until the server is `deleted`, because a rebuild, an evacuation
        /// and an unshelve need it and the API shows it, or only until its guest is `built`, after
        /// which it is neither shown nor given to another guest. Passwords are always forgotten once
        /// the guest is built.
        user_data_until: UserDataUntil = "deleted";
        /// Whether the process may leave core dumps, and other processes of its user may read its memory.
        core_dumps: bool = "false";
    }

    /// The audit log: who did what, one line of JSON for each write, and for each refusal for lack of rights
    /// (docs/audit.md). Control, cells and `placewright up` have it.
    audit: AuditLogOptions {
        /// Where lines go: `off`, to a `file`, to the machine's `syslog`, or to standard error (`stderr`).
        destination: AuditDestination = "off";
        /// The file, which only its owner may read. It is opened again after it was moved away, and on SIGHUP. Not
        /// set: `audit.log` in the directory of the store.
        file: Option<PathBuf> = "";
        /// The socket of the machine's syslog. Lines have the facility `authpriv`.
        syslog_socket: String = "/dev/log";
        /// Most memory of requests whose lines are not written yet. The lines of further requests are left out and
        /// counted: no request waits for the log.
        #[unit("bytes")]
        queue_bytes_max: Number<65_536, 17_179_869_184> = "16777216";
    }

    /// Logs, written to standard error.
    log: LogOptions {
        /// `text` for people, `json` for programs: one object a line.
        format: LogFormat = "text";
        /// What is logged: a level (`error`, `warn`, `info`, `debug`, `trace`), and exceptions for
        /// single parts, as in `info,placewright_http=debug`.
        filter: String = "info";
    }
}

/// The index of the option with the key `section.name`.
pub fn find(key: &str) -> Option<usize> {
    OPTIONS.iter().position(|spec| spec.key() == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for spec in OPTIONS {
            assert!(
                (spec.accepts)(spec.default),
                "{}: {:?}",
                spec.key(),
                spec.default
            );
            assert!(
                spec.help.ends_with('.'),
                "{}: help is sentences",
                spec.key()
            );
            assert!(!(spec.describe_allowed)().is_empty());
        }
        let texts: Vec<&str> = OPTIONS.iter().map(|spec| spec.default).collect();
        let options = Options::from_texts(&texts).unwrap();
        assert_eq!(options.placement.listen.port(), 8778);
    }
}
