//! The arguments with the names of a certificate.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::bail;
use clap::{Args, ValueEnum};
use placewright_identity::{AgentNames, HostPattern, Role};

use super::span::TimeSpan;

/// The names in a certificate, and how long it is valid.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The role of the holder
    #[arg(long, value_enum)]
    role: RoleArg,

    /// The name of the cell, or of the agent's cell, as it is in control.cells
    #[arg(long, value_name = "NAME", required_if_eq_any([("role", "cell"), ("role", "agent")]))]
    cell: Option<String>,

    /// A host that the agent speaks for, by its name; NAME=UUID for one with a UUID of its own, PREFIX*
    /// for all that begin so, * for every host of the cell. May be given several times
    #[arg(long, value_name = "HOST", required_if_eq("role", "agent"))]
    host: Vec<String>,

    /// A name that the agent may have as agent.service_host, besides the names of its hosts
    #[arg(long, value_name = "NAME")]
    service: Vec<String>,

    /// A DNS name that the certificate has as well, for clients that check DNS names only
    #[arg(long, value_name = "NAME")]
    pub(super) dns: Vec<String>,

    /// An address that the certificate has as well
    #[arg(long, value_name = "ADDRESS")]
    pub(super) ip: Vec<IpAddr>,

    /// How long the certificate is valid: 12h, 7d [default: 7d]
    #[arg(long, value_name = "TIME")]
    pub(super) life: Option<TimeSpan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RoleArg {
    /// A process of control
    Control,
    /// A cell, named by --cell
    Cell,
    /// An agent of the cell named by --cell, for the hosts of --host
    Agent,
}

impl NameArgs {
    /// The role with its names.
    pub(super) fn role(&self) -> anyhow::Result<Role> {
        let cell = self.cell.clone().unwrap_or_default();
        if self.role != RoleArg::Agent && !(self.host.is_empty() && self.service.is_empty()) {
            bail!("--host and --service are for --role agent");
        }
        Ok(match self.role {
            RoleArg::Control if self.cell.is_some() => bail!("--cell is not for --role control"),
            RoleArg::Control => Role::Control,
            RoleArg::Cell => Role::Cell(cell),
            RoleArg::Agent => {
                let hosts = self
                    .host
                    .iter()
                    .map(|host| HostPattern::from_argument(host));
                Role::Agent(AgentNames {
                    cell,
                    hosts: hosts.collect::<Result<BTreeSet<_>, _>>()?,
                    services: self.service.iter().cloned().collect(),
                })
            }
        })
    }
}
