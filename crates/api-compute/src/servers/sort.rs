//! The order of a listing of servers.

use std::cell::OnceCell;
use std::cmp::Ordering;

use placewright_conductor::InstanceId;
use placewright_http::{ApiError, ApiResult};
use placewright_types::server::ServerBody;

use super::server_view::ServerView;
use crate::routed_request::RoutedRequest;

/// The columns that servers are sorted by, the most significant first.
pub(crate) struct Order {
    columns: Vec<(Column, bool)>,
    /// Whether ids, which are compared last, are in descending order.
    ids_descend: bool,
}

/// A column to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Created,
    Updated,
    Id,
    Name,
    Description,
    VmState,
    Task,
    Power,
    Host,
    Zone,
    Project,
    User,
    Flavor,
    Image,
    LaunchIndex,
    Hostname,
    KeyName,
    Locked,
    /// A column that has the same value for all servers.
    Nothing,
}

/// The value of a column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Number(i64),
    Text(String),
}

/// The sort key of a server. Most listings have one column.
pub(crate) struct Key {
    first: Value,
    rest: Vec<Value>,
    pub(crate) id: InstanceId,
}

impl Column {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "created_at" => Self::Created,
            "updated_at" => Self::Updated,
            "uuid" | "id" => Self::Id,
            "display_name" => Self::Name,
            "display_description" => Self::Description,
            "vm_state" => Self::VmState,
            "task_state" => Self::Task,
            "power_state" => Self::Power,
            "host" | "node" => Self::Host,
            "availability_zone" => Self::Zone,
            "project_id" => Self::Project,
            "user_id" => Self::User,
            "instance_type_id" => Self::Flavor,
            "image_ref" => Self::Image,
            "launch_index" => Self::LaunchIndex,
            "hostname" => Self::Hostname,
            "key_name" => Self::KeyName,
            "locked" => Self::Locked,
            "access_ip_v4"
            | "access_ip_v6"
            | "auto_disk_config"
            | "config_drive"
            | "ephemeral_gb"
            | "kernel_id"
            | "launched_at"
            | "memory_mb"
            | "os_type"
            | "progress"
            | "ramdisk_id"
            | "root_device_name"
            | "root_gb"
            | "terminated_at"
            | "vcpus"
            | "cell_name"
            | "internal_id"
            | "default_ephemeral_device"
            | "default_swap_device"
            | "architecture"
            | "disable_terminate"
            | "ephemeral_key_uuid"
            | "locked_by"
            | "reservation_id"
            | "shutdown_terminate"
            | "vm_mode" => Self::Nothing,
            _ => return None,
        })
    }

    /// Whether only administrators may sort by the column.
    ///
    /// Source: Nova's `servers.py`, `remove_invalid_sort_keys`.
    fn is_for_administrators(self) -> bool {
        self == Self::Host
    }

    fn value(self, seen: &ServerView<'_>, shown: &OnceCell<ServerBody>) -> Value {
        let text = |text: Option<&str>| Value::Text(text.unwrap_or("").to_owned());
        let body = || shown.get_or_init(|| seen.shown());
        let server = || &body().server;
        match self {
            Self::Created => Value::Number(seen.mapping.created_at.0),
            Self::Updated => Value::Number(seen.updated_at().0),
            Self::Id | Self::Nothing => Value::Number(0),
            Self::Name => text(Some(seen.name())),
            Self::Description => text(match seen.labels {
                Some(labels) => labels.description.as_deref(),
                None => server().description.as_deref(),
            }),
            Self::VmState => text(Some(seen.status().vm_state)),
            Self::Task => text(seen.status().task),
            Self::Power => Value::Number(seen.status().power.into()),
            Self::Host => text(seen.host().map(|(_, name)| name)),
            Self::Zone => text(seen.zone()),
            Self::Project => text(Some(&seen.mapping.project)),
            Self::User => text(Some(&seen.mapping.user)),
            Self::Flavor => text(Some(&server().flavor_id)),
            Self::Image => text(server().image.as_deref()),
            Self::LaunchIndex => Value::Number(body().own.launch_index.into()),
            Self::Hostname => text(Some(&body().own.hostname)),
            Self::KeyName => text(server().key_name.as_deref()),
            Self::Locked => Value::Number(
                seen.labels
                    .is_some_and(|labels| labels.lock.is_some())
                    .into(),
            ),
        }
    }
}

impl Order {
    /// The order that a request wants; the default is the youngest first.
    pub(crate) fn of(call: &RoutedRequest<'_>) -> ApiResult<Self> {
        let mut columns = Vec::new();
        let mut directions = call.query.all("sort_dir");
        let mut descends = true;
        for name in call.query.all("sort_key") {
            let column = Column::of(name).ok_or_else(|| {
                ApiError::field("sort_key", format!("servers cannot be sorted by {name}"))
            })?;
            if column.is_for_administrators() && !call.sees_all_projects() {
                let message = format!("Only administrators can sort servers by {name}.");
                return Err(ApiError::forbidden(message));
            }
            descends = match directions.next() {
                None => descends,
                Some("asc") => false,
                Some("desc") => true,
                Some(other) => return Err(no_direction(other)),
            };
            if columns.is_empty() && column == Column::Id {
                columns.push((Column::Nothing, descends));
                break;
            }
            // A repeated column has no further effect.
            if !columns.iter().any(|(known, _)| *known == column) {
                columns.push((column, descends));
            }
        }
        if columns.is_empty() {
            descends = match directions.next() {
                Some("asc") => false,
                None | Some("desc") => true,
                Some(other) => return Err(no_direction(other)),
            };
            columns.push((Column::Created, descends));
        }
        Ok(Self {
            columns,
            ids_descend: descends,
        })
    }

    /// Whether servers are ordered by age alone; true for the youngest first.
    pub(crate) fn by_age(&self) -> Option<bool> {
        match self.columns[..] {
            [(Column::Created, descends)] => Some(descends),
            _ => None,
        }
    }

    /// The sort key of a server.
    pub(crate) fn key(&self, seen: &ServerView<'_>) -> Key {
        let shown = OnceCell::new();
        let columns = self.columns.iter();
        let mut values = columns.map(|(column, _)| column.value(seen, &shown));
        Key {
            first: values.next().unwrap_or(Value::Number(0)),
            rest: values.collect(),
            id: seen.id,
        }
    }

    pub(crate) fn compare(&self, one: &Key, other: &Key) -> Ordering {
        let pairs =
            std::iter::once((&one.first, &other.first)).chain(one.rest.iter().zip(&other.rest));
        for ((one, other), (_, descends)) in pairs.zip(&self.columns) {
            let order = one.cmp(other);
            if order.is_ne() {
                return turned(order, *descends);
            }
        }
        turned(one.id.cmp(&other.id), self.ids_descend)
    }
}

fn turned(order: Ordering, descends: bool) -> Ordering {
    if descends { order.reverse() } else { order }
}

fn no_direction(text: &str) -> ApiError {
    ApiError::field("sort_dir", format!("it must be asc or desc, not {text:?}"))
}
