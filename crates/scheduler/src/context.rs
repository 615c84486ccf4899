//! The input from which filters and weighers are compiled: the request, the hosts and the
//! configuration.

use uuid::Uuid;

use crate::config::SchedulerConfig;
use crate::error::BadRequest;
use crate::hosts::table::HostTable;
use crate::request::RequestSpec;

/// The input of filters and weighers.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The options of the configuration.
    pub config: &'a SchedulerConfig,
    /// The state of all hosts.
    pub hosts: &'a HostTable,
    /// The request that is scheduled.
    pub request: &'a RequestSpec,
    /// The instance of the request that is being scheduled.
    pub instance: Uuid,
}

impl<'a> Context<'a> {
    /// The value of a hint, if the request has the hint. Refuses a hint with several values.
    pub(crate) fn single_hint(&self, name: &str) -> Result<Option<&'a str>, BadRequest> {
        match self.request.hints(name) {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            values => Err(BadRequest::malformed(
                hint_field(name),
                values.join(", "),
                "a single value",
            )),
        }
    }

    /// The value of an image property; `None` if the property is absent or empty.
    pub(crate) fn image_property(&self, name: &str) -> Option<&'a str> {
        let value = self.request.image.as_ref()?.properties.get(name);
        value.filter(|value| !value.is_empty())
    }
}

/// The name of a hint in error messages.
pub(crate) fn hint_field(name: &str) -> String {
    format!("scheduler_hints[{name:?}]")
}

/// The hint of requests that only check an operation; its value names the operation.
pub(crate) const CHECK_HINT: &str = "_nova_check_type";

/// Whether a request only checks that an instance may be rebuilt in place.
#[must_use]
pub fn is_rebuild(request: &RequestSpec) -> bool {
    request.hints(CHECK_HINT) == ["rebuild"]
}
