//! Flavors, key pairs, server groups, aggregates, services; and the specifications and labels of
//! instances.

use placewright_placement as placement;
use uuid::Uuid;

use super::{Command, DecisionContext, Outcome, Refusal, exists, not_found, wrong_state};
use crate::ids::{HostId, InstanceId};
use crate::spec::Spec;
use crate::super_conductor::rows::{
    Aggregate, Flavor, GroupTopology, Keypair, Labels, ServerGroup, Service,
};
use crate::super_conductor::state::Change;

/// The trait of hosts whose compute service is disabled.
const DISABLED: &str = "COMPUTE_STATUS_DISABLED";
/// The key of an aggregate's metadata that makes it an availability zone.
const ZONE: &str = "availability_zone";

impl DecisionContext<'_> {
    /// Decides the commands that replace or remove one row of a table.
    pub(super) fn decide_row(&mut self, command: &Command) -> Result<Outcome, Refusal> {
        match command {
            Command::SetFlavor { id, flavor } => self.set_flavor(id, flavor.as_ref()),
            Command::SetKeypair {
                user,
                name,
                keypair,
            } => self.set_keypair(user, name, keypair.as_ref()),
            Command::SetGroup {
                group,
                row,
                topology,
            } => self.set_group(*group, row.as_ref(), topology.as_ref()),
            Command::SetAggregate { aggregate, row } => {
                self.set_aggregate(*aggregate, row.as_ref())
            }
            Command::SetService { host, service } => self.set_service(*host, service),
            _ => Ok(Outcome::Done),
        }
    }

    fn set_flavor(&mut self, id: &str, flavor: Option<&Flavor>) -> Result<Outcome, Refusal> {
        let known = self.state.flavors.get(id);
        if flavor.is_none() && known.is_none() {
            return Err(not_found("flavor", &id));
        }
        if let Some(flavor) = flavor {
            let mut others = self.state.flavors.iter();
            if others.any(|(other, row)| other != id && row.name == flavor.name) {
                return Err(exists("flavor", &flavor.name));
            }
        }
        let row = flavor.cloned().map(Box::new);
        self.record(Change::Flavor(id.to_owned(), row));
        Ok(Outcome::Done)
    }

    pub(super) fn set_spec(
        &mut self,
        instance: InstanceId,
        spec: &Spec,
    ) -> Result<Outcome, Refusal> {
        if self.mapping(instance)?.is_deleting {
            return Err(wrong_state("instance", &instance, "being deleted"));
        }
        let spec = self.with_usage_kept(instance, spec);
        self.record(Change::Spec(instance, Some(Box::new(spec))));
        Ok(Outcome::Done)
    }

    pub(super) fn set_labels(
        &mut self,
        instance: InstanceId,
        labels: &Labels,
    ) -> Result<Outcome, Refusal> {
        if self.mapping(instance)?.is_deleting {
            return Err(wrong_state("instance", &instance, "being deleted"));
        }
        self.record(Change::Labels(instance, Some(Box::new(labels.clone()))));
        Ok(Outcome::Done)
    }

    fn set_keypair(
        &mut self,
        user: &str,
        name: &str,
        keypair: Option<&Keypair>,
    ) -> Result<Outcome, Refusal> {
        let key = (user.to_owned(), name.to_owned());
        let is_known = self.state.keypairs.contains_key(&key);
        match keypair {
            None if !is_known => return Err(not_found("key pair", &name)),
            Some(_) if is_known => return Err(exists("key pair", &name)),
            _ => self.record(Change::Keypair(key, keypair.cloned().map(Box::new))),
        }
        Ok(Outcome::Done)
    }

    fn set_group(
        &mut self,
        group: Uuid,
        row: Option<&ServerGroup>,
        topology: Option<&GroupTopology>,
    ) -> Result<Outcome, Refusal> {
        let known = self.state.groups.get(&group);
        if let Some(row) = row {
            self.check_quota_of_groups(&row.project)?;
        }
        let command = match (row, known) {
            (None, None) => return Err(not_found("server group", &group)),
            (Some(_), Some(_)) => return Err(exists("server group", &group)),
            (None, Some(_)) => placement::Command::DeleteGroup { group },
            (Some(row), None) => placement::Command::SetGroup {
                group,
                rules: row.rules.clone(),
            },
        };
        // Placement may not have the group; then there is nothing to delete.
        if row.is_some() || self.placement.group(group).is_some() {
            placement::decide(self.placement, &command, &mut self.changes.placement)?;
        }
        self.record(Change::Group(group, row.cloned().map(Box::new)));
        let topology = topology.filter(|_| row.is_some());
        if topology.is_some() || self.state.group_topologies.contains_key(&group) {
            let topology = topology.cloned().map(Box::new);
            self.record(Change::GroupTopology(group, topology));
        }
        Ok(Outcome::Done)
    }

    fn set_aggregate(
        &mut self,
        aggregate: Uuid,
        row: Option<&Aggregate>,
    ) -> Result<Outcome, Refusal> {
        let known = self.state.aggregates.get(&aggregate);
        if row.is_none() && known.is_none() {
            return Err(not_found("aggregate", &aggregate));
        }
        let is_mapped = |host: &HostId| self.state.hosts.contains_key(host);
        if known.is_some_and(|known| row.is_none() && known.hosts.iter().any(is_mapped)) {
            return Err(wrong_state("aggregate", &aggregate, "not empty"));
        }
        let before = known.map_or(&[][..], |known| known.hosts.as_slice());
        let mut row = row.cloned();
        if let Some(row) = &mut row {
            row.hosts.sort_unstable();
            row.hosts.dedup();
            // Older releases left a host in its aggregates when it was unmapped. Such hosts leave the aggregate here.
            (row.hosts).retain(|host| is_mapped(host) || before.binary_search(host).is_err());
            if let Some(host) = row.hosts.iter().find(|host| !is_mapped(host)) {
                return Err(not_found("host", host));
            }
            self.check_aggregate(aggregate, known, row)?;
        }
        let after = row.as_ref().map_or(&[][..], |row| row.hosts.as_slice());
        let removed = before.iter().filter(|host| !after.contains(host));
        let added = after.iter().filter(|host| !before.contains(host));
        let removed = removed.map(|host| (*host, false));
        for (host, is_member) in removed.chain(added.map(|host| (*host, true))) {
            self.change_provider_aggregates(host, &[aggregate], is_member.then_some(aggregate))?;
        }
        self.record(Change::Aggregate(aggregate, row.map(Box::new)));
        Ok(Outcome::Done)
    }

    /// Refuses a name that another aggregate has, and a host in a second availability zone. Only what changes is
    /// checked: older releases let both happen.
    fn check_aggregate(
        &self,
        aggregate: Uuid,
        known: Option<&Aggregate>,
        row: &Aggregate,
    ) -> Result<(), Refusal> {
        let rows = self.state.aggregates.iter();
        let others = rows.filter(|(other, _)| **other != aggregate);
        let is_renamed = known.is_none_or(|known| known.name != row.name);
        if is_renamed && others.clone().any(|(_, other)| other.name == row.name) {
            return Err(exists("aggregate", &row.name));
        }
        let Some(zone) = row.metadata.get(ZONE) else {
            return Ok(());
        };
        let same_zone = known.filter(|known| known.metadata.get(ZONE) == Some(zone));
        let mut new_hosts = row.hosts.iter().filter(|host| {
            // The hosts of an aggregate are in rising order.
            same_zone.is_none_or(|known| known.hosts.binary_search(host).is_err())
        });
        let is_elsewhere = |host: &HostId| {
            others.clone().any(|(_, other)| {
                let is_other_zone = other.metadata.get(ZONE).is_some_and(|other| other != zone);
                is_other_zone && other.hosts.binary_search(host).is_ok()
            })
        };
        match new_hosts.find(|host| is_elsewhere(host)) {
            Some(host) => Err(wrong_state("host", host, "in another zone already")),
            None => Ok(()),
        }
    }

    /// Removes a host from all its aggregates.
    pub(super) fn leave_aggregates(&mut self, host: HostId) -> Result<(), Refusal> {
        let rows = self.state.aggregates.iter();
        let left: Vec<(Uuid, Aggregate)> = rows
            .filter(|(_, row)| row.hosts.binary_search(&host).is_ok())
            .map(|(aggregate, row)| (*aggregate, Aggregate::clone(row)))
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        let aggregates: Vec<Uuid> = left.iter().map(|(aggregate, _)| *aggregate).collect();
        self.change_provider_aggregates(host, &aggregates, None)?;
        for (aggregate, mut row) in left {
            row.hosts.retain(|member| *member != host);
            self.record(Change::Aggregate(aggregate, Some(Box::new(row))));
        }
        Ok(())
    }

    /// Removes the provider of a host from aggregates of placement, and then adds it to one.
    fn change_provider_aggregates(
        &mut self,
        host: HostId,
        removed: &[Uuid],
        added: Option<Uuid>,
    ) -> Result<(), Refusal> {
        let Some(provider) = self.placement.provider_by_uuid(host.0) else {
            return Ok(());
        };
        let ids = provider.aggregates.iter();
        let uuids = ids.map(|id| self.placement.aggregate_uuid(*id).to_owned());
        let removed: Vec<String> = removed.iter().map(Uuid::to_string).collect();
        let mut aggregates: Vec<String> = uuids.filter(|uuid| !removed.contains(uuid)).collect();
        aggregates.extend(added.map(|aggregate| aggregate.to_string()));
        let command = placement::Command::SetAggregates {
            provider: host.0,
            generation: Some(provider.generation),
            aggregates,
            at: self.at,
        };
        placement::decide(self.placement, &command, &mut self.changes.placement)?;
        Ok(())
    }

    fn set_service(&mut self, host: HostId, service: &Service) -> Result<Outcome, Refusal> {
        if !self.state.hosts.contains_key(&host) {
            return Err(not_found("host", &host));
        }
        if let Some(provider) = self.placement.provider_by_uuid(host.0)
            && self.placement.trait_id(DISABLED).is_some()
        {
            let ids = provider.traits.iter();
            let names = ids.map(|id| self.placement.trait_name(*id).to_owned());
            let mut traits: Vec<String> = names.filter(|name| name != DISABLED).collect();
            if service.disabled {
                traits.push(DISABLED.to_owned());
            }
            let is_changed = traits.len() != provider.traits.len();
            if is_changed {
                let command = placement::Command::SetTraits {
                    provider: host.0,
                    generation: Some(provider.generation),
                    traits,
                    at: self.at,
                };
                placement::decide(self.placement, &command, &mut self.changes.placement)?;
            }
        }
        self.record(Change::Service(host, Some(Box::new(service.clone()))));
        Ok(Outcome::Done)
    }
}
