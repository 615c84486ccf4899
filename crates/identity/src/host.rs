//! The hosts that an agent may speak for.

use placewright_types::host_name::uuid_of_name;
use uuid::Uuid;

use crate::text::{self, NameError};

/// One or many hosts of a cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostPattern {
    /// The host of this name, with the UUID that is made of the name.
    Named(String),
    /// The host of this name and UUID.
    Known(String, Uuid),
    /// All hosts whose names begin so, with UUIDs that are made of their names.
    Prefix(String),
    /// Every host of the cell, whatever its UUID.
    All,
}

impl HostPattern {
    /// Whether the host is one of these. The UUID counts too: it is what every message names.
    #[must_use]
    pub fn matches(&self, name: &str, uuid: Uuid) -> bool {
        match self {
            Self::Named(own) => own == name && uuid == uuid_of_name(name),
            Self::Known(own, known) => own == name && uuid == *known,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()) && uuid == uuid_of_name(name),
            Self::All => true,
        }
    }

    /// Whether a host of this name may be one of these.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        match self {
            Self::Named(own) | Self::Known(own, _) => own == name,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
            Self::All => true,
        }
    }

    /// Reads what a command line says: `NAME`, `NAME=UUID`, `PREFIX*` or `*`.
    ///
    /// # Errors
    ///
    /// The name is not allowed, or the UUID is none.
    pub fn read(text: &str) -> Result<Self, NameError> {
        if text == "*" {
            return Ok(Self::All);
        }
        if let Some(prefix) = text.strip_suffix('*') {
            text::name(prefix)?;
            return Ok(Self::Prefix(prefix.to_owned()));
        }
        if let Some((name, uuid)) = text.rsplit_once('=') {
            text::name(name)?;
            let uuid = Uuid::try_parse(uuid).map_err(|_| NameError::Name(text.to_owned()))?;
            return Ok(Self::Known(name.to_owned(), uuid));
        }
        text::name(text)?;
        Ok(Self::Named(text.to_owned()))
    }

    /// Adds the segments of the URI behind `host/`.
    pub(crate) fn write(&self, into: &mut String) {
        match self {
            Self::Named(name) => text::encode(name, into),
            Self::Known(name, uuid) => {
                text::encode(name, into);
                into.push('/');
                into.push_str(&uuid.hyphenated().to_string());
            }
            Self::Prefix(prefix) => {
                text::encode(prefix, into);
                into.push('*');
            }
            Self::All => into.push('*'),
        }
    }

    /// Reads the segments of the URI behind `host/`.
    pub(crate) fn parse(segment: &str, uuid: Option<&str>) -> Option<Self> {
        if let Some(uuid) = uuid {
            let known = Uuid::try_parse(uuid).ok()?;
            // Each host has one form only.
            let is_plain = known.hyphenated().to_string() == uuid;
            return is_plain.then_some(Self::Known(text::decode(segment)?, known));
        }
        match segment.strip_suffix('*') {
            Some("") => Some(Self::All),
            Some(prefix) => Some(Self::Prefix(text::decode(prefix)?)),
            None => Some(Self::Named(text::decode(segment)?)),
        }
    }

    /// The name or prefix of the pattern, to be checked.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Named(name) | Self::Known(name, _) | Self::Prefix(name) => Some(name),
            Self::All => None,
        }
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Known(name, uuid) => write!(f, "{name}={uuid}"),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::All => f.write_str("*"),
        }
    }
}
