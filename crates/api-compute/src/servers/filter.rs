//! The conditions of a listing of servers.

use std::collections::BTreeSet;

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult};
use placewright_placement::Timestamp;
use placewright_types::server::ServerBody;

use super::pattern::Pattern;
use super::server_view::ServerView;
use super::status::WORDS;
use super::tags::TAGS_MAX;
use crate::routed_request::RoutedRequest;

/// The conditions of a listing of servers.
pub(crate) struct Filter {
    /// The project whose servers are listed; all if none.
    project: Option<String>,
    /// Whether the conditions contradict themselves, so that no server matches.
    is_empty: bool,
    /// Conditions on a server's state, checked first because they are cheap.
    conditions: Vec<Condition>,
    /// Conditions that need the parsed body of the specification.
    costly: Vec<BodyCondition>,
    /// Regular expressions for names and descriptions, matched without a lock.
    patterns: Vec<(PatternField, Pattern)>,
}

/// The text that a regular expression is matched with.
#[derive(Clone, Copy)]
enum PatternField {
    Name,
    Description,
}

/// A condition on a server's records and state.
enum Condition {
    User(String),
    Id(String),
    Status(Vec<String>),
    VmState(Vec<String>),
    Task(Vec<String>),
    Power(u8),
    Host(String),
    Zone(String),
    Since(Timestamp),
    Before(Timestamp),
    Locked(bool),
}

/// A condition on the body of a server's specification, which has to be parsed.
enum BodyCondition {
    Flavor(String),
    Image(String),
    KeyName(String),
    Reservation(String),
    ConfigDrive(bool),
    Tags {
        tags: BTreeSet<String>,
        /// Whether all of the tags are required, or one.
        all: bool,
        /// Whether the condition is negated.
        not: bool,
    },
}

