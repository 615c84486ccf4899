//! The audit log of a process, from its options.

use std::path::Path;

use placewright_audit_log::{
    AuditLog, AuditLogMetrics, AuditLogOptions, Destination, process_log, set_process_log,
};
use placewright_journal::private;
use prometheus_client::registry::Registry;

use crate::config::{ConfigErrors, chain};
use crate::options::{self, AuditDestination};

/// Opens the audit log, if the options name a destination, and makes it the log of the process
/// ([`process_log`]). The file of the log is in `directory`, which is created if it is missing, unless the options name
/// one. Returns `None` if no audit log is configured.
///
/// The process that this one replaces may still write to the same log: both append whole lines.
///
/// # Errors
///
/// The destination cannot be opened.
pub(crate) fn start(
    options: &options::AuditLogOptions,
    directory: &Path,
    registry: &mut Registry,
) -> Result<Option<AuditLog>, ConfigErrors> {
    let config_error =
        |error: &dyn std::error::Error| ConfigErrors(vec![format!("[audit] {}", chain(error))]);
    let destination = match options.destination {
        AuditDestination::Off => Destination::Off,
        AuditDestination::File => Destination::File(match &options.file {
            Some(file) => file.clone(),
            None => {
                private::create_directory(directory).map_err(|error| config_error(&error))?;
                directory.join("audit.log")
            }
        }),
        AuditDestination::Syslog => Destination::Syslog(options.syslog_socket.as_str().into()),
        AuditDestination::Stderr => Destination::Stderr,
    };
    let options = AuditLogOptions {
        destination,
        queue_bytes_max: options.queue_bytes_max.count(),
    };
    let started = AuditLog::start(&options, AuditLogMetrics::new(registry));
    let log = started.map_err(|error| config_error(&error))?;
    if let Some(log) = &log {
        set_process_log(log);
    }
    Ok(log)
}

/// Writes the lines of the process's audit log that are still queued. Called at the end of the process.
pub(crate) fn close() {
    if let Some(log) = process_log() {
        log.close();
    }
}
