//! The table of all options: one entry makes a key of the configuration file, an environment
//! variable, a flag, a line of `--help` and a row of docs/configuration.md.
//!
//! Nothing else names an option: a new one is one entry in `options!` below, read as a field of [`Options`].

mod directories;
mod kinds;
mod spec;

use std::net::SocketAddr;
use std::path::PathBuf;

use uuid::Uuid;

pub use kinds::{
    Addresses, AuditDestination, AuthStrategy, CandidateStrategy, CellAddresses,
    ClientCertificateMode, DriverKind, Form, LogFormat, Number, OptionType, PlainMode,
    QuotaDefaults, QuotaDriver, Ratio, UserDataUntil, UserGrants,
};
use spec::options;
pub use spec::{OptionSpec, SectionSpec};

options! {
    /// The Placement API: where it listens, what it allows its clients, how it searches candidates.
    placement: PlacementOptions {
        /// Address and port to listen on. 8778 is Placement's port in OpenStack.
        listen: SocketAddr = "127.0.0.1:8778";
        /// Most connections at the same time, of this API, of the scheduler's and of compute each. For a
        /// further one an idle connection of the peer that has most of them is closed; while all are in
        /// use it waits. Fewer where there are not enough file descriptors; the log says so.
        #[unit("connections")]
        connections_max: Number<1, 1_000_000> = "4096";
        /// Most connections of one peer, which is an IPv4 address or a /64 of IPv6. A further one takes
        /// the place of one that was never used; if there is none it gets 503. Behind a proxy, whose
        /// clients all come from one address, give it as many as `connections_max`. 0: no limit.
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
        /// Time for which a client may take nothing of an answer before it is disconnected.
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
        /// Most entries of one request that changes something: amounts of its allocations, inventories,
        /// traits, aggregates. Others wait while it is decided. More get 413.
        #[unit("entries")]
        entries_max: Number<100, 1_000_000> = "10000";
        /// Most request groups of one query for allocation candidates, and most resource classes of the
        /// group without suffix. More get 400.
        #[unit("groups")]
        groups_max: Number<2, 1_000> = "128";
        /// Largest answer of the Placement API. A request for more gets 400.
        #[unit("bytes")]
        answer_bytes_max: Number<1_048_576, 17_179_869_184> = "134217728";
        /// Most memory that large answers hold together until their clients have taken them. Further ones
        /// get 503. One project has a quarter of it for lists of servers.
        #[unit("bytes")]
        answers_bytes_max: Number<1_048_576, 17_179_869_184> = "134217728";
        /// Most memory that bodies of more than 16 KiB hold together, as they come and until their requests
        /// are answered. One project has a quarter of it. Further ones wait, and get 503 when there is
        /// no room within `body_timeout_ms`.
        #[unit("bytes")]
        bodies_bytes_max: Number<1_048_576, 17_179_869_184> = "67108864";
        /// Time that they have instead when the connections go to the next process: at a restart by
        /// systemd, or with `control.take_over`. Everybody waits meanwhile.
        #[unit("milliseconds")]
        hand_over_timeout_ms: Number<0, 86_400_000> = "5000";
        /// Most readers of the change stream at the same time. A further one gets 503. One that takes
        /// nothing for `write_timeout_ms` is disconnected.
        #[unit("readers")]
        followers_max: Number<0, 100_000> = "256";
        /// Whether an answer that `limit` cuts is a random sample of the allocation candidates.
        randomize_allocation_candidates: bool = "false";
        /// Most allocation candidates that one request makes; -1 means no limit.
        #[unit("candidates")]
        max_allocation_candidates: Number<-1, 9_223_372_036_854_775_807> = "-1";
        /// Order of the search: all candidates of one root provider before the next root, or one of
        /// each root in turn.
        allocation_candidates_generation_strategy: CandidateStrategy = "depth-first";
        /// Project of consumers that were written without one (microversions below 1.8).
        incomplete_consumer_project_id: String = "00000000-0000-0000-0000-000000000000";
        /// User of consumers that were written without one (microversions below 1.8).
        incomplete_consumer_user_id: String = "00000000-0000-0000-0000-000000000000";
        /// A file with the certificate (PEM) that the Placement API shows, and those of the authorities between it
        /// and the root after it. With it the port takes HTTPS; docs/operations.md, "TLS". Not set: HTTP only.
        tls_certificate: Option<PathBuf> = "";
        /// The file with the private key of that certificate. Not set: it is in the same file.
        tls_key: Option<PathBuf> = "";
        /// A file with the authorities (PEM) that may have signed clients' certificates, with their
        /// revocation lists if they have any.
        tls_client_ca: Option<PathBuf> = "";
        /// Whether clients show a certificate: `off` asks for none, `optional` refuses wrong ones,
        /// `required` also clients without one.
        tls_client_certificates: ClientCertificateMode = "off";
        /// Whether HTTP without TLS is served on the same port, or refused with 400.
        tls_plain: PlainMode = "allow";
    }

    /// The scheduler's own API (`docs/scheduler-api.md`), beside the Placement API in the same process:
    /// on the same state, with the same limits, authentication and policies.
    scheduler: SchedulerOptions {
        /// Address and port to listen on, 127.0.0.1:8779 for example. Not set: there is no scheduler.
        listen: Option<SocketAddr> = "";
        /// For how long a candidate can be claimed after it was offered.
        #[unit("milliseconds")]
        candidates_kept_ms: Number<0, 86_400_000> = "300000";
        /// Most candidates that are kept; the oldest ones go first. Each takes some 500 bytes.
        #[unit("candidates")]
        candidates_kept_max: Number<1, 100_000_000> = "1000000";
        /// A file with filters, weighers, pre-filters, expressions and device aliases;
        /// `placewright config scheduler` prints one with all defaults. Not set: those.
        rules_file: Option<PathBuf> = "";
        /// A file with the certificate (PEM) that the scheduler's API shows, and those of the authorities between it
        /// and the root after it. With it the port takes HTTPS; docs/operations.md, "TLS". Not set: HTTP only.
        tls_certificate: Option<PathBuf> = "";
        /// The file with the private key of that certificate. Not set: it is in the same file.
        tls_key: Option<PathBuf> = "";
        /// A file with the authorities (PEM) that may have signed clients' certificates, with their
        /// revocation lists if they have any.
        tls_client_ca: Option<PathBuf> = "";
        /// Whether clients show a certificate: `off` asks for none, `optional` refuses wrong ones,
        /// `required` also clients without one.
        tls_client_certificates: ClientCertificateMode = "off";
        /// Whether HTTP without TLS is served on the same port, or refused with 400.
        tls_plain: PlainMode = "allow";
    }

    /// Control's part in building instances: the cells that it has, and how it deals with them. Without
    /// cells and without the compute API, only placement and the scheduler run.
    control: ControlOptions {
        /// The cells, as NAME=UUID@HOST:PORT; `placewright cell` says its UUID and address when it
        /// starts.
        cells: CellAddresses = "";
        /// Address and port (gRPC) on which cells reach placement, 127.0.0.1:8775 for example. Not
        /// set: only cells in the same process do.
        listen: Option<SocketAddr> = "";
        /// The folder of control's certificate (`identity.pem`, `ca.pem`, `crl.pem`; docs/operations.md,
        /// "Identities"). With it, cells are reached with TLS, and let in by what their certificates say.
        /// Not set: `control` in `control.authority_path`, if that is set.
        identity_path: Option<PathBuf> = "";
        /// The folder of the installation's authority (`placewright pki init`). With it, control renews
        /// the certificates of cells and agents, and lets new ones enrol.
        authority_path: Option<PathBuf> = "";
        /// A file with a secret of 16 characters or more that control, cells and agents share, for
        /// loopback. With it, control refuses cells there that do not have it, and shows it to them.
        token_file: Option<PathBuf> = "";
        /// Most connections of cells at the same time.
        #[unit("connections")]
        connections_max: Number<1, 1_000_000> = "1024";
        /// Most connections of one peer of these. 0: no limit.
        #[unit("connections")]
        connections_per_peer_max: Number<0, 1_000_000> = "512";
        /// Time that a caller has, after it connected, for a call that is let in. It has a third of it
        /// for the first byte.
        #[unit("milliseconds")]
        first_call_timeout_ms: Number<100, 3_600_000> = "30000";
        /// Whether to take the place of the control that runs on the same store, if there is one: it
        /// hands its sockets over, ends its requests and ends. Nobody is refused meanwhile.
        take_over: bool = "false";
        /// How many hosts of the same cell an instance gets besides the chosen one, for builds that
        /// fail.
        #[unit("hosts")]
        alternates: Number<0, 100> = "2";
        /// Whether a resize may end on the host where the instance is.
        resize_to_same_host: bool = "true";
        /// A cell that was silent for so long is down: its instances are shown as UNKNOWN, and new
        /// ones go elsewhere.
        #[unit("milliseconds")]
        cell_down_after_ms: Number<2_000, 3_600_000> = "5000";
        /// Time that a cell has for an answer.
        #[unit("milliseconds")]
        cell_answer_timeout_ms: Number<100, 600_000> = "10000";
        /// What a cell did not answer or finish is said again after this time, and then after twice as
        /// long each time, up to a minute.
        #[unit("milliseconds")]
        resend_ms: Number<100, 60_000> = "5000";
    }

    /// The compute API (`docs/compute-api.md`): servers, flavors, server groups, aggregates, services,
    /// hypervisors and migrations of OpenStack Compute v2.1.
    compute: ComputeApiOptions {
        /// Address and port to listen on, 127.0.0.1:8774 for example. Not set: there is no compute API.
        listen: Option<SocketAddr> = "";
        /// Scheme and host that clients use (`https://cloud.example:8774`), where that is not what
        /// their requests say.
        public_url: Option<String> = "";
        /// A file with the properties of images, as the image service lists them (`GET /v2/images`):
        /// what they say decides about places and rebuilds. Read again when it changes. Not set: an
        /// image is any UUID and decides nothing.
        images_file: Option<PathBuf> = "";
        /// The longest body of a request that creates a server or does something with one (`POST
        /// /servers`, `POST /servers/{server_id}/action`). User data have 65,535 bytes of it at most.
        #[unit("bytes")]
        server_body_bytes_max: Number<1_024, 16_777_216> = "262144";
        /// The longest body of any other request.
        #[unit("bytes")]
        body_bytes_max: Number<1_024, 16_777_216> = "131072";
        /// The most bytes that the records of all servers of one `POST /servers` have together: control
        /// keeps one for all, but each cell gets one for each server.
        #[unit("bytes")]
        reservation_bytes_max: Number<65_536, 1_073_741_824> = "67108864";
        /// The most bytes of a request's scheduler hints, names and values together. Topology rules
        /// do not count.
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
        /// The most bytes of one page of servers: a page that gets longer ends there, with a link to
        /// the next, however many servers were asked for.
        #[unit("bytes")]
        page_bytes_max: Number<65_536, 1_073_741_824> = "4194304";
        /// The most bytes that the records of a project's servers may have together: what was said of each
        /// when it was made, rebuilt or labelled, and 2,048 bytes for each server besides.
        #[unit("bytes")]
        project_bytes_max: Number<65_536, 1_099_511_627_776> = "67108864";
        /// The most key pairs that a user may have.
        keypairs_max: Number<0, 1_000_000> = "500";
        /// The most server groups that a project may have.
        server_groups_max: Number<0, 1_000_000> = "1000";
        /// The most members that a server group may have.
        server_group_members_max: Number<1, 1_000_000> = "2000";
        /// A file with the certificate (PEM) that the compute API shows, and those of the authorities between it
        /// and the root after it. With it the port takes HTTPS; docs/operations.md, "TLS". Not set: HTTP only.
        tls_certificate: Option<PathBuf> = "";
        /// The file with the private key of that certificate. Not set: it is in the same file.
        tls_key: Option<PathBuf> = "";
        /// A file with the authorities (PEM) that may have signed clients' certificates, with their
        /// revocation lists if they have any.
        tls_client_ca: Option<PathBuf> = "";
        /// Whether clients show a certificate: `off` asks for none, `optional` refuses wrong ones,
        /// `required` also clients without one.
        tls_client_certificates: ClientCertificateMode = "off";
        /// Whether HTTP without TLS is served on the same port, or refused with 400.
        tls_plain: PlainMode = "allow";
        /// Where the quotas of projects come from: `local` is this API (`/os-quota-sets`) with
        /// `quota_defaults`, `unified` is Keystone's limits for the service of type `compute`.
        quota_driver: QuotaDriver = "local";
        /// The quotas of projects for which nobody set others: `instances=10`, `cores=20`,
        /// `ram=51200` (MiB), `key_pairs`, `server_groups`, `server_group_members`, and
        /// `class:NAME` for a resource class. -1 and what is not named: unlimited.
        quota_defaults: QuotaDefaults = "";
        /// With `unified`: the region whose limits hold. Not set: all count, and of several the
        /// least.
        quota_region: Option<String> = "";
        /// With `unified`: how often Keystone is asked for the limits, and so how old they may be.
        /// While it does not answer, those that were known last hold.
        #[unit("seconds")]
        quota_refresh_s: Number<1, 86_400> = "30";
    }

    /// Health and metrics on a port of their own, which a thread of its own answers while everything else
    /// is busy, and whose connections nobody else can take.
    health: HealthOptions {
        /// Address and port (HTTP) for `/healthz`, `/readyz` and `/metrics`, 127.0.0.1:8777 for example.
        /// They need no authentication. Not set: `up` takes that one, or a free port; else there are none.
        listen: Option<SocketAddr> = "";
        /// Whether the ports of the APIs show `/metrics` too, to everybody who reaches them. `/healthz`
        /// and `/readyz` they always show.
        metrics_on_apis: bool = "false";
        /// A file with the certificate (PEM) that the health listener shows, and those of the authorities between it
        /// and the root after it. With it the port takes HTTPS; docs/operations.md, "TLS". Not set: HTTP only.
        tls_certificate: Option<PathBuf> = "";
        /// The file with the private key of that certificate. Not set: it is in the same file.
        tls_key: Option<PathBuf> = "";
        /// A file with the authorities (PEM) that may have signed clients' certificates, with their
        /// revocation lists if they have any.
        tls_client_ca: Option<PathBuf> = "";
        /// Whether clients show a certificate: `off` asks for none, `optional` refuses wrong ones,
        /// `required` also clients without one.
        tls_client_certificates: ClientCertificateMode = "off";
        /// Whether HTTP without TLS is served on the same port, or refused with 400.
        tls_plain: PlainMode = "allow";
    }

    /// What the listeners share that speak TLS (those with a `tls_certificate`, and those of the roles for each
    /// other), and when files are read again.
    tls: TlsOptions {
        /// Most TLS handshakes under way at a time, of all APIs; a port of the roles for each other has as many of
        /// its own. Further ones wait; after a second of it the oldest one that waits for its client gives way.
        #[unit("handshakes")]
        handshakes_max: Number<1, 100_000> = "1024";
        /// Most TLS handshakes of one peer that are under way at a time. Further ones wait in the same way.
        #[unit("handshakes")]
        handshakes_per_peer_max: Number<1, 100_000> = "128";
        /// Time that a handshake has, with the time that it waits for its place.
        #[unit("milliseconds")]
        handshake_timeout_ms: Number<100, 600_000> = "10000";
        /// Threads that compute handshakes, apart from those of requests. 0: one for two processors.
        #[unit("threads")]
        handshake_threads: Number<0, 256> = "0";
        /// How often the files of certificates, keys and authorities are looked at, those for Keystone
        /// too. What has changed, and stays the same for one look more, is read again.
        #[unit("milliseconds")]
        reload_check_ms: Number<100, 3_600_000> = "5000";
    }

    /// Admission control of the REST services (docs/limits.md): callers with the role `admin` or `service`
    /// have seats of their own, and all others share theirs fairly, by project and then by user.
    admission: AdmissionControlOptions {
        /// Whether there is any. Without it every request is carried out at once.
        enabled: bool = "false";
        /// Requests of administrators and services that run at a time. Further ones wait.
        #[unit("requests")]
        operator_seats: Number<1, 1_000_000> = "4096";
        /// Requests of tenants that run at a time, of kinds that take less than a millisecond of a processor;
        /// half of them of one project. 0: four for each processor, at least eight.
        #[unit("requests")]
        tenant_seats: Number<0, 1_000_000> = "0";
        /// The same of kinds that take longer; all but one of them of one project. Keep it below
        /// `placement.costly_running_max`. 0: one more than there are processors.
        #[unit("requests")]
        tenant_costly_seats: Number<0, 10_000> = "0";
        /// Most requests of one project that wait. A further one gets 429.
        #[unit("requests")]
        queue_max: Number<1, 4_096> = "100";
        /// Time for which a request waits before it gets 429.
        #[unit("milliseconds")]
        queue_time_ms: Number<10, 600_000> = "2000";
    }

    /// The store: where the journal is kept, how often it is summed up in a snapshot.
    store: StoreOptions {
        /// The store's directory, made when missing; one program at a time may use it. Not set means
        /// `placement` in systemd's `$STATE_DIRECTORY`, else in `placewright-data` in the working
        /// directory.
        path: Option<PathBuf> = "";
        /// Most bytes that the journal's file may grow to; -1 means as large as the disk allows. A
        /// write beyond gets 503, reads go on.
        #[unit("bytes")]
        file_bytes_max: Number<-1, 9_223_372_036_854_775_807> = "-1";
        /// A snapshot of the state is made in the background after this many journal entries, or
        /// after `snapshot_bytes`. More often: a faster start. Less often: less writing.
        #[unit("entries")]
        snapshot_entries: Number<1, 9_223_372_036_854_775_807> = "1000000";
        /// A snapshot is made after this many bytes of journal entries, and at least as many as the
        /// newest snapshot has itself.
        #[unit("bytes")]
        snapshot_bytes: Number<4_096, 9_223_372_036_854_775_807> = "67108864";
        /// Snapshots that are kept. Entries before the oldest are given up, so that one damaged
        /// snapshot loses nothing.
        #[unit("snapshots")]
        snapshots_kept: Number<1, 1_000> = "2";
        /// The newest entries that readers of the change stream can always resume from.
        #[unit("entries")]
        retain_entries: Number<0, 9_223_372_036_854_775_807> = "100000";
        /// Memory for the newest entries, so that readers of the change stream seldom touch the disk.
        #[unit("bytes")]
        recent_bytes: Number<0, 17_179_869_184> = "16777216";
        /// Most writes that may wait for their turn. A further one gets 503.
        #[unit("writes")]
        queue_commands_max: Number<1, 10_000_000> = "65536";
        /// Largest record that one write may make in the journal. A larger one gets 413 and changes
        /// nothing.
        #[unit("bytes")]
        record_bytes_max: Number<65_536, 536_870_912> = "16777216";
        /// Most writes in one append to the journal, so in one fsync.
        #[unit("writes")]
        batch_commands_max: Number<1, 1_000_000> = "4096";
    }

    /// Who is calling: how the identity of a client is found out.
    auth: AuthOptions {
        /// `noauth2` believes what the client says (loopback only), `http_basic` checks passwords
        /// against an htpasswd file, `keystone` asks a Keystone v3 API about tokens.
        strategy: AuthStrategy = "noauth2";
        /// Lets `noauth2`, and a cell without a token, listen on an address that other machines
        /// reach. Everybody who reaches it may then do everything.
        i_know_this_is_open: bool = "false";
        /// Addresses of proxies in front of the service. Of a request that comes from one of them,
        /// `X-Forwarded-For` says from which address it really comes; limits by address count that one.
        proxies: Addresses = "";
        /// Longest time that credentials wait for their check. Those beyond the allowance of their
        /// address wait until it has grown again, and get 429 when that takes longer; others get 503.
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
        /// The file, as `htpasswd -B` writes it: lines `user:hash`, bcrypt only. A changed file is
        /// read again; while it is wrong, the users of the last good one stay.
        user_file: Option<PathBuf> = "";
        /// What a browser shows when it asks for the password.
        realm: String = "Placement";
        /// The roles of users that `users` does not name.
        roles: Vec<String> = "admin,service";
        /// The project that all users have whom `users` does not name. Not set: each of them has a
        /// project of its own, whose ID is made of the name.
        project_id: Option<String> = "";
        /// Users with roles or a project of their own. Without `@PROJECT_ID` the project is the user's
        /// alone, and its ID is made of the name.
        users: UserGrants = "";
        /// For how long a password that was right is taken without the slow check. A change of the
        /// user's line in the file ends it at once.
        #[unit("seconds")]
        cache_seconds: Number<0, 86_400> = "300";
        /// Most users whose last right password is remembered.
        #[unit("users")]
        cache_entries: Number<1, 1_000_000> = "1024";
        /// How often the file is looked at for changes.
        #[unit("milliseconds")]
        reload_check_ms: Number<10, 86_400_000> = "1000";
        /// Most passwords that are checked at the same time. Each check keeps a processor busy for 0.05
        /// to 1 s. 0: half as many as there are processors.
        #[unit("checks")]
        checks_max: Number<0, 1_024> = "0";
        /// Most passwords that wait for their check, of each kind of caller: such as were let in before,
        /// new ones, and such as were wrong often. A further one gets 503.
        #[unit("passwords")]
        waiting_max: Number<1, 100_000> = "256";
        /// Most passwords of one address that wait for their check. A further one gets 429.
        #[unit("passwords")]
        waiting_per_source_max: Number<1, 100_000> = "64";
        /// How many wrong passwords may come from one address at once. Further ones wait, behind those
        /// of others. Passwords that were right before are not held up.
        #[unit("passwords")]
        failures_burst: Number<1, 1_000_000> = "10";
        /// How many wrong passwords may come from one address in a minute after that.
        #[unit("passwords a minute")]
        failures_per_minute: Number<1, 60_000> = "60";
    }

    /// The Keystone that vouches for tokens, and the service user that asks it, for
    /// `auth.strategy = "keystone"`.
    keystone: KeystoneOptions {
        /// Keystone's address, as `https://keystone.example.org:5000/v3`; `/v3` may be left out.
        auth_url: Option<String> = "";
        /// The address that callers without a token are pointed to. Not set: `auth_url`.
        www_authenticate_uri: Option<String> = "";
        /// The service user.
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
        /// The name of that project's domain.
        project_domain_name: String = "Default";
        /// Certificates (PEM) that Keystone's must be signed by, instead of the system's.
        cafile: Option<PathBuf> = "";
        /// For how long a token that Keystone vouched for is taken without asking again. A revoked
        /// token may live on for so long. 0: always ask.
        #[unit("seconds")]
        cache_seconds: Number<0, 86_400> = "300";
        /// For how long a refused token is refused without asking again.
        #[unit("seconds")]
        negative_cache_seconds: Number<0, 86_400> = "10";
        /// Most tokens remembered that Keystone vouched for.
        #[unit("tokens")]
        cache_entries: Number<1, 10_000_000> = "10000";
        /// Most refused tokens remembered.
        #[unit("tokens")]
        negative_cache_entries: Number<1, 10_000_000> = "1024";
        /// Roles of which a service token must have one.
        service_token_roles: Vec<String> = "service";
        /// Whether a service token without such a role is refused.
        service_token_roles_required: bool = "true";
        /// Longest time for a connection to Keystone.
        #[unit("milliseconds")]
        connect_timeout_ms: Number<10, 600_000> = "5000";
        /// Longest time for an answer of Keystone.
        #[unit("milliseconds")]
        request_timeout_ms: Number<10, 600_000> = "10000";
        /// Most questions to Keystone at the same time. Further ones wait.
        #[unit("questions")]
        requests_max: Number<1, 10_000> = "64";
        /// Most tokens that wait for a question, of each kind of caller: such as were let in before, new
        /// ones, and such as were wrong often. A further one gets 503.
        #[unit("tokens")]
        waiting_max: Number<1, 100_000> = "1024";
        /// Most tokens of one address that wait for a question. A further one gets 429.
        #[unit("tokens")]
        waiting_per_source_max: Number<1, 100_000> = "512";
        /// How many wrong tokens may come from one address at once. Further ones wait, behind those of
        /// others. Tokens that were good before are not held up.
        #[unit("tokens")]
        failures_burst: Number<1, 1_000_000> = "256";
        /// How many wrong tokens may come from one address in a minute after that.
        #[unit("tokens a minute")]
        failures_per_minute: Number<1, 60_000> = "600";
    }

    /// Policies: what a caller may do, in oslo.policy's language.
    policy: PolicyOptions {
        /// A `policy.yaml` that overrides the default rules; `placewright policy sample` prints one.
        file: Option<PathBuf> = "";
        /// Whether only the new defaults hold, without the deprecated rules beside them.
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
        /// How long a browser may remember what it was allowed; 0 means that nothing is said.
        #[unit("seconds")]
        max_age_s: Number<0, 604_800> = "3600";
        /// Methods that may be used.
        allow_methods: Vec<String> = "GET,PUT,POST,DELETE,PATCH";
        /// Headers that may be sent besides the simple ones.
        allow_headers: Vec<String> = "X-Auth-Token,X-Openstack-Request-Id,X-Identity-Status,X-Roles,X-Service-Catalog,X-User-Id,X-Tenant-Id,OpenStack-API-Version";
    }

    /// One cell (`placewright cell`): its instances, and the agents of its hosts. How its store is
    /// written is said in `[store]`.
    cell: CellOptions {
        /// The cell's UUID. Not set: one is made at the first start, and kept in the store.
        uuid: Option<Uuid> = "";
        /// Address and port (gRPC) on which control and agents reach the cell.
        listen: SocketAddr = "127.0.0.1:8780";
        /// Address and port (gRPC) on which the cell reaches placement: control's.
        placement: String = "127.0.0.1:8775";
        /// The store's directory, made when missing; one program at a time may use it. Not set means
        /// `cell` in systemd's `$STATE_DIRECTORY`, else in `placewright-data` in the working
        /// directory.
        store_path: Option<PathBuf> = "";
        /// The folder of the cell's certificate (`identity.pem`, `ca.pem`, `crl.pem`; docs/operations.md,
        /// "Identities"). With it, control and agents are let in by what their certificates say, and
        /// control is reached with TLS.
        identity_path: Option<PathBuf> = "";
        /// A file with a secret of 16 characters or more that control, cells and agents share, for
        /// loopback. With it, the cell refuses callers there that do not have it, and shows it to
        /// placement.
        token_file: Option<PathBuf> = "";
        /// Address and port (HTTP) for `GET /metrics`, `/healthz` and `/readyz`, answered by a thread
        /// of their own. Not set: there are none.
        metrics_listen: Option<SocketAddr> = "";
        /// Most connections of agents and control at the same time.
        #[unit("connections")]
        connections_max: Number<1, 1_000_000> = "4096";
        /// Most connections of one peer of these. 0: no limit.
        #[unit("connections")]
        connections_per_peer_max: Number<0, 1_000_000> = "2048";
        /// Time that a caller has, after it connected, for a call that is let in. It has a third of it
        /// for the first byte.
        #[unit("milliseconds")]
        first_call_timeout_ms: Number<100, 3_600_000> = "30000";
        /// A host is down when its agent was silent for so long. Agents say that they are there at
        /// least three times in it.
        #[unit("milliseconds")]
        host_timeout_ms: Number<1_000, 86_400_000> = "30000";
        /// Time that an agent has for each step of a build or move. Then the build goes to an
        /// alternate.
        #[unit("milliseconds")]
        step_timeout_ms: Number<1_000, 4_294_967_295> = "600000";
        /// What was not answered is asked for again after this time, and then after twice as long
        /// each time, up to a minute.
        #[unit("milliseconds")]
        resend_ms: Number<100, 60_000> = "5000";
        /// Time that placement has for an answer.
        #[unit("milliseconds")]
        ask_timeout_ms: Number<100, 600_000> = "10000";
        /// How long deletions are remembered, so that a message that was late creates nothing again.
        #[unit("seconds")]
        remember_deleted_s: Number<60, 31_536_000> = "86400";
        /// The most hosts that the cell knows. Others that come are ignored, with a warning.
        hosts_max: Number<1, 10_000_000> = "200000";
        /// Time that calls under way have to end after SIGTERM or SIGINT.
        #[unit("milliseconds")]
        drain_timeout_ms: Number<0, 86_400_000> = "5000";
    }

    /// A compute agent (`placewright agent`, docs/agents.md): the hosts that it looks after, their
    /// cell, and the driver that builds instances on them.
    agent: AgentOptions {
        /// What builds instances: `simulated` builds nothing and only takes its time, `command` runs
        /// executables.
        driver: DriverKind = "simulated";
        /// Address and port (gRPC) of the hosts' cell.
        cell: String = "127.0.0.1:8780";
        /// The folder of the agent's certificate (`identity.pem`, `ca.pem`, `crl.pem`; docs/operations.md,
        /// "Identities"), which says for which hosts it speaks. With it, the cell is reached with TLS.
        identity_path: Option<PathBuf> = "";
        /// A file with a secret of 16 characters or more that control, cells and agents share, for
        /// loopback.
        token_file: Option<PathBuf> = "";
        /// The Placement API that is told what the hosts have.
        placement_url: String = "http://127.0.0.1:8778";
        /// The token that placement is shown; `noauth2` takes `admin`.
        #[secret(true)]
        placement_token: String = "admin";
        /// The user that placement is told, for `http_basic`; with `placement_password_file` instead of
        /// a token.
        placement_user: Option<String> = "";
        /// A file with that user's password in its first line.
        placement_password_file: Option<PathBuf> = "";
        /// Whether placement is shown tokens of the service user of `[keystone]`, for a placement with
        /// `auth.strategy = "keystone"`. Of that section `auth_url`, `cafile`, the user, its domain and
        /// its project count.
        placement_keystone: bool = "false";
        /// The name of the service that looks after all hosts, as for bare-metal nodes. Not set: each
        /// host has a service of its own name.
        service_host: Option<String> = "";
        /// The directory of what the agent has to know after a restart, made when missing: its guest
        /// log, and what executables keep. Not set means `agent` in systemd's
        /// `$STATE_DIRECTORY`, else in `placewright-data` in the working directory.
        state_path: Option<PathBuf> = "";
        /// How often the cell hears that the hosts are there; at least three times in its
        /// `cell.host_timeout_ms`.
        #[unit("milliseconds")]
        heartbeat_ms: Number<100, 3_600_000> = "5000";
        /// For how long changes of hosts are gathered before the cell hears of them.
        #[unit("milliseconds")]
        gather_ms: Number<1, 60_000> = "50";
        /// How often the driver `command` is asked what hosts there are. 0: at the start only.
        #[unit("seconds")]
        inspect_s: Number<0, 86_400> = "60";
        /// How often placement is compared with what the hosts have. 0: only when that changes.
        #[unit("seconds")]
        resync_s: Number<0, 86_400> = "600";
        /// Time that devices have to be ready before a build.
        #[unit("milliseconds")]
        prepare_timeout_ms: Number<1, 86_400_000> = "60000";
        /// Most builds at the same time on one host. Further ones wait.
        #[unit("builds")]
        builds_max: Number<1, 10_000> = "10";
        /// Time that builds under way have to end after SIGTERM or SIGINT.
        #[unit("milliseconds")]
        drain_timeout_ms: Number<0, 86_400_000> = "10000";
        /// Simulated hosts, all alike.
        #[unit("hosts")]
        hosts: Number<1, 1_000_000> = "10";
        /// What the names of simulated hosts begin with; a number follows.
        prefix: String = "sim-";
        /// Processors of a simulated host.
        #[unit("processors")]
        vcpus: Number<0, 2_147_483_647> = "64";
        /// How often a processor of a simulated host may be promised.
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
        /// What these GPUs are: `T4` gives them the trait `CUSTOM_GPU_MODEL_T4`.
        gpu_model: Option<String> = "";
        /// A CSV file with the machines of a trace (`sn,cpu_milli,memory_mib,gpu,model`), to simulate
        /// those instead.
        nodes_file: Option<PathBuf> = "";
        /// Which part of the simulated hosts: `2/3` is the second of three, with every third host.
        part: String = "1/1";
        /// How long simulated steps take, in milliseconds, as VERB=TIME: `spawn=50` always, `spawn=20-80`
        /// anything between, `spawn=~50` on average. The verbs are prepare, spawn, leave, return, offload,
        /// rebuild and destroy.
        times_ms: Vec<String> = "spawn=20-80";
        /// How often simulated steps fail, as VERB=RATE: with `spawn=0.1` a tenth of the builds.
        failures: Vec<String> = "";
        /// Where the random numbers of the simulation begin.
        seed: Number<0, 9_223_372_036_854_775_807> = "1";
        /// The directory of executables for the driver `command`.
        commands: Option<PathBuf> = "";
        /// Time that an executable has, unless `command_timeouts_s` says something else.
        #[unit("seconds")]
        command_timeout_s: Number<1, 86_400> = "600";
        /// Times for single ones, as VERB=SECONDS.
        command_timeouts_s: Vec<String> = "";
        /// Names of variables of the agent's environment that executables get besides those that every
        /// program needs (docs/agents.md).
        command_environment: Vec<String> = "";
    }

    /// What is secret of servers (user data, passwords) is sealed in the stores of control and cells,
    /// with keys that do not lie in the stores. Each role has keys of its own.
    secrets: SecretsOptions {
        /// The file with the keys, one a line: the first one seals, the others still open. It may not
        /// lie in the store. `placewright secrets new-key` makes it. Not set, and no command either:
        /// a file beside the store, with `.key` behind its name, made when missing.
        key_file: Option<PathBuf> = "";
        /// A command that prints the same lines, for a service that has the keys: the program and its
        /// arguments. No shell reads it, and it gets nothing of the environment but `PATH`, `HOME`,
        /// `USER`, `LOGNAME`, `LANG`, `LANGUAGE`, `LC_*`, `TZ` and `TMPDIR`.
        key_command: Vec<String> = "";
        /// Environment variables that the command gets besides.
        key_command_environment: Vec<String> = "";
        /// The command is killed after this time.
        #[unit("milliseconds")]
        key_command_timeout_ms: Number<100, 600_000> = "10000";
        /// How long user data is kept: until the server is `deleted`, because a rebuild, an evacuation
        /// and an unshelve need it and the API shows it, or only until its guest is `built`, after
        /// which it is neither shown nor given to another guest. Passwords are always forgotten once
        /// the guest is built.
        user_data_until: UserDataUntil = "deleted";
        /// Whether the process may leave core dumps, and may be looked into by others of its user.
        core_dumps: bool = "false";
    }

    /// The audit log: who did what, one line of JSON for each write and each refusal for want of rights
    /// (docs/audit.md). Of control, of cells, and of `up`.
    audit: AuditLogOptions {
        /// Where lines go: `off`, to a `file`, to the machine's `syslog`, or to standard error (`stderr`).
        destination: AuditDestination = "off";
        /// The file, which only its owner may read. It is opened again when it was moved away, and on SIGHUP.
        /// Not set: `audit.log` in the directory of the store.
        file: Option<PathBuf> = "";
        /// The socket of the machine's syslog. Lines have the facility `authpriv`.
        syslog_socket: String = "/dev/log";
        /// Most memory of requests whose lines are not written yet. Further ones are left out and
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
            assert!(!(spec.allowed)().is_empty());
        }
        let texts: Vec<&str> = OPTIONS.iter().map(|spec| spec.default).collect();
        let options = Options::from_texts(&texts).unwrap();
        assert_eq!(options.placement.listen.port(), 8778);
    }
}
