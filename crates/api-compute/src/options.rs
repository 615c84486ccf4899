//! Options of the compute API.

use std::sync::Arc;
use std::time::Duration;

use placewright_scheduler::translate::TranslateOptions;

use crate::device_profiles::DeviceProfiles;
use crate::images::Images;

/// Options of the compute API.
#[derive(Clone, Debug, Default)]
pub struct ComputeOptions {
    /// Scheme and host under which clients reach the API (`https://cloud.example:8774`), for links.
    /// If none, the scheme and host of each request are used.
    pub public_url: Option<String>,
    /// How requests are translated to placement queries. A request that cannot be translated is
    /// rejected.
    pub translate: TranslateOptions,
    /// The properties of another service's images, from the operator's file. Not used if `serves_images` is set.
    pub images: Arc<Images>,
    /// The device profiles that flavors may name.
    pub device_profiles: Arc<DeviceProfiles>,
    /// Whether servers are created from control's own images, and from no others.
    pub serves_images: bool,
    /// Whether control serves the Network API. It serves it only to answer that there are no networks, so a server
    /// cannot ask for one then. If it does not, the drivers may provide networks.
    pub serves_network_api: bool,
    /// What users see of the topology.
    pub visible_topology: VisibleTopology,
    /// Limits of requests, users and projects.
    pub limits: Limits,
}

/// Stands for all levels of the topology.
pub const ALL_LEVELS: &str = "*";

/// What users see of the topology. Callers whose policy lets them list the whole topology see everything.
#[derive(Clone, Debug, Default)]
pub struct VisibleTopology {
    /// The names of the levels that users see and may name in rules, or [`ALL_LEVELS`].
    pub levels: Vec<String>,
    /// The names of the levels among `levels` whose places users also see and may name, or [`ALL_LEVELS`].
    pub places: Vec<String>,
}

impl VisibleTopology {
    /// Whether users see a level.
    #[must_use]
    pub fn shows_level(&self, name: &str) -> bool {
        is_among(name, &self.levels)
    }

    /// Whether users see the names of a level's places.
    #[must_use]
    pub fn shows_places(&self, level: &str) -> bool {
        self.shows_level(level) && is_among(level, &self.places)
    }
}

fn is_among(name: &str, levels: &[String]) -> bool {
    levels
        .iter()
        .any(|level| level == name || level == ALL_LEVELS)
}

/// Limits of a request, a user or a project. The error of a request that exceeds a limit names the limit's option.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a body for `/servers` or a server's actions.
    pub server_body_bytes_max: usize,
    /// Bytes of any other body.
    pub body_bytes_max: usize,
    /// Bytes of the records of all servers of one request together (Nova: of one reservation).
    pub reservation_bytes_max: usize,
    /// Bytes of all scheduler hints of a request, without topology rules.
    pub hint_bytes_max: usize,
    /// The number of parameters of a query.
    pub parameters_max: usize,
    /// Characters of a regular expression in a query.
    pub pattern_chars_max: usize,
    /// The time that one listing may spend on matching regular expressions.
    pub match_time_max: Duration,
    /// Bytes of a page of servers; a longer page is cut, with a link to the next.
    pub page_bytes_max: usize,
    /// Bytes of the records of all servers of a project.
    pub project_bytes_max: u64,
    /// The number of key pairs of a user.
    pub keypairs_max: usize,
    /// The number of server groups of a project.
    pub server_groups_max: usize,
    /// The number of members of a server group.
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
