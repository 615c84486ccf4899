//! What the names in a certificate say.

use std::collections::BTreeSet;
use std::fmt;

use crate::SCHEME;
use crate::host::HostPattern;
use crate::text::{self, NameError};

/// The most names of one certificate. More would not fit into the messages of a TLS handshake.
pub const NAMES_MAX: usize = 400;

/// The holder of a certificate: a role of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    installation: String,
    role: Role,
}

/// A role, and what its holder may speak for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Control.
    Control,
    /// The cell of this name.
    Cell(String),
    /// An agent.
    Agent(AgentNames),
}

/// What an agent may speak for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentNames {
    /// The name of its cell.
    pub cell: String,
    /// Its hosts.
    pub hosts: BTreeSet<HostPattern>,
    /// Names of services, besides those of its hosts.
    pub services: BTreeSet<String>,
}

impl Identity {
    /// An identity of a role.
    ///
    /// # Errors
    ///
    /// One of the names is not allowed, an agent has no host, or there are too many names.
    pub fn new(installation: &str, role: Role) -> Result<Self, NameError> {
        text::installation(installation)?;
        match &role {
            Role::Control => {}
            Role::Cell(cell) => text::name(cell)?,
            Role::Agent(names) => {
                text::name(&names.cell)?;
                if names.hosts.is_empty() {
                    return Err(NameError::None);
                }
                let hosts = names.hosts.iter().filter_map(HostPattern::text);
                hosts
                    .chain(names.services.iter().map(String::as_str))
                    .try_for_each(text::name)?;
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

    /// Reads the URIs of a certificate. Those of other schemes do not count.
    ///
    /// # Errors
    ///
    /// None is left, one of them is not in a known form, or they are of several roles.
    pub fn parse<'a>(uris: impl IntoIterator<Item = &'a str>) -> Result<Self, NameError> {
        let mut found: Option<(&str, Self)> = None;
        let mut count = 0;
        for uri in uris {
            let Some(rest) = own_part(uri) else { continue };
            count += 1;
            if count > NAMES_MAX {
                return Err(NameError::TooMany(count, NAMES_MAX));
            }
            let one = parse_one(uri, rest)?;
            match &mut found {
                None => found = Some((uri, one)),
                Some((first, whole)) => whole.join(first, uri, one)?,
            }
        }
        let (_, whole) = found.ok_or(NameError::None)?;
        Self::new(&whole.installation, whole.role)
    }

    /// Adds what another URI of the same certificate says.
    fn join(&mut self, first: &str, uri: &str, other: Self) -> Result<(), NameError> {
        let mixed = || NameError::Mixed(first.to_owned(), uri.to_owned());
        if self.installation != other.installation {
            return Err(mixed());
        }
        match (&mut self.role, other.role) {
            (Role::Agent(names), Role::Agent(more)) if names.cell == more.cell => {
                names.hosts.extend(more.hosts);
                names.services.extend(more.services);
                Ok(())
            }
            _ => Err(mixed()),
        }
    }

    /// The installation.
    #[must_use]
    pub fn installation(&self) -> &str {
        &self.installation
    }

    /// The role.
    #[must_use]
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The name of the cell that it is, or that it belongs to.
    #[must_use]
    pub fn cell(&self) -> Option<&str> {
        match &self.role {
            Role::Control => None,
            Role::Cell(cell) => Some(cell),
            Role::Agent(names) => Some(&names.cell),
        }
    }

    /// The URIs that say it.
    #[must_use]
    pub fn uris(&self) -> Vec<String> {
        let base = format!("{SCHEME}://{}", self.installation);
        let of_cell = |cell: &str| {
            let mut uri = format!("{base}/cell/");
            text::encode(cell, &mut uri);
            uri
        };
        match &self.role {
            Role::Control => vec![format!("{base}/control")],
            Role::Cell(cell) => vec![of_cell(cell)],
            Role::Agent(names) => {
                let cell = of_cell(&names.cell);
                let hosts = names.hosts.iter().map(|host| {
                    let mut uri = format!("{cell}/host/");
                    host.write(&mut uri);
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

/// The part behind the scheme, if it is ours; its letters may be of either case.
fn own_part(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once("://")?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(rest)
}

fn parse_one(uri: &str, rest: &str) -> Result<Identity, NameError> {
    let unknown = || NameError::NotAName(uri.to_owned());
    let mut parts = rest.split('/');
    let installation = parts.next().unwrap_or_default();
    let parts: Vec<&str> = parts.collect();
    let name = |segment| text::decode(segment).ok_or_else(unknown);
    let host = |segment, uuid| HostPattern::parse(segment, uuid).ok_or_else(unknown);
    let agent = |cell, hosts: Option<HostPattern>, services: Option<String>| {
        Ok(Role::Agent(AgentNames {
            cell: name(cell)?,
            hosts: hosts.into_iter().collect(),
            services: services.into_iter().collect(),
        }))
    };
    let role = match parts.as_slice() {
        ["control"] => Role::Control,
        ["cell", cell] => Role::Cell(name(cell)?),
        ["cell", cell, "host", one] => agent(cell, Some(host(one, None)?), None)?,
        ["cell", cell, "host", one, uuid] => agent(cell, Some(host(one, Some(*uuid))?), None)?,
        ["cell", cell, "service", service] => agent(cell, None, Some(name(service)?))?,
        _ => return Err(unknown()),
    };
    text::installation(installation)?;
    if let Role::Agent(names) = &role {
        text::name(&names.cell)?;
        let hosts = names.hosts.iter().filter_map(HostPattern::text);
        hosts
            .chain(names.services.iter().map(String::as_str))
            .try_for_each(text::name)?;
        // A service alone is no agent yet: the whole is checked when all names are there.
        return Ok(Identity {
            installation: installation.to_owned(),
            role,
        });
    }
    Identity::new(installation, role)
}

/// The most hosts that are named when an identity is printed.
const SHOWN_MAX: usize = 3;

/// For logs and messages: a URI, or an agent with its first hosts.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uris = self.uris();
        for (number, uri) in uris.iter().take(SHOWN_MAX).enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{uri}")?;
        }
        match uris.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