/// Parameters that everybody may use, with the version in which they were added.
const FOR_ALL: [(&str, u16); 27] = [
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
const FOR_ADMINISTRATORS: [&str; 21] = [
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

/// Parameters that may be repeated, each with a further value or key.
const MORE_THAN_ONCE: [&str; 5] = ["status", "vm_state", "task_state", "sort_key", "sort_dir"];

const OF_PAGES: [&str; 4] = ["limit", "marker", "sort_key", "sort_dir"];

impl Filter {
    /// Parses the conditions of a request.
    ///
    /// # Errors
    ///
    /// 400 for invalid values, 403 for other projects.
    pub(crate) fn of(call: &RoutedRequest<'_>, rule_for_all: Rule) -> ApiResult<Self> {
        let mut filter = Self {
            project: Some(call.project().to_owned()),
            is_empty: false,
            conditions: Vec::new(),
            costly: Vec::new(),
            patterns: Vec::new(),
        };
        if let Some(key) = call.query.repeated(&MORE_THAN_ONCE) {
            return Err(ApiError::field(key, "it may be there once only"));
        }
        let wants_all = call.query.boolean("all_tenants")?.unwrap_or(false);
        if wants_all {
            call.allow(rule_for_all)?;
            filter.project = None;
        }
        let may_all = call.is_allowed(Rule::ServersAllFilters);
        for (key, value) in call.query.iter() {
            if OF_PAGES.contains(&key) {
                continue;
            }
            let since = FOR_ALL.iter().find(|(name, _)| *name == key);
            let is_for_administrators = FOR_ADMINISTRATORS.contains(&key);
            match since {
                Some((_, since)) if call.version.since(*since) || may_all => {}
                _ if is_for_administrators && may_all => {}
                None if !is_for_administrators && call.version.since(75) => {
                    let message = "there is no such query parameter";
                    return Err(ApiError::field(key, message));
                }
                // Before version 2.75, parameters that are unknown or not allowed are ignored.
                _ => continue,
            }
            filter.add(call, key, value)?;
        }
        filter.add_repeated(call)?;
        Ok(filter)
    }

    fn add(&mut self, call: &RoutedRequest<'_>, key: &str, value: &str) -> ApiResult<()> {
        use Condition as C;
        let text = || value.to_owned();
        match key {
            "project_id" | "tenant_id" if self.project.is_none() => self.project = Some(text()),
            "user_id" => self.conditions.push(C::User(text())),
            "uuid" => self.conditions.push(C::Id(text())),
            "name" | "display_name" => {
                let pattern = Pattern::read(call, key, value)?;
                self.patterns.push((PatternField::Name, pattern));
            }
            "host" | "node" | "hypervisor_hostname" => self.conditions.push(C::Host(text())),
            "availability_zone" => self.conditions.push(C::Zone(text())),
            "power_state" => {
                let state = value
                    .parse()
                    .map_err(|_| ApiError::field(key, "it must be the number of a power state"))?;
                self.conditions.push(C::Power(state));
            }
            "locked" => {
                let locked = call.query.boolean(key)?.unwrap_or(true);
                self.conditions.push(C::Locked(locked));
            }
            "changes-since" => {
                self.conditions.extend(call.query.time(key)?.map(C::Since));
            }
            "changes-before" => {
                self.conditions.extend(call.query.time(key)?.map(C::Before));
            }
            "flavor" | "instance_type_id" => {
                self.costly.push(BodyCondition::Flavor(last_part(value)));
            }
            "image" | "image_ref" => self.costly.push(BodyCondition::Image(last_part(value))),
            "key_name" => self.costly.push(BodyCondition::KeyName(text())),
            "reservation_id" => self.costly.push(BodyCondition::Reservation(text())),
            "description" | "display_description" => {
                let pattern = Pattern::read(call, key, value)?;
                self.patterns.push((PatternField::Description, pattern));
            }
            "config_drive" => {
                let wanted = call.query.boolean(key)?.unwrap_or(true);
                self.costly.push(BodyCondition::ConfigDrive(wanted));
            }
            "tags" | "tags-any" | "not-tags" | "not-tags-any" => {
                let tags = value.split(',').filter(|tag| !tag.is_empty());
                let tags: BTreeSet<String> = tags.map(str::to_owned).collect();
                if tags.len() > TAGS_MAX {
                    let message = format!("it must have at most {TAGS_MAX} tags, as a server has");
                    return Err(ApiError::field(key, message));
                }
                self.costly.push(BodyCondition::Tags {
                    tags,
                    all: !key.ends_with("-any"),
                    not: key.starts_with("not-"),
                });
            }
            // Deleted servers are not kept, and servers have no addresses.
            "deleted" | "soft_deleted" => {
                let wanted = call.query.boolean(key)?.unwrap_or(true);
                self.is_empty |= wanted && call.is_allowed(Rule::ServersAllFilters);
            }
            "ip" | "ip6" | "access_ip_v4" | "access_ip_v6" => self.is_empty |= !value.is_empty(),
            _ => {}
        }
        Ok(())
    }

    /// Adds repeated parameters: one of their values has to match.
    fn add_repeated(&mut self, call: &RoutedRequest<'_>) -> ApiResult<()> {
        let all = |key| -> Vec<String> {
            let values = call.query.all(key);
            values.map(str::to_owned).collect()
        };
        let statuses: Vec<String> = all("status")
            .into_iter()
            .map(|status| status.to_ascii_uppercase())
            .collect();
        if !statuses.is_empty() {
            let unknown = statuses.iter().find(|one| !WORDS.contains(&one.as_str()));
            match unknown {
                Some(unknown) if call.version.since(38) => {
                    let message = format!("there is no status {unknown}");
                    return Err(ApiError::field("status", message));
                }
                Some(_) if statuses.len() == 1 => self.is_empty = true,
                _ => {}
            }
            if statuses.iter().any(|one| one == "DELETED")
                && !call.is_allowed(Rule::ServersAllFilters)
            {
                let message = "Only administrators may list deleted servers.";
                return Err(ApiError::forbidden(message));
            }
            self.conditions.push(Condition::Status(statuses));
        }
        let is_allowed = call.version.since(83) || call.is_allowed(Rule::ServersAllFilters);
        for (key, make) in [
            (
                "vm_state",
                Condition::VmState as fn(Vec<String>) -> Condition,
            ),
            (
                "task_state",
                Condition::Task as fn(Vec<String>) -> Condition,
            ),
        ] {
            let values = all(key);
            if is_allowed && !values.is_empty() {
                self.conditions.push(make(values));
            }
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// The project whose servers are listed; all if none.
    pub(crate) fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// Whether there are patterns, which [`Self::takes`] does not check.
    pub(crate) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// The texts that the patterns are matched with, in the patterns' order.
    pub(crate) fn texts(&self, seen: &ServerView<'_>) -> Vec<String> {
        let text = |matched: &PatternField| match matched {
            PatternField::Name => seen.name().to_owned(),
            PatternField::Description => seen.description().unwrap_or_default(),
        };
        self.patterns
            .iter()
            .map(|(matched, _)| text(matched))
            .collect()
    }

    /// Whether all patterns match their texts.
    pub(crate) fn matches(&self, texts: &[String]) -> bool {
        let mut pairs = self.patterns.iter().zip(texts);
        pairs.all(|((_, pattern), text)| pattern.is_in(text))
    }

    /// Whether a server of that project matches all conditions except the patterns.
    pub(crate) fn takes(&self, seen: &ServerView<'_>) -> bool {
        if !self.conditions.iter().all(|one| one.takes(seen)) {
            return false;
        }
        if self.costly.is_empty() {
            return true;
        }
        let shown = seen.shown();
        self.costly.iter().all(|one| one.takes(seen, &shown))
    }
}

impl Condition {
    fn takes(&self, seen: &ServerView<'_>) -> bool {
        let is_in = |all: &[String], one: &str| all.iter().any(|known| known == one);
        match self {
            Self::User(user) => *user == seen.mapping.user,
            Self::Id(id) => seen.id.to_string() == *id,
            Self::Status(words) => is_in(words, seen.status().status),
            Self::VmState(words) => is_in(words, seen.status().vm_state),
            Self::Task(words) => match seen.status().task {
                Some(task) => is_in(words, task),
                None => words.iter().any(|word| word.is_empty() || word == "None"),
            },
            Self::Power(state) => seen.status().power == *state,
            Self::Host(host) => seen.host().is_some_and(|(_, name)| name == host),
            Self::Zone(zone) => seen.zone().is_some_and(|known| known == zone),
            Self::Since(at) => seen.updated_at() >= *at,
            Self::Before(at) => seen.updated_at() <= *at,
            Self::Locked(locked) => {
                seen.labels.is_some_and(|labels| labels.lock.is_some()) == *locked
            }
        }
    }
}

impl BodyCondition {
    fn takes(&self, seen: &ServerView<'_>, shown: &ServerBody) -> bool {
        let server = &shown.server;
        match self {
            Self::Flavor(id) => server.flavor_id == *id,
            Self::Image(id) => server.image.as_ref() == Some(id),
            Self::KeyName(name) => server.key_name.as_ref() == Some(name),
            Self::Reservation(id) => server.reservation_id == *id,
            Self::ConfigDrive(wanted) => server.config_drive == *wanted,
            Self::Tags { tags, all, not } => {
                let own = seen.labels.map_or(&server.tags, |labels| &labels.tags);
                let mut has = tags.iter().map(|tag| own.contains(tag));
                let is_so = if *all {
                    has.all(|one| one)
                } else {
                    has.any(|one| one)
                };
                is_so != *not
            }
        }
    }
}

/// The id in a value that old clients give as a URL.
fn last_part(text: &str) -> String {
    text.rsplit('/').next().unwrap_or(text).to_owned()
}
