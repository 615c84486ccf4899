//! The options of control.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::kinds::{CellAddresses, Number};
use super::spec::section;

section! {
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
        /// Whether a server is built in another cell, once, when its build failed on the chosen host and on all
        /// alternates for reasons that other hosts need not have. The secrets for its build are kept, sealed, until the
        /// build is over.
        reschedule_across_cells: bool = "false";
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
}
