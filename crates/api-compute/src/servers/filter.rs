//! The conditions of a listing of servers.

use std::collections::BTreeSet;

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult};
use placewright_placement::Timestamp;
use placewright_types::server::ServerBody;

use super::pattern::Pattern;
use super::server_view::ServerView;
use super::status::STATUSES;
use super::tags::TAGS_MAX;
use crate::routed_request::RoutedRequest;

/// The conditions that listed servers satisfy.
pub(crate) struct Filter {
    /// The project whose servers are listed; `None` for all projects.
    project: Option<String>,
    /// Whether no server can satisfy the conditions.
    matches_nothing: bool,
    /// Conditions that are checked first, because they are cheap.
    conditions: Vec<Condition>,
    /// Conditions for which the body of a server's specification has to be decoded.
    body_conditions: Vec<BodyCondition>,
    /// Regular expressions for names and descriptions. They are matched while no lock is held.
    patterns: Vec<(PatternField, Pattern)>,
}

/// The field of a server that a regular expression is matched with.
#[derive(Clone, Copy)]
enum PatternField {
    Name,
    Description,
}

/// A condition on the state of a server.
enum Condition {
    User(String),
    Id(String),
    Status(Vec<String>),
    VmState(Vec<String>),
    Task(Vec<String>),
    Power(u8),
    Host(String),
    Zone(String),
    ChangedSince(Timestamp),
    ChangedBefore(Timestamp),
    Locked(bool),
}

/// A condition on the body of a server's specification.
enum BodyCondition {
    Flavor(String),
    Image(String),
    KeyName(String),
    Reservation(String),
    ConfigDrive(bool),
    Tags {
        tags: BTreeSet<String>,
        /// Whether all of the tags are required; otherwise one of them is enough.
        requires_all: bool,
        /// Whether the condition is negated.
        is_negated: bool,
    },
}

/// Parameters that everybody may use, each with the version in which it was added.
const PUBLIC_PARAMETERS: [(&str, u16); 27] = [
    ("reservation_id", 1),
    ("name", 1),
    ("status", 1),
    ("image", 1),
    ("flavor", 1),
    ("ip", 1),
    ("changes-since", 1),
    ("all_tenants", 1),
    ("ip6", 5),
    ("tags", 26),
    ("tags-any", 26),
    ("not-tags", 26),
    ("not-tags-any", 26),
    ("changes-before", 66),
    ("locked", 73),
    ("availability_zone", 83),
    ("config_drive", 83),
    ("key_name", 83),
    ("created_at", 83),
    ("launched_at", 83),
    ("terminated_at", 83),
    ("power_state", 83),
    ("task_state", 83),
    ("vm_state", 83),
    ("progress", 83),
    ("user_id", 83),
    ("deleted", 1),
];

/// Parameters that only administrators may use.
const ADMINISTRATOR_PARAMETERS: [&str; 21] = [
    "host",
    "node",
    "hypervisor_hostname",
    "uuid",
    "project_id",
    "tenant_id",
    "display_description",
    "description",
    "access_ip_v4",
    "access_ip_v6",
    "auto_disk_config",
    "hostname",
    "instance_type_id",
    "image_ref",
    "kernel_id",
    "launch_index",
    "locked_by",
    "ramdisk_id",
    "root_device_name",
    "soft_deleted",
    "display_name",
];

/// Parameters that a query may have more than once.
const REPEATABLE_PARAMETERS: [&str; 5] =
    ["status", "vm_state", "task_state", "sort_key", "sort_dir"];

/// Parameters for the page and its order, which are not conditions.
const PAGE_PARAMETERS: [&str; 4] = ["limit", "marker", "sort_key", "sort_dir"];

impl Filter {
    /// Parses the conditions of a request.
    ///
    /// # Errors
    ///
    /// 400 for invalid values; 403 if the caller asks for all projects, or for the status DELETED, and may not. (The
    /// parameter `deleted` of such a caller is ignored instead.)
    pub(crate) fn parse(request: &RoutedRequest<'_>, all_projects_rule: Rule) -> ApiResult<Self> {
        let mut filter = Self {
            project: Some(request.project().to_owned()),
            matches_nothing: false,
            conditions: Vec::new(),
            body_conditions: Vec::new(),
            patterns: Vec::new(),
        };
        if let Some(key) = request.query.find_repeated(&REPEATABLE_PARAMETERS) {
            return Err(ApiError::field(key, "it may be there once only"));
        }
        let wants_all_projects = request.query.boolean("all_tenants")?.unwrap_or(false);
        if wants_all_projects {
            request.authorize(all_projects_rule)?;
            filter.project = None;
        }
        let may_use_all_parameters = request.is_allowed(Rule::ServersAllFilters);
        for (key, value) in request.query.iter() {
            if PAGE_PARAMETERS.contains(&key) {
                continue;
            }
            let public_parameter = PUBLIC_PARAMETERS.iter().find(|(name, _)| *name == key);
            let is_for_administrators = ADMINISTRATOR_PARAMETERS.contains(&key);
            match public_parameter {
                Some((_, added_in))
                    if request.version.since(*added_in) || may_use_all_parameters => {}
                _ if is_for_administrators && may_use_all_parameters => {}
                None if !is_for_administrators && request.version.since(75) => {
                    let message = "there is no such query parameter";
                    return Err(ApiError::field(key, message));
                }
                // Ignored: before version 2.75 a parameter that is unknown, and in every version one that
                // this caller may not use or that only a later version has.
                _ => continue,
            }
            filter.add_condition(request, key, value)?;
        }
        filter.add_repeated(request)?;
        Ok(filter)
    }

