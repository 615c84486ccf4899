//! The options of the Placement API.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::kinds::{CandidateStrategy, ClientCertificateMode, Number, PlainHttpMode};
use super::spec::section;

section! {
    /// The Placement API: where it listens, what it allows its clients, how it searches candidates.
    placement: PlacementOptions {
        /// Address and port to listen on. 8778 is Placement's port in OpenStack.
        listen: SocketAddr = "127.0.0.1:8778";
        /// Most connections at the same time of each of the APIs: placement, scheduler, compute, identity, image and
        /// network, and of the page at `ui.listen`. For a further connection, an idle one of the peer with the most
        /// connections is closed; while none is idle, the further one waits. If there are too few file descriptors, the
        /// limit is lower, and the log says so.
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
        /// Maximum number of costly requests that run at a time: searches, long lists, large bodies. They have threads
        /// of their own, and callers take turns. 0: two for each processor.
        #[unit("requests")]
        costly_running_max: Number<0, 10_000> = "0";
        /// Maximum number of costly requests of one project that wait for their turn, and as many queries for at most
        /// 1,000 candidates. A further one gets 503.
        #[unit("requests")]
        costly_waiting_per_caller_max: Number<1, 1_000_000> = "256";
        /// Maximum number of costly requests of all callers that wait for their turn. A further one gets 503.
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
        /// next process: whenever systemd restarts or stops the service, or with `control.take_over`. New requests wait
        /// meanwhile.
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
        tls_plain: PlainHttpMode = "allow";
    }
}
