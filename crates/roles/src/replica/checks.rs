//! Checks the options of a process that is one of several replicas.

use std::net::IpAddr;

use crate::config::ConfigErrors;
use crate::options::{Options, SecretsOptions};
use crate::store::Store;

/// Checks the options of a control process that is one of several on one journal.
///
/// # Errors
///
/// The reason why the process cannot be one of several.
pub(crate) fn check_control(options: &Options, store: &Store) -> Result<(), ConfigErrors> {
    let Some(address) = &options.control.replica_address else {
        return Ok(());
    };
    let error = |reason: &str| ConfigErrors(vec![format!("control.replica_address: {reason}")]);
    check_address(address).map_err(error)?;
    if options.control.listen.is_none() {
        return Err(error(
            "the other replicas call control.listen, which is not set",
        ));
    }
    if !store.is_shared() {
        return Err(error(
            "replicas need a journal that all of them reach: set store.url to etcd://… or postgresql://…",
        ));
    }
    check_keys(&options.secrets).map_err(error)
}

/// Checks the options of a cell's process that is one of several on one journal.
///
/// # Errors
///
/// The reason why the process cannot be one of several.
pub(crate) fn check_cell(options: &Options, store: &Store) -> Result<(), ConfigErrors> {
    let Some(address) = &options.cell.replica_address else {
        return Ok(());
    };
    let error = |reason: &str| ConfigErrors(vec![format!("cell.replica_address: {reason}")]);
    check_address(address).map_err(error)?;
    if !store.is_shared() {
        return Err(error(
            "replicas need a journal that all of them reach: set cell.store_url to etcd://… or postgresql://…",
        ));
    }
    if options.cell.uuid.is_none() {
        return Err(error("replicas are the same cell: set cell.uuid"));
    }
    check_keys(&options.secrets).map_err(error)
}

/// Checks that an address has the form HOST:PORT, and does not stand for all addresses of a machine.
fn check_address(address: &str) -> Result<(), &'static str> {
    let (host, port) = address.rsplit_once(':').ok_or("allowed: HOST:PORT")?;
    let is_one_word = !host.contains([',', '/', '@']) && !host.contains(char::is_whitespace);
    if host.is_empty() || !is_one_word || !port.parse().is_ok_and(|port: u16| port != 0) {
        return Err("allowed: HOST:PORT");
    }
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse();
    if ip.is_ok_and(|ip: IpAddr| ip.is_unspecified()) {
        return Err("others cannot connect to an address that stands for all of a machine's");
    }
    Ok(())
}

/// Checks that the keys for secrets come from a configured file or command. Without either, this process would create a
/// key file of its own, which the other replicas do not have.
fn check_keys(secrets: &SecretsOptions) -> Result<(), &'static str> {
    if secrets.key_file.is_none() && secrets.key_command.is_empty() {
        return Err(
            "replicas seal secrets with the same keys: set secrets.key_file or secrets.key_command",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_that_others_reach_and_a_port() {
        for address in ["control1:8775", "10.0.0.1:8775", "[::1]:8775"] {
            assert_eq!(check_address(address), Ok(()), "{address}");
        }
        for address in [
            "",
            "control1",
            ":8775",
            "control1:0",
            "control1:x",
            "a:1,b:2",
            "http://a:1",
            "0.0.0.0:1",
            "[::]:1",
        ] {
            assert!(check_address(address).is_err(), "{address}");
        }
    }
}
