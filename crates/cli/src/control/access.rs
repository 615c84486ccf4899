//! Who is calling and what they may do, from the options and the files that they name.

use std::error::Error;

use placewright_auth::{Authenticator, Policy};

use super::wire;
use crate::config::ConfigErrors;
use crate::options::{AuthStrategy, Options};

/// Sets authentication and policies up.
///
/// # Errors
/// An option is missing or wrong, or a file is: one sentence with all of it.
pub(super) fn load(options: &Options) -> Result<(Authenticator, Policy), ConfigErrors> {
    let section = match options.auth.strategy {
        AuthStrategy::Noauth2 => "auth",
        AuthStrategy::HttpBasic => "http_basic",
        AuthStrategy::Keystone => "keystone",
    };
    let authenticator =
        Authenticator::new(&wire::auth(options)).map_err(|error| in_section(section, &error))?;
    let (policy, warnings) =
        Policy::load(&wire::policy(options)).map_err(|error| in_section("policy", &error))?;
    for warning in warnings {
        tracing::warn!("policy: {warning}");
    }
    Ok((authenticator, policy))
}

/// The section with what is wrong there, causes included.
fn in_section(section: &str, error: &dyn Error) -> ConfigErrors {
    ConfigErrors(vec![format!("[{section}] {}", crate::config::chain(error))])
}
