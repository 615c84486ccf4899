//! The names of all tasks, and of work that is contained.

/// A kind of process, by the roles that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessKind {
    /// All roles in a single process.
    Up,
    /// The process of the control role.
    Control,
    /// The process of a cell.
    Cell,
    /// The process of an agent.
    Agent,
}

impl ProcessKind {
    /// The name of the command that starts a process of this kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Control => "control",
            Self::Cell => "cell",
            Self::Agent => "agent",
        }
    }
}

use ProcessKind::{Agent, Cell, Control, Up};

// The kinds of processes that run a task.
const EVERY: &[ProcessKind] = &[Up, Control, Cell, Agent];
const OF_CONTROL: &[ProcessKind] = &[Up, Control];
const OF_CELLS: &[ProcessKind] = &[Up, Cell];
const OF_AGENTS: &[ProcessKind] = &[Up, Agent];
const WITH_STORE: &[ProcessKind] = &[Up, Control, Cell];

macro_rules! tasks {
    ($($(#[$doc:meta])* $task:ident = $name:literal in $processes:expr;)*) => {
        /// A task or thread that lives as long as its role.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Task {
            $($(#[$doc])* $task,)*
        }

        impl Task {
            /// Every long-lived task, in order of declaration.
            pub const ALL: &[Self] = &[$(Self::$task),*];

            /// The name of the task in logs.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$task => $name,)* }
            }

            /// The kinds of processes that run the task with the options of `tests/panics/run`, which makes it
            /// panic in each of them.
            #[must_use]
            pub fn processes(self) -> &'static [ProcessKind] {
                match self { $(Self::$task => $processes,)* }
            }
        }
    };
}

tasks! {
    /// The main task, which starts and stops all others, and does the work that has no task of its own.
    Main = "main" in EVERY;
    /// Receives the signals that stop the process.
    Signals = "signals" in EVERY;
    /// Handles SIGHUP in processes that have nothing to reload.
    HangUps = "hang-ups" in &[Cell, Agent];
    /// Reloads policies and passwords on SIGHUP.
    Access = "access" in OF_CONTROL;
    /// Reports to systemd's watchdog.
    Watchdog = "watchdog" in EVERY;
    /// The thread that writes the log.
    Log = "log" in EVERY;
    /// The thread that writes the audit log.
    AuditLog = "audit-log" in WITH_STORE;
    /// Control's servers for API clients.
    Serving = "serving" in OF_CONTROL;
    /// The server of a cell for agents, in a process with other roles.
    CellServer = "cell-server" in &[Up];
    /// Accepts connections of gRPC clients.
    GrpcListener = "grpc-door" in WITH_STORE;
    /// Renews certificates, and reloads them when they change.
    Certificates = "certificates" in &[Up];
    /// Follows the replica that leads, and hands commands to it.
    ReplicaLink = "replica-link" in &[Control];
    /// Waits for a process that replaces this one.
    TakeOver = "take-over" in OF_CONTROL;
    /// The thread that serves health and metrics.
    Health = "health" in WITH_STORE;
    /// Follows control's durable changes.
    ControlFollow = "control-follow" in OF_CONTROL;
    /// Finds remaining work that was not triggered by a change.
    ControlSweep = "control-sweep" in OF_CONTROL;
    /// Does the pending work when this replica begins to lead.
    ControlLeader = "control-leader" in OF_CONTROL;
    /// Adds the instances of earlier releases, which did not count them, to the usage of quotas, and reads Keystone's
    /// limits.
    ControlQuotas = "control-quotas" in OF_CONTROL;
    /// Keeps the secrets in control's state under the current key.
    ControlSecrets = "control-secrets" in OF_CONTROL;
    /// The thread that ranks hosts for waiting builds and moves.
    ControlPlaces = "control-places" in OF_CONTROL;
    /// Processes the outcomes of the claims that [`Self::ControlPlaces`] makes.
    ControlOutcomes = "control-outcomes" in OF_CONTROL;
    /// Delivers messages to one cell.
    ControlOutbox = "control-outbox" in OF_CONTROL;
    /// Follows the changes of one cell.
    ControlCell = "control-cell" in OF_CONTROL;
    /// Audits control's state for inconsistencies.
    ControlAudits = "control-audits" in OF_CONTROL;
    /// Runs the cell while this replica leads.
    CellLeadership = "cell-leadership" in OF_CELLS;
    /// Carries out the effects of a cell's durable changes.
    CellOutbox = "cell-outbox" in OF_CELLS;
    /// Sends a cell's requests to placement.
    CellClaimRequests = "cell-asks" in OF_CELLS;
    /// Advances the time of a cell.
    CellTick = "cell-tick" in OF_CELLS;
    /// Repeats messages that got no response.
    CellRepeat = "cell-repeat" in OF_CELLS;
    /// Keeps the secrets in a cell's state under the current key.
    CellSecrets = "cell-secrets" in OF_CELLS;
    /// Runs all hosts of an agent.
    AgentRunner = "agent-runner" in OF_AGENTS;
    /// Writes the inventories of hosts to placement.
    AgentPlacement = "agent-placement" in OF_AGENTS;
    /// Inspects the hosts periodically.
    AgentInspect = "agent-inspect" in &[Up];
    /// The engine's writer: decides and appends commands, and responds to them.
    EngineWriter = "engine-writer" in WITH_STORE;
    /// Decides the next commands while the writer waits for the disk.
    EngineAhead = "engine-ahead" in WITH_STORE;
    /// Makes snapshots in the background.
    EngineSnapshot = "engine-snapshot" in WITH_STORE;
    /// Reads old entries for followers from the journal.
    EngineHistory = "engine-history" in WITH_STORE;
}

macro_rules! contained {
    ($($(#[$doc:meta])* $what:ident = $name:literal;)*) => {
        /// Work for one caller. A panic in this work affects no other caller.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ContainedWork {
            $($(#[$doc])* $what,)*
        }

        impl ContainedWork {
            /// Every kind of contained work, in order of declaration.
            pub const ALL: &[Self] = &[$(Self::$what),*];

            /// The name of the work in logs.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$what => $name,)* }
            }
        }
    };
}

contained! {
    /// Serving one HTTP connection.
    HttpConnection = "http-connection";
    /// Handling one HTTP request.
    HttpRequest = "http-request";
    /// Serving one gRPC stream, or the TLS handshake of a gRPC connection.
    GrpcStream = "grpc-stream";
    /// Deciding one command in the engine.
    Decision = "decision";
    /// Serving one connection of an agent to its cell.
    AgentConnection = "agent-connection";
    /// Beginning the sessions of hosts for which one connection of an agent has sent the starts together.
    SessionStarts = "session-starts";
    /// Serving one follower of a cell.
    Follower = "follower";
    /// Making one claim request to placement.
    ClaimRequest = "ask";
    /// Sending updates of hosts to one other replica.
    HostUpdates = "host-updates";
    /// Running one operation of a driver.
    DriverWork = "driver-work";
}
