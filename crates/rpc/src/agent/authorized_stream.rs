//! What an agent with a certificate may say on its stream.

use std::collections::BTreeMap;

use placewright_conductor::HostId;
use placewright_identity::Call;
use placewright_link::ToCell;
use placewright_types::host_state::{HostNames, HostUpdate};
use tonic::Status;

use crate::access::Holder;

/// An agent with a certificate on one stream.
///
/// A message names its host by UUID, a certificate mostly by name. What ties both is the start of a
/// session, which has to come first for each host of a stream and names both.
pub(crate) struct Speaker {
    pub(crate) holder: Holder,
    /// The name of the cell that it joined.
    cell: String,
    /// The hosts that began a session on this stream, with their names.
    begun: BTreeMap<HostId, String>,
}

impl Speaker {
    pub(crate) fn new(holder: Holder) -> Self {
        let current = holder.here.current();
        Self {
            cell: current.identity().cell().unwrap_or_default().to_owned(),
            holder,
            begun: BTreeMap::new(),
        }
    }

    /// Whether the agent may say this.
    pub(crate) fn check(&mut self, message: &ToCell) -> Result<(), Status> {
        match message {
            ToCell::Started(start) => {
                self.may_be(&start.name, start.host)?;
                self.begun.insert(start.host, start.name.clone());
                Ok(())
            }
            ToCell::StepEnded { host, .. } | ToCell::Destroyed { host, .. } => {
                self.name_of(*host).map(drop)
            }
            ToCell::State { host, update } => {
                let name = self.name_of(*host)?;
                match &update.update {
                    HostUpdate::Full(report) => self.may_say(name, &report.facts.names),
                    HostUpdate::Facts(facts) => self.may_say(name, &facts.names),
                    _ => Ok(()),
                }
            }
            ToCell::Alive { hosts } => hosts
                .iter()
                .try_for_each(|host| self.name_of(*host).map(drop)),
        }
    }

    fn may_be(&self, name: &str, host: HostId) -> Result<(), Status> {
        self.holder.may(&Call::SpeakFor {
            cell: &self.cell,
            name,
            uuid: host.0,
        })
    }

    /// The name of a host that began a session on this stream.
    fn name_of(&self, host: HostId) -> Result<&str, Status> {
        let name = self.begun.get(&host).map(String::as_str);
        name.ok_or_else(|| {
            self.holder.refuse(&format!(
                "it says something of the host {host}, which it did not begin a session for on this \
                 connection"
            ))
        })
    }

    /// Whether these are names of the host: schedulers find it by them.
    fn may_say(&self, name: &str, names: &HostNames) -> Result<(), Status> {
        if names.node != name {
            let node = &names.node;
            return Err(self
                .holder
                .refuse(&format!("it calls the node of the host {name:?} {node:?}")));
        }
        self.holder.may(&Call::NameService {
            cell: &self.cell,
            service: &names.service_host,
        })
    }
}
