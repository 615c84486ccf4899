//! Which messages an agent with a certificate may send on its stream.

use std::collections::BTreeMap;

use placewright_conductor::HostId;
use placewright_identity::Call;
use placewright_link::ToCell;
use placewright_types::host_state::{HostNames, HostUpdate};
use tonic::Status;

use crate::access::CertificateHolder;

/// The stream of an agent with a certificate.
///
/// A message has the UUID of its host, but most certificates have only names of hosts. The start of a
/// session has both, so it has to precede any other message about its host on the stream.
pub(crate) struct AuthorizedStream {
    pub(crate) holder: CertificateHolder,
    /// The name of the cell that the agent joined.
    cell: String,
    /// The names of the hosts for which a session was started on this stream.
    host_names: BTreeMap<HostId, String>,
}

impl AuthorizedStream {
    pub(crate) fn new(holder: CertificateHolder) -> Self {
        let current = holder.own_credentials.current();
        Self {
            cell: current.identity().cell().unwrap_or_default().to_owned(),
            holder,
            host_names: BTreeMap::new(),
        }
    }

    /// Checks that the agent may send a message.
    pub(crate) fn check(&mut self, message: &ToCell) -> Result<(), Status> {
        match message {
            ToCell::Started(start) => {
                self.check_host(&start.name, start.host)?;
                self.host_names.insert(start.host, start.name.clone());
                Ok(())
            }
            ToCell::StepEnded { host, .. } | ToCell::Destroyed { host, .. } => {
                self.name_of(*host).map(drop)
            }
            ToCell::State { host, update } => {
                let name = self.name_of(*host)?;
                match &update.update {
                    HostUpdate::Full(report) => self.check_names(name, &report.facts.names),
                    HostUpdate::Facts(facts) => self.check_names(name, &facts.names),
                    _ => Ok(()),
                }
            }
            ToCell::Alive { hosts } => hosts
                .iter()
                .try_for_each(|host| self.name_of(*host).map(drop)),
        }
    }

    /// Checks that the certificate is for this host.
    fn check_host(&self, name: &str, host: HostId) -> Result<(), Status> {
        self.holder.check(&Call::ReportHost {
            cell: &self.cell,
            name,
            uuid: host.0,
        })
    }

    /// The name of a host; a refusal if no session was started for the host on this stream.
    fn name_of(&self, host: HostId) -> Result<&str, Status> {
        let name = self.host_names.get(&host).map(String::as_str);
        name.ok_or_else(|| {
            self.holder.refuse(&format!(
                "it says something of the host {host}, which it did not begin a session for on this \
                 connection"
            ))
        })
    }

    /// Checks the names that a host reports, by which schedulers and operators find it.
    fn check_names(&self, name: &str, names: &HostNames) -> Result<(), Status> {
        if names.node != name {
            let node = &names.node;
            return Err(self
                .holder
                .refuse(&format!("it calls the node of the host {name:?} {node:?}")));
        }
        self.holder.check(&Call::ReportServiceHost {
            cell: &self.cell,
            service_host: &names.service_host,
        })
    }
}
