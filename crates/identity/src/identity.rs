//! The identity that the names in a certificate stand for.

use std::collections::BTreeSet;
use std::fmt;

use crate::SCHEME;
use crate::host::HostPattern;
use crate::text::{self, NameError};

/// The maximum number of names of a certificate. More would not fit into the messages of a TLS
/// handshake.
pub const NAMES_MAX: usize = 400;

/// The identity of the holder of a certificate: a role of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    installation: String,
    role: Role,
}

/// A role, with the names that a certificate of the role contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Control of the installation. It has no name of its own, because an installation has one control.
    Control,
    /// The cell of this name.
    Cell(String),
    /// An agent, with its cell and its hosts.
    Agent(AgentNames),
}

/// The names in an agent's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentNames {
    /// The name of the agent's cell.
    pub cell: String,
    /// The hosts for which the agent may send messages.
    pub hosts: BTreeSet<HostPattern>,
    /// The names of service hosts that the agent may report, besides the names of its hosts.
    pub services: BTreeSet<String>,
}

impl Identity {
    /// Creates the identity of a role.
    ///
    /// # Errors
    ///
    /// One of the names is not allowed, an agent has no host, or there are too many names.
    pub fn new(installation: &str, role: Role) -> Result<Self, NameError> {
        text::check_installation(installation)?;
        match &role {
            Role::Control => {}
            Role::Cell(cell) => text::check_name(cell)?,
            Role::Agent(names) => {
                text::check_name(&names.cell)?;
                if names.hosts.is_empty() {
                    return Err(NameError::NoRole);
                }
                let hosts = names.hosts.iter().filter_map(HostPattern::name_or_prefix);
                hosts
                    .chain(names.services.iter().map(String::as_str))
                    .try_for_each(text::check_name)?;
                let count = names.hosts.len() + names.services.len();
                if count > NAMES_MAX {
                    return Err(NameError::TooMany(count, NAMES_MAX));
                }
            }
        }
        Ok(Self {
            installation: installation.to_owned(),
            role,
        })
    }

    /// Parses the URIs of a certificate. URIs of other schemes are ignored.
    ///
    /// # Errors
    ///
    /// There is no URI with [`SCHEME`], a URI is not in a known form, the URIs are of several roles, or [`Self::new`]
    /// refuses the names.
    pub fn parse<'a>(uris: impl IntoIterator<Item = &'a str>) -> Result<Self, NameError> {
        let mut merged: Option<(&str, Self)> = None;
        let mut count = 0;
        for uri in uris {
            let Some(path) = strip_scheme(uri) else {
                continue;
            };
            count += 1;
            if count > NAMES_MAX {
                return Err(NameError::TooMany(count, NAMES_MAX));
            }
            let identity = parse_uri(uri, path)?;
            match &mut merged {
                None => merged = Some((uri, identity)),
                Some((first_uri, merged_identity)) => {
                    merged_identity.merge(first_uri, uri, identity)?;
                }
            }
        }
        let (_, merged_identity) = merged.ok_or(NameError::NoRole)?;
        Self::new(&merged_identity.installation, merged_identity.role)
    }

    /// Adds the names of another URI of the same certificate. `first_uri` is for the error.
    fn merge(&mut self, first_uri: &str, uri: &str, other: Self) -> Result<(), NameError> {
        let mixed = || NameError::Mixed(first_uri.to_owned(), uri.to_owned());
        if self.installation != other.installation {
            return Err(mixed());
        }
        match (&mut self.role, other.role) {
            (Role::Agent(names), Role::Agent(others)) if names.cell == others.cell => {
                names.hosts.extend(others.hosts);
                names.services.extend(others.services);
                Ok(())
            }
            _ => Err(mixed()),
        }
    }

    /// The name of the installation.
    #[must_use]
    pub fn installation(&self) -> &str {
        &self.installation
    }

    /// The role of the holder, with the names that belong to it.
    #[must_use]
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The name of the cell, or of an agent's cell; `None` for control.
    #[must_use]
    pub fn cell(&self) -> Option<&str> {
        match &self.role {
            Role::Control => None,
            Role::Cell(cell) => Some(cell),
            Role::Agent(names) => Some(&names.cell),
        }
    }

    /// The URIs of a certificate with this identity.
    #[must_use]
    pub fn uris(&self) -> Vec<String> {
        let base = format!("{SCHEME}://{}", self.installation);
        let cell_uri = |cell: &str| {
            let mut uri = format!("{base}/cell/");
            text::encode(cell, &mut uri);
            uri
        };
        match &self.role {
            Role::Control => vec![format!("{base}/control")],
            Role::Cell(cell) => vec![cell_uri(cell)],
            Role::Agent(names) => {
                let cell = cell_uri(&names.cell);
                let hosts = names.hosts.iter().map(|host| {
                    let mut uri = format!("{cell}/host/");
                    host.write_segments(&mut uri);
                    uri
                });
                let services = names.services.iter().map(|service| {
                    let mut uri = format!("{cell}/service/");
                    text::encode(service, &mut uri);
                    uri
                });
                hosts.chain(services).collect()
            }
        }
    }
}

/// The part of a URI that follows [`SCHEME`], which may be in upper case; `None` for URIs of other schemes.
fn strip_scheme(uri: &str) -> Option<&str> {
    let (scheme, path) = uri.split_once("://")?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(path)
}

/// Parses one of a certificate's URIs. `path` is the URI without its scheme.
fn parse_uri(uri: &str, path: &str) -> Result<Identity, NameError> {
    let unknown_form = || NameError::UnknownForm(uri.to_owned());
    let mut segments = path.split('/');
    let installation = segments.next().unwrap_or_default();
    let segments: Vec<&str> = segments.collect();
    let name = |segment| text::decode(segment).ok_or_else(unknown_form);
    let host = |segment, uuid| HostPattern::from_segments(segment, uuid).ok_or_else(unknown_form);
    let agent = |cell, host_pattern: Option<HostPattern>, service: Option<String>| {
        Ok(Role::Agent(AgentNames {
            cell: name(cell)?,
            hosts: host_pattern.into_iter().collect(),
            services: service.into_iter().collect(),
        }))
    };
    let role = match segments.as_slice() {
        ["control"] => Role::Control,
        ["cell", cell] => Role::Cell(name(cell)?),
        ["cell", cell, "host", host_segment] => agent(cell, Some(host(host_segment, None)?), None)?,
        ["cell", cell, "host", host_segment, uuid] => {
            agent(cell, Some(host(host_segment, Some(*uuid))?), None)?
        }
        ["cell", cell, "service", service] => agent(cell, None, Some(name(service)?))?,
        _ => return Err(unknown_form()),
    };
    text::check_installation(installation)?;
    if let Role::Agent(names) = &role {
        text::check_name(&names.cell)?;
        let hosts = names.hosts.iter().filter_map(HostPattern::name_or_prefix);
        hosts
            .chain(names.services.iter().map(String::as_str))
            .try_for_each(text::check_name)?;
        // This URI alone may have no host. The identity is checked when the names of all URIs are
        // merged.
        return Ok(Identity {
            installation: installation.to_owned(),
            role,
        });
    }
    Identity::new(installation, role)
}

/// The maximum number of URIs that are shown when an identity is printed.
const SHOWN_URIS_MAX: usize = 3;

/// For logs and messages: the first URIs, and the number of others.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uris = self.uris();
        for (number, uri) in uris.iter().take(SHOWN_URIS_MAX).enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{uri}")?;
        }
        match uris.len().saturating_sub(SHOWN_URIS_MAX) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
