//! The options of the audit log and of the log.

use std::path::PathBuf;

use super::kinds::{AuditDestination, LogFormat, Number};
use super::spec::section;

section! {
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
        /// The most memory that events may occupy whose lines are not written yet. The lines of further requests are
        /// left out and counted: no request waits for the log.
        #[unit("bytes")]
        queue_bytes_max: Number<65_536, 17_179_869_184> = "16777216";
    }
}

section! {
    /// Logs, written to standard error.
    log: LogOptions {
        /// `text` for people, `json` for programs: one object a line.
        format: LogFormat = "text";
        /// What is logged: a level (`error`, `warn`, `info`, `debug`, `trace`), and exceptions for
        /// single parts, as in `info,placewright_http=debug`.
        filter: String = "info";
    }
}
