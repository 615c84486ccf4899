//! The options of a cell.

use std::net::SocketAddr;
use std::path::PathBuf;

use uuid::Uuid;

use super::kinds::Number;
use super::spec::section;

section! {
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
}
