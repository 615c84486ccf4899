//! What runs, by name.

/// A process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// All roles in one process.
    Up,
    /// Control.
    Control,
    /// A cell.
    Cell,
    /// An agent.
    Agent,
}

impl Role {
    /// As the command is called.
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

use Role::{Agent, Cell, Control, Up};

const EVERY: &[Role] = &[Up, Control, Cell, Agent];
const OF_CONTROL: &[Role] = &[Up, Control];
const OF_CELLS: &[Role] = &[Up, Cell];
const OF_AGENTS: &[Role] = &[Up, Agent];
const WITH_STORE: &[Role] = &[Up, Control, Cell];

macro_rules! tasks {
    ($($(#[$doc:meta])* $task:ident = $name:literal in $roles:expr;)*) => {
        /// A task or thread that lives as long as its role.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Task {
            $($(#[$doc])* $task,)*
        }

        impl Task {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$task),*];

            /// Its name, for logs.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$task => $name,)* }
            }

            /// The processes that it runs in.
            #[must_use]
            pub fn roles(self) -> &'static [Role] {
                match self { $(Self::$task => $roles,)* }
            }
        }
    };
}

tasks! {
    /// What starts and stops everything else, and serves what has no task of its own.
    Main = "main" in EVERY;
    /// Counts the signals to stop.
    Signals = "signals" in EVERY;
    /// Hears SIGHUP where there is nothing to read again.
    HangUps = "hang-ups" in &[Cell, Agent];
    /// Reads policies and passwords again with SIGHUP.
    Access = "access" in OF_CONTROL;
    /// Tells systemd that all is well.
    Watchdog = "watchdog" in EVERY;
    /// The thread that writes the log.
    Log = "log" in EVERY;
    /// Control's listeners for clients.
    Serving = "serving" in OF_CONTROL;
    /// The listener of a cell for agents, in a process with others.
    CellServer = "cell-server" in &[Up];
    /// Lets gRPC connections in.
    GrpcDoor = "grpc-door" in WITH_STORE;
    /// Waits for a process that takes this one's place. It sleeps until one comes, so nothing wakes it
    /// for the panics of a test build.
    TakeOver = "take-over" in &[];
    /// The thread that tells health and metrics.
    Health = "health" in WITH_STORE;
    /// Follows control's durable changes.
    ControlFollow = "control-follow" in OF_CONTROL;
    /// Looks for what is still to be done.
    ControlSweep = "control-sweep" in OF_CONTROL;
    /// The thread that ranks hosts for what waits.
    ControlPlaces = "control-places" in OF_CONTROL;
    /// Hears what became of those claims.
    ControlOutcomes = "control-outcomes" in OF_CONTROL;
    /// Tells one cell what it is to be told.
    ControlOutbox = "control-outbox" in OF_CONTROL;
    /// Follows one cell.
    ControlCell = "control-cell" in OF_CONTROL;
    /// Looks for what does not add up.
    ControlAudits = "control-audits" in OF_CONTROL;
    /// Carries out what a cell's durable changes want.
    CellOutbox = "cell-outbox" in OF_CELLS;
    /// Asks placement.
    CellAsks = "cell-asks" in OF_CELLS;
    /// Lets time pass for a cell.
    CellTick = "cell-tick" in OF_CELLS;
    /// Repeats what was not answered.
    CellRepeat = "cell-repeat" in OF_CELLS;
    /// Looks after all hosts of an agent.
    AgentRunner = "agent-runner" in OF_AGENTS;
    /// Writes hosts to placement.
    AgentPlacement = "agent-placement" in OF_AGENTS;
    /// Looks at the hosts from time to time.
    AgentInspect = "agent-inspect" in &[Up];
    /// Decides, appends and answers.
    EngineWriter = "engine-writer" in WITH_STORE;
    /// Decides while the writer waits for the disk.
    EngineAhead = "engine-ahead" in WITH_STORE;
    /// Makes snapshots.
    EngineSnapshot = "engine-snapshot" in WITH_STORE;
    /// Reads old entries for followers.
    EngineHistory = "engine-history" in WITH_STORE;
}

macro_rules! contained {
    ($($(#[$doc:meta])* $what:ident = $name:literal;)*) => {
        /// What is done for one caller; a panic in it concerns nobody else.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Contained {
            $($(#[$doc])* $what,)*
        }

        impl Contained {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$what),*];

            /// Its name, for logs.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$what => $name,)* }
            }
        }
    };
}

contained! {
    /// One HTTP connection.
    HttpConnection = "http-connection";
    /// One HTTP request.
    HttpRequest = "http-request";
    /// One stream of gRPC.
    GrpcStream = "grpc-stream";
    /// One decision about a command.
    Decision = "decision";
    /// One connection of an agent to its cell.
    AgentConnection = "agent-connection";
    /// The starts of sessions that one connection brought.
    SessionStarts = "session-starts";
    /// One follower of a cell.
    Follower = "follower";
    /// One call to placement.
    Ask = "ask";
    /// One piece of a driver's work.
    DriverWork = "driver-work";
}
