//! The options of the secrets of servers.

use std::path::PathBuf;

use super::kinds::{Number, UserDataUntil};
use super::spec::section;

section! {
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
}
