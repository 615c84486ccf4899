//! The arguments of commands that also ask the compute API.

use clap::Args;
use placewright_client::server_url;

/// The arguments with the address of the compute API.
#[derive(Debug, Args)]
pub(crate) struct ComputeAddress {
    /// The compute API's address, where servers and flavors have names
    #[arg(
        long,
        env = "PLACEWRIGHT_COMPUTE_URL",
        default_value = "http://127.0.0.1:8774",
        value_parser = server_url
    )]
    pub(crate) compute_url: String,
}
