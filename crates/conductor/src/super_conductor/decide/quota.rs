//! Decides whether the resources that a command adds are within the quotas, and decides the commands that set limits.
//!
//! The checks read the state that the command is decided on, so no order of commands can exceed a limit. A limit may be
//! set to less than a project holds; then the project can add nothing.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{Command, DecisionContext, NewBuild, Outcome, Refusal};
use crate::ids::{InstanceId, MigrationId};
use crate::quota::{
    ExceededLimit, Limits, OverQuota, ProjectUsage, QuotaScope, QuotaSet, Resource, UNLIMITED,
    Usage,
};
use crate::spec::Spec;
use crate::super_conductor::rows::{Move, ServerGroup};
use crate::super_conductor::state::Change;

impl DecisionContext<'_> {
    /// Refuses build requests that together would exceed the quota of a project.
    pub(super) fn check_quota_of_builds(&self, builds: &[NewBuild]) -> Result<(), Refusal> {
        if self.state.quotas().is_empty() {
            return Ok(());
        }
        let mut projects: BTreeMap<&str, ProjectUsage> = BTreeMap::new();
        for NewBuild { spec, .. } in builds {
            let added = projects.entry(&spec.project).or_default();
            added.add_instance(&spec.usage);
        }
        let mut projects = projects.into_iter();
        projects.try_for_each(|(project, added)| self.check_quota(project, &added))
    }

    /// Refuses an addition to the usage of a project that would exceed its quotas.
    fn check_quota(&self, project: &str, added: &ProjectUsage) -> Result<(), Refusal> {
        let held = self.state.listing().usage(project);
        let exceeded = added.resources().filter_map(|(resource, requested)| {
            let used = held.map_or(0, |held| held.amount(&resource));
            self.exceeded_limit(project, resource, requested, used)
        });
        refuse_if_any(exceeded.collect())
    }

    /// The limit of a resource, if a project that holds `used` would exceed it with `requested` more.
    fn exceeded_limit(
        &self,
        project: &str,
        resource: Resource,
        requested: u64,
        used: u64,
    ) -> Option<ExceededLimit> {
        let limit = self.state.quota_limit(Some(project), &resource);
        let is_within = match u64::try_from(limit) {
            Ok(limit) => requested == 0 || used.saturating_add(requested) <= limit,
            // A negative limit is `UNLIMITED`.
            Err(_) => true,
        };
        (!is_within).then_some(ExceededLimit {
            resource,
            requested,
            used,
            limit,
        })
    }

    /// Refuses new members of a server group that would exceed the quota of members.
    pub(super) fn check_quota_of_members(
        &self,
        group: &Uuid,
        row: &ServerGroup,
    ) -> Result<(), Refusal> {
        if self.state.quotas().is_empty() {
            return Ok(());
        }
        let before = self.state.groups().get(group);
        let before = before.map_or(0, |row| row.members.len());
        let requested = row.members.len().saturating_sub(before) as u64;
        let resource = Resource::ServerGroupMembers;
        let exceeded = self.exceeded_limit(&row.project, resource, requested, before as u64);
        refuse_if_any(exceeded.into_iter().collect())
    }

    /// Refuses another server group that would exceed the quota of its project.
    pub(super) fn check_quota_of_groups(&self, project: &str) -> Result<(), Refusal> {
        if self.state.quotas().is_empty() {
            return Ok(());
        }
        let used = self.state.listing().group_count(project) as u64;
        let requested = 1;
        let exceeded = self.exceeded_limit(project, Resource::ServerGroups, requested, used);
        refuse_if_any(exceeded.into_iter().collect())
    }

    /// Refuses another key pair of a user that would exceed the quota of the project.
    pub(super) fn check_quota_of_keypairs(&self, project: &str, user: &str) -> Result<(), Refusal> {
        if self.state.quotas().is_empty() {
            return Ok(());
        }
        let used = self.state.keypairs_of(user).count() as u64;
        let requested = 1;
        let exceeded = self.exceeded_limit(project, Resource::KeyPairs, requested, used);
        refuse_if_any(exceeded.into_iter().collect())
    }

    /// The new specification of a move with its usage, and the usage that the instance has in
    /// addition while it holds both flavors; refused if that exceeds a quota.
    pub(super) fn spec_and_added_usage(
        &self,
        instance: InstanceId,
        spec: Option<&Spec>,
    ) -> Result<(Option<Spec>, Usage), Refusal> {
        let Some(spec) = spec else {
            return Ok((None, Usage::default()));
        };
        let mut spec = spec.clone();
        let Some(present) = self.state.specs().get(&instance) else {
            return Ok((Some(spec), Usage::default()));
        };
        if !spec.usage.is_known() {
            spec.usage = present.usage.clone();
        }
        let added = spec.usage.excess_over(&present.usage);
        if added.is_known() && !self.state.quotas().is_empty() {
            let mut added_to_project = ProjectUsage::default();
            added_to_project.add(&added);
            self.check_quota(&present.project, &added_to_project)?;
        }
        Ok((Some(spec), added))
    }

    /// A copy of a specification that is to replace the present one of an instance, with the usage of the present one.
    pub(super) fn with_usage_kept(&self, instance: InstanceId, spec: &Spec) -> Spec {
        let mut spec = spec.clone();
        if let Some(present) = self.state.specs().get(&instance) {
            spec.usage = present.usage.clone();
        }
        spec
    }

    /// Decides the commands about limits, and those that record usage.
    pub(super) fn decide_quota(&mut self, command: &Command) -> Result<Outcome, Refusal> {
        match command {
            Command::SetQuota {
                scope,
                limits,
                force,
            } => self.set_quota(scope, limits, *force)?,
            Command::ReplaceQuotas { sets } => self.replace_quotas(sets),
            Command::CountUsage { instances, moves } => self.count_usage(instances, moves),
            _ => {}
        }
        Ok(Outcome::Done)
    }

    fn set_quota(
        &mut self,
        scope: &QuotaScope,
        limits: &Limits,
        force: bool,
    ) -> Result<(), Refusal> {
        if let QuotaScope::Project(project) = scope
            && !force
        {
            for (resource, limit) in limits {
                let used = self.state.used(project, resource);
                if *limit != UNLIMITED && u64::try_from(*limit).is_ok_and(|limit| limit < used) {
                    return Err(Refusal::BelowUse {
                        resource: resource.clone(),
                        limit: *limit,
                        used,
                    });
                }
            }
        }
        let mut set = self.state.quotas().get(scope).cloned().unwrap_or_default();
        let new = limits.iter();
        set.limits
            .extend(new.map(|(resource, limit)| (resource.clone(), *limit)));
        self.write_quota(scope, Some(set));
        Ok(())
    }

    fn replace_quotas(&mut self, sets: &[(QuotaScope, Option<Limits>)]) {
        for (scope, limits) in sets {
            let set = limits.clone().map(|limits| QuotaSet { limits });
            self.write_quota(scope, set);
        }
    }

    fn write_quota(&mut self, scope: &QuotaScope, set: Option<QuotaSet>) {
        if self.state.quotas().get(scope) != set.as_ref() {
            self.record(Change::Quota(scope.clone(), set.map(Box::new)));
        }
    }

    /// Records usage that was not recorded when an instance or move was created. No limit is checked,
    /// because the resources are held already.
    fn count_usage(&mut self, instances: &[(InstanceId, Usage)], moves: &[(MigrationId, Usage)]) {
        // Moves whose additional usage changes, with the usage of their new specifications if it is
        // given.
        let mut affected: BTreeMap<MigrationId, Option<&Usage>> = BTreeMap::new();
        let mut counted: BTreeMap<InstanceId, &Usage> = BTreeMap::new();
        for (instance, usage) in instances {
            let Some(spec) = self.state.specs().get(instance) else {
                continue;
            };
            if spec.usage.is_known() || counted.insert(*instance, usage).is_some() {
                continue;
            }
            let usage = usage.clone();
            let spec = Spec {
                usage,
                ..spec.clone()
            };
            self.record(Change::Spec(*instance, Some(Box::new(spec))));
            let mapping = self.state.mappings().get(instance);
            let latest = mapping.and_then(|mapping| mapping.migrations.last());
            affected.extend(latest.map(|migration| (*migration, None)));
        }
        affected.extend(moves.iter().map(|(id, usage)| (*id, Some(usage))));
        for (migration, usage) in affected {
            self.count_usage_of_move(migration, usage, &counted);
        }
    }

    /// Records the additional usage of a move that is under way. `counted` has the usage of
    /// instances that the same command records.
    fn count_usage_of_move(
        &mut self,
        migration: MigrationId,
        usage: Option<&Usage>,
        counted: &BTreeMap<InstanceId, &Usage>,
    ) {
        let Some(row) = self.state.moves().get(&migration) else {
            return;
        };
        let Some(mut spec) = row.spec.clone() else {
            return;
        };
        if !spec.usage.is_known() {
            spec.usage = usage.cloned().unwrap_or_default();
        }
        let present_spec = self.state.specs().get(&row.instance);
        let present_usage = match counted.get(&row.instance) {
            Some(usage) => (*usage).clone(),
            None => present_spec.map_or_else(Usage::default, |spec| spec.usage.clone()),
        };
        let row = Move {
            added_usage: spec.usage.excess_over(&present_usage),
            spec: Some(spec),
            ..row.clone()
        };
        self.record(Change::Move(migration, Some(Box::new(row))));
    }
}

fn refuse_if_any(exceeded: Vec<ExceededLimit>) -> Result<(), Refusal> {
    if exceeded.is_empty() {
        return Ok(());
    }
    Err(Refusal::OverQuota(OverQuota(exceeded)))
}
