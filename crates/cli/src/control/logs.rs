//! Where log lines go and how they look.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::options::{LogFormat, LogOptions};

/// Sends all log lines to standard error from now on.
///
/// # Errors
/// The filter is not written as filters are.
pub(super) fn start(options: &LogOptions) -> anyhow::Result<()> {
    let filter = EnvFilter::builder().parse(&options.filter).map_err(|error| {
        crate::config::ConfigErrors(vec![format!(
            "log.filter: {:?} is no filter ({error}); allowed: a level (error, warn, info, debug, \
             trace) and exceptions as in info,placewright_server=debug",
            options.filter
        )])
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match options.format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(true).init(),
    }
    Ok(())
}