    fn add_condition(
        &mut self,
        request: &RoutedRequest<'_>,
        key: &str,
        value: &str,
    ) -> ApiResult<()> {
        use Condition as C;
        let owned_value = || value.to_owned();
        match key {
            "project_id" | "tenant_id" if self.project.is_none() => {
                self.project = Some(owned_value());
            }
            "user_id" => self.conditions.push(C::User(owned_value())),
            "uuid" => self.conditions.push(C::Id(owned_value())),
            "name" | "display_name" => {
                let pattern = Pattern::parse(request, key, value)?;
                self.patterns.push((PatternField::Name, pattern));
            }
            "host" | "node" | "hypervisor_hostname" => self.conditions.push(C::Host(owned_value())),
            "availability_zone" => self.conditions.push(C::Zone(owned_value())),
            "power_state" => {
                let state = value
                    .parse()
                    .map_err(|_| ApiError::field(key, "it must be the number of a power state"))?;
                self.conditions.push(C::Power(state));
            }
            "locked" => {
                let locked = request.query.boolean(key)?.unwrap_or(true);
                self.conditions.push(C::Locked(locked));
            }
            "changes-since" => {
                self.conditions
                    .extend(request.query.time(key)?.map(C::ChangedSince));
            }
            "changes-before" => {
                self.conditions
                    .extend(request.query.time(key)?.map(C::ChangedBefore));
            }
            "description" | "display_description" => {
                let pattern = Pattern::parse(request, key, value)?;
                self.patterns.push((PatternField::Description, pattern));
            }
            // Deleted servers are not stored. For callers who may not list them, the parameter is ignored.
            "deleted" | "soft_deleted" => {
                let wanted = request.query.boolean(key)?.unwrap_or(true);
                self.matches_nothing |= wanted && request.is_allowed(Rule::ServersAllFilters);
            }
            // No addresses of servers are known here, so no server has the requested one.
            "ip" | "ip6" | "access_ip_v4" | "access_ip_v6" => {
                self.matches_nothing |= !value.is_empty();
            }
            _ => self.add_body_condition(request, key, value)?,
        }
        Ok(())
    }

    fn add_body_condition(
        &mut self,
        request: &RoutedRequest<'_>,
        key: &str,
        value: &str,
    ) -> ApiResult<()> {
        let condition = match key {
            "flavor" | "instance_type_id" => BodyCondition::Flavor(last_segment(value)),
            "image" | "image_ref" => BodyCondition::Image(last_segment(value)),
            "key_name" => BodyCondition::KeyName(value.to_owned()),
            "reservation_id" => BodyCondition::Reservation(value.to_owned()),
            "config_drive" => {
                BodyCondition::ConfigDrive(request.query.boolean(key)?.unwrap_or(true))
            }
            "tags" | "tags-any" | "not-tags" | "not-tags-any" => {
                let tags = value.split(',').filter(|tag| !tag.is_empty());
                let tags: BTreeSet<String> = tags.map(str::to_owned).collect();
                if tags.len() > TAGS_MAX {
                    let message = format!("it must have at most {TAGS_MAX} tags, as a server has");
                    return Err(ApiError::field(key, message));
                }
                BodyCondition::Tags {
                    tags,
                    requires_all: !key.ends_with("-any"),
                    is_negated: key.starts_with("not-"),
                }
            }
            _ => return Ok(()),
        };
        self.body_conditions.push(condition);
        Ok(())
    }

