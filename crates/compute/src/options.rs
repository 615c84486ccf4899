//! What can be chosen about the compute API.

use std::sync::Arc;
use std::time::Duration;

use placewright_scheduler::translate::TranslateOptions;

use crate::images::Images;

/// What can be chosen about the compute API.
#[derive(Clone, Debug, Default)]
pub struct ComputeOptions {
    /// Scheme and host that clients use (`https://cloud.example:8774`), where that is not what
    /// their requests say.
    pub public_url: Option<String>,
    /// How the scheduler will read requests: what it cannot read is refused at once.
    pub translate: TranslateOptions,
    /// What is known of images.
    pub images: Arc<Images>,
    /// How much one request may ask for.
    pub limits: Limits,
}

/// How much one request, user or project may ask for. What goes beyond is refused by the name of its
/// option.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a body that creates or rebuilds servers, or does something else with one.
    pub server_body_bytes_max: usize,
    /// Bytes of any other body.
    pub body_bytes_max: usize,
    /// Bytes that the records of all servers of one request have together.
    pub reservation_bytes_max: usize,
    /// Bytes of all scheduler hints of a request together, but for topology rules.
    pub hint_bytes_max: usize,
    /// Parameters of a query.
    pub parameters_max: usize,
    /// Characters of a regular expression in a query.
    pub pattern_chars_max: usize,
    /// How long one listing may match names against regular expressions.
    pub match_time_max: Duration,
    /// Bytes of a page of servers: a longer one ends there, with a link to the next.
    pub page_bytes_max: usize,
    /// Bytes that the records of all servers of a project have.
    pub project_bytes_max: u64,
    /// Key pairs of a user.
    pub keypairs_max: usize,
    /// Server groups of a project.
    pub server_groups_max: usize,
    /// Members of a server group.
    pub server_group_members_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            server_body_bytes_max: 256 << 10,
            body_bytes_max: 128 << 10,
            reservation_bytes_max: 64 << 20,
            hint_bytes_max: 16 << 10,
            parameters_max: 64,
            pattern_chars_max: 255,
            match_time_max: Duration::from_secs(1),
            page_bytes_max: 4 << 20,
            project_bytes_max: 64 << 20,
            keypairs_max: 500,
            server_groups_max: 1000,
            server_group_members_max: 2000,
        }
    }
}
