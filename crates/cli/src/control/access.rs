//! Who is calling and what they may do, from the options.

use placewright_server::{Authenticator, Policy};

use crate::options::Options;

/// Reads the files that the options name.
///
/// # Errors
/// A file or an option is wrong.
pub(super) fn load(options: &Options) -> anyhow::Result<(Authenticator, Policy)> {
    let profile = if options.policy.enforce_new_defaults {
        "secure-rbac"
    } else {
        "default"
    };
    Ok((
        Authenticator,
        Policy {
            profile: profile.to_owned(),
        },
    ))
}
