//! The hosts for which an agent may send messages.

use placewright_types::host_name::uuid_of_name;
use uuid::Uuid;

use crate::text::{self, NameError};

/// The hosts of a cell that one name in a certificate stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostPattern {
    /// The host with this name and with the UUID that is derived from the name.
    Named(String),
    /// The host with this name and this UUID.
    WithUuid(String, Uuid),
    /// All hosts whose names begin with this prefix, with the UUIDs that are derived from their names.
    Prefix(String),
    /// Every host of the cell, whatever its UUID.
    All,
}

impl HostPattern {
    /// Whether the pattern matches a host. The UUID has to match, too, because messages name hosts
    /// by UUID.
    #[must_use]
    pub fn matches(&self, name: &str, uuid: Uuid) -> bool {
        match self {
            Self::Named(host_name) => host_name == name && uuid == uuid_of_name(name),
            Self::WithUuid(host_name, host_uuid) => host_name == name && uuid == *host_uuid,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()) && uuid == uuid_of_name(name),
            Self::All => true,
        }
    }

    /// Whether the pattern matches a host with this name and some UUID.
    pub(crate) fn may_have_name(&self, name: &str) -> bool {
        match self {
            Self::Named(host_name) | Self::WithUuid(host_name, _) => host_name == name,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
            Self::All => true,
        }
    }

    /// Parses an argument of a command line: `NAME`, `NAME=UUID`, `PREFIX*` or `*`.
    ///
    /// # Errors
    ///
    /// The name is not allowed, or the UUID is not valid.
    pub fn from_argument(text: &str) -> Result<Self, NameError> {
        if text == "*" {
            return Ok(Self::All);
        }
        if let Some(prefix) = text.strip_suffix('*') {
            text::check_name(prefix)?;
            return Ok(Self::Prefix(prefix.to_owned()));
        }
        if let Some((name, uuid)) = text.rsplit_once('=') {
            text::check_name(name)?;
            let uuid = Uuid::try_parse(uuid).map_err(|_| NameError::Name(text.to_owned()))?;
            return Ok(Self::WithUuid(name.to_owned(), uuid));
        }
        text::check_name(text)?;
        Ok(Self::Named(text.to_owned()))
    }

    /// Appends the segments that follow `host/` in a URI.
    pub(crate) fn write_segments(&self, uri: &mut String) {
        match self {
            Self::Named(name) => text::encode(name, uri),
            Self::WithUuid(name, uuid) => {
                text::encode(name, uri);
                uri.push('/');
                uri.push_str(&uuid.hyphenated().to_string());
            }
            Self::Prefix(prefix) => {
                text::encode(prefix, uri);
                uri.push('*');
            }
            Self::All => uri.push('*'),
        }
    }

    /// Parses the segments that follow `host/` in a URI; `None` if they are not in the form in which they are written.
    pub(crate) fn from_segments(segment: &str, uuid: Option<&str>) -> Option<Self> {
        if let Some(uuid) = uuid {
            let host_uuid = Uuid::try_parse(uuid).ok()?;
            // Other spellings of the UUID are rejected, so that each host has one URI only.
            let is_canonical = host_uuid.hyphenated().to_string() == uuid;
            return is_canonical.then_some(Self::WithUuid(text::decode(segment)?, host_uuid));
        }
        match segment.strip_suffix('*') {
            Some("") => Some(Self::All),
            Some(prefix) => Some(Self::Prefix(text::decode(prefix)?)),
            None => Some(Self::Named(text::decode(segment)?)),
        }
    }

    /// The name or the prefix; `None` if the pattern has neither.
    pub(crate) fn name_or_prefix(&self) -> Option<&str> {
        match self {
            Self::Named(name) | Self::WithUuid(name, _) | Self::Prefix(name) => Some(name),
            Self::All => None,
        }
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::WithUuid(name, uuid) => write!(f, "{name}={uuid}"),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::All => f.write_str("*"),
        }
    }
}
