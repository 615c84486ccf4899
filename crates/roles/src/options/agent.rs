//! The options of an agent.

use std::path::PathBuf;

use super::kinds::{DriverKind, Number, Ratio};
use super::spec::section;

section! {
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
        /// The directory of the files that the agent needs after a restart, created when missing: its guest log, and
        /// files of executables. Not set means `agent` in systemd's `$STATE_DIRECTORY`, else in `placewright-data` in
        /// the working directory.
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
}
