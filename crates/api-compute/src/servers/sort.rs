//! The order of a listing of servers.

use std::cell::OnceCell;
use std::cmp::Ordering;

use placewright_conductor::InstanceId;
use placewright_http::{ApiError, ApiResult};
use placewright_types::server::ServerBody;

use super::server_view::ServerView;
use crate::routed_request::RoutedRequest;

/// The order of a listing: the columns by which servers are sorted, the most significant first.
pub(crate) struct Order {
    /// Each column with whether it is in descending order.
    columns: Vec<(Column, bool)>,
    /// Whether ids, which are compared last, are in descending order.
    ids_descending: bool,
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
    /// A column that is accepted and not sorted by: all servers count as equal in it. Nova ignores most of these sort
    /// keys, too; the values of the others are not known here.
    Ignored,
}

/// The value of a column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ColumnValue {
    Number(i64),
    Text(String),
}

/// The sort key of a server. Most listings are sorted by one column only. So the first value has a field of its own:
/// then the vector of the other values is empty, and needs no allocation.
pub(crate) struct SortKey {
    first_value: ColumnValue,
    other_values: Vec<ColumnValue>,
    pub(crate) id: InstanceId,
}

impl Column {
    fn from_name(name: &str) -> Option<Self> {
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
            | "vm_mode" => Self::Ignored,
            _ => return None,
        })
    }

    /// Whether only administrators may sort by the column.
    ///
    /// Source: Nova's `servers.py`, `remove_invalid_sort_keys`.
    fn is_for_administrators(self) -> bool {
        self == Self::Host
    }

    fn value(self, server: &ServerView<'_>, decoded_body: &OnceCell<ServerBody>) -> ColumnValue {
        let text = |text: Option<&str>| ColumnValue::Text(text.unwrap_or("").to_owned());
        let body = || decoded_body.get_or_init(|| server.body());
        let server_fields = || &body().server;
        match self {
            Self::Created => ColumnValue::Number(server.mapping.created_at.0),
            Self::Updated => ColumnValue::Number(server.updated_at().0),
            Self::Id | Self::Ignored => ColumnValue::Number(0),
            Self::Name => text(Some(server.name())),
            Self::Description => text(match server.labels {
                Some(labels) => labels.description.as_deref(),
                None => server_fields().description.as_deref(),
            }),
            Self::VmState => text(Some(server.status().vm_state)),
            Self::Task => text(server.status().task_state),
            Self::Power => ColumnValue::Number(server.status().power_state.into()),
            Self::Host => text(server.host().map(|(_, name)| name)),
            Self::Zone => text(server.zone()),
            Self::Project => text(Some(&server.mapping.project)),
            Self::User => text(Some(&server.mapping.user)),
            Self::Flavor => text(Some(&server_fields().flavor_id)),
            Self::Image => text(server_fields().image.as_deref()),
            Self::LaunchIndex => ColumnValue::Number(body().own.launch_index.into()),
            Self::Hostname => text(Some(&body().own.hostname)),
            Self::KeyName => text(server_fields().key_name.as_deref()),
            Self::Locked => ColumnValue::Number(
                server
                    .labels
                    .is_some_and(|labels| labels.lock.is_some())
                    .into(),
            ),
        }
    }
}

impl Order {
    /// Parses the order of a listing; by default the youngest server is the first.
    pub(crate) fn parse(request: &RoutedRequest<'_>) -> ApiResult<Self> {
        let mut columns = Vec::new();
        let mut directions = request.query.all("sort_dir");
        let mut descending = true;
        for name in request.query.all("sort_key") {
            let column = Column::from_name(name).ok_or_else(|| {
                ApiError::field("sort_key", format!("servers cannot be sorted by {name}"))
            })?;
            if column.is_for_administrators() && !request.sees_all_projects() {
                let message = format!("Only administrators can sort servers by {name}.");
                return Err(ApiError::forbidden(message));
            }
            // A column without a direction has the direction of the previous column. (Nova takes the first direction.)
            descending = match directions.next() {
                None => descending,
                Some("asc") => false,
                Some("desc") => true,
                Some(other) => return Err(direction_error(other)),
            };
            // Columns after the id have no effect, because no two servers have the same id. If it is the first column,
            // an ignored column stands for it, because ids are compared after all columns anyway.
            if column == Column::Id {
                if columns.is_empty() {
                    columns.push((Column::Ignored, descending));
                }
                break;
            }
            // A repeated column has no further effect.
            if !columns.iter().any(|(sorted_by, _)| *sorted_by == column) {
                columns.push((column, descending));
            }
        }
        if columns.is_empty() {
            descending = match directions.next() {
                Some("asc") => false,
                None | Some("desc") => true,
                Some(other) => return Err(direction_error(other)),
            };
            columns.push((Column::Created, descending));
        }
        Ok(Self {
            columns,
            ids_descending: descending,
        })
    }

    /// Whether the youngest server is the first, if servers are sorted by age alone. `None` for other
    /// orders.
    pub(crate) fn is_youngest_first(&self) -> Option<bool> {
        match self.columns[..] {
            [(Column::Created, descending)] => Some(descending),
            _ => None,
        }
    }

    /// The sort key of a server.
    pub(crate) fn key(&self, server: &ServerView<'_>) -> SortKey {
        let decoded_body = OnceCell::new();
        let columns = self.columns.iter();
        let mut values = columns.map(|(column, _)| column.value(server, &decoded_body));
        SortKey {
            first_value: values.next().unwrap_or(ColumnValue::Number(0)),
            other_values: values.collect(),
            id: server.id,
        }
    }

    pub(crate) fn compare(&self, left: &SortKey, right: &SortKey) -> Ordering {
        let pairs = std::iter::once((&left.first_value, &right.first_value))
            .chain(left.other_values.iter().zip(&right.other_values));
        for ((left, right), (_, descending)) in pairs.zip(&self.columns) {
            let order = left.cmp(right);
            if order.is_ne() {
                return in_direction(order, *descending);
            }
        }
        in_direction(left.id.cmp(&right.id), self.ids_descending)
    }
}

fn in_direction(order: Ordering, descending: bool) -> Ordering {
    if descending { order.reverse() } else { order }
}

fn direction_error(text: &str) -> ApiError {
    ApiError::field("sort_dir", format!("it must be asc or desc, not {text:?}"))
}