    /// Adds the conditions of parameters that may be repeated: one of the values has to match.
    fn add_repeated(&mut self, request: &RoutedRequest<'_>) -> ApiResult<()> {
        let values_of = |key| -> Vec<String> {
            let values = request.query.all(key);
            values.map(str::to_owned).collect()
        };
        let statuses: Vec<String> = values_of("status")
            .into_iter()
            .map(|status| status.to_ascii_uppercase())
            .collect();
        if !statuses.is_empty() {
            let unknown = statuses
                .iter()
                .find(|status| !STATUSES.contains(&status.as_str()));
            match unknown {
                Some(unknown) if request.version.since(38) => {
                    let message = format!("there is no status {unknown}");
                    return Err(ApiError::field("status", message));
                }
                // Before version 2.38 an unknown status is not an error, but no server has it.
                Some(_) if statuses.len() == 1 => self.matches_nothing = true,
                _ => {}
            }
            if statuses.iter().any(|status| status == "DELETED")
                && !request.is_allowed(Rule::ServersAllFilters)
            {
                let message = "Only administrators may list deleted servers.";
                return Err(ApiError::forbidden(message));
            }
            self.conditions.push(Condition::Status(statuses));
        }
        let is_allowed = request.version.since(83) || request.is_allowed(Rule::ServersAllFilters);
        for (key, make_condition) in [
            (
                "vm_state",
                Condition::VmState as fn(Vec<String>) -> Condition,
            ),
            (
                "task_state",
                Condition::Task as fn(Vec<String>) -> Condition,
            ),
        ] {
            let values = values_of(key);
            if is_allowed && !values.is_empty() {
                self.conditions.push(make_condition(values));
            }
        }
        Ok(())
    }

    /// Whether no server can satisfy the conditions.
    pub(crate) fn matches_nothing(&self) -> bool {
        self.matches_nothing
    }

    /// The project whose servers are listed; `None` for all projects.
    pub(crate) fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// Whether there are patterns, which [`Self::accepts`] does not check.
    pub(crate) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// The texts that the patterns are matched with, in the patterns' order.
    pub(crate) fn pattern_texts(&self, server: &ServerView<'_>) -> Vec<String> {
        let text = |field: &PatternField| match field {
            PatternField::Name => server.name().to_owned(),
            PatternField::Description => server.description().unwrap_or_default(),
        };
        self.patterns.iter().map(|(field, _)| text(field)).collect()
    }

    /// Whether all patterns match their texts.
    pub(crate) fn patterns_match(&self, texts: &[String]) -> bool {
        let mut pairs = self.patterns.iter().zip(texts);
        pairs.all(|((_, pattern), text)| pattern.is_in(text))
    }

    /// Whether a server of [`Self::project`] satisfies all conditions except the patterns.
    pub(crate) fn accepts(&self, server: &ServerView<'_>) -> bool {
        if !self
            .conditions
            .iter()
            .all(|condition| condition.accepts(server))
        {
            return false;
        }
        if self.body_conditions.is_empty() {
            return true;
        }
        let body = server.body();
        self.body_conditions
            .iter()
            .all(|condition| condition.accepts(server, &body))
    }
}

impl Condition {
    fn accepts(&self, server: &ServerView<'_>) -> bool {
        let contains = |values: &[String], wanted: &str| values.iter().any(|value| value == wanted);
        match self {
            Self::User(user) => *user == server.mapping.user,
            Self::Id(id) => server.id.to_string() == *id,
            Self::Status(statuses) => contains(statuses, server.status().name),
            Self::VmState(states) => contains(states, server.status().vm_state),
            Self::Task(states) => match server.status().task_state {
                Some(task_state) => contains(states, task_state),
                None => states
                    .iter()
                    .any(|state| state.is_empty() || state == "None"),
            },
            Self::Power(state) => server.status().power_state == *state,
            Self::Host(host) => server.host().is_some_and(|(_, name)| name == host),
            Self::Zone(zone) => server.zone().is_some_and(|server_zone| server_zone == zone),
            Self::ChangedSince(time) => server.updated_at() >= *time,
            Self::ChangedBefore(time) => server.updated_at() <= *time,
            Self::Locked(locked) => {
                server.labels.is_some_and(|labels| labels.lock.is_some()) == *locked
            }
        }
    }
}

impl BodyCondition {
    fn accepts(&self, server: &ServerView<'_>, body: &ServerBody) -> bool {
        let server_fields = &body.server;
        match self {
            Self::Flavor(id) => server_fields.flavor_id == *id,
            Self::Image(id) => server_fields.image.as_ref() == Some(id),
            Self::KeyName(name) => server_fields.key_name.as_ref() == Some(name),
            Self::Reservation(id) => server_fields.reservation_id == *id,
            Self::ConfigDrive(wanted) => server_fields.config_drive == *wanted,
            Self::Tags {
                tags,
                requires_all,
                is_negated,
            } => {
                let server_tags = server
                    .labels
                    .map_or(&server_fields.tags, |labels| &labels.tags);
                let mut has_tag = tags.iter().map(|tag| server_tags.contains(tag));
                let is_satisfied = if *requires_all {
                    has_tag.all(|has_tag| has_tag)
                } else {
                    has_tag.any(|has_tag| has_tag)
                };
                is_satisfied != *is_negated
            }
        }
    }
}

/// The id in a value, which may be a URL that ends with the id.
fn last_segment(text: &str) -> String {
    text.rsplit('/').next().unwrap_or(text).to_owned()
}
