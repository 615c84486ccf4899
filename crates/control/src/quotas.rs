//! Quotas in the running control plane: the usage of instances, the configured limits, those of Keystone, and instances
//! that a release without quotas created.

use std::collections::BTreeMap;
use std::ops::Bound;

use placewright_conductor::quota::{Limits, QuotaScope, Resource};
use placewright_conductor::super_conductor::{Command, State};
use placewright_conductor::{InstanceId, MigrationId, Spec, Usage, UsageAmounts};
use placewright_engine::SubmitError;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::translate::{TranslateOptions, Translation, translate};

use crate::body::BodyCache;
use crate::handle::ControlHandle;

/// The most specifications that are read under one lock of the state.
const SPECS_PER_LOCK: usize = 2000;
/// The most instances that are counted with one command.
const INSTANCES_PER_COMMAND: usize = 200;

/// The limits that Keystone has for the compute service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnifiedLimits {
    /// The registered limits, which hold for every project.
    pub registered: Limits,
    /// The limits that single projects have, by project.
    pub projects: BTreeMap<String, Limits>,
}

/// Where the limits in force come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// The configuration, and the limits that were set by the compute API.
    Configuration,
    /// Keystone, whose limits replace the configured ones.
    Keystone,
}

/// The usage of an instance of a request: the processors and the memory of its flavor, and all that it requests of
/// placement.
#[must_use]
pub fn usage_of(flavor: &Flavor, translation: &Translation) -> Usage {
    // Placement cannot allocate a larger amount, so saturation changes no decision.
    let saturated = |amount: u64| u32::try_from(amount).unwrap_or(u32::MAX);
    let requested = translation.request.merged_resources().into_iter();
    Usage::new(UsageAmounts {
        cores: flavor.vcpus,
        ram_mb: flavor.memory_mb,
        classes: requested
            .map(|(class, amount)| (class, saturated(amount)))
            .collect(),
    })
}

impl ControlHandle {
    /// Puts the configured quotas in force: the default limits, and whether Keystone's limits replace them. If they do,
    /// there can be no new servers until Keystone's limits have been read for the first time.
    ///
    /// # Errors
    ///
    /// The store does not accept the limits.
    pub async fn configure_quotas(
        &self,
        defaults: Limits,
        source: LimitSource,
    ) -> Result<(), SubmitError> {
        let sets = self.read(move |control, _| {
            changes_for_configuration(&control.conductor, &defaults, source)
        });
        let sets = sets.await;
        self.replace_quotas(sets).await
    }

    /// Puts the limits that Keystone has now in force.
    ///
    /// # Errors
    ///
    /// The store does not accept the limits.
    pub async fn set_unified_limits(&self, limits: UnifiedLimits) -> Result<(), SubmitError> {
        let sets =
            self.read(move |control, _| changes_for_unified_limits(&control.conductor, &limits));
        let sets = sets.await;
        self.replace_quotas(sets).await
    }

    async fn replace_quotas(
        &self,
        sets: Vec<(QuotaScope, Option<Limits>)>,
    ) -> Result<(), SubmitError> {
        if sets.is_empty() {
            return Ok(());
        }
        // The command is never refused.
        drop(self.submit(Command::ReplaceQuotas { sets }).await?);
        Ok(())
    }

    /// Counts the instances, and the moves under way, that a release without quotas accepted.
    /// Returns how many instances these were. An instance whose specification cannot be read is left out: it
    /// counts towards the number of instances only.
    ///
    /// # Errors
    ///
    /// The store does not accept the usage.
    pub async fn count_uncounted_instances(
        &self,
        options: &TranslateOptions,
    ) -> Result<usize, SubmitError> {
        let mut bodies = BodyCache::default();
        let mut usage = |spec: &Spec| {
            let request = bodies.read(&spec.body).ok()?.request;
            let translation = translate(&request, options).ok()?;
            Some(usage_of(&request.flavor, &translation))
        };
        let moves = self.read(|control, _| uncounted_moves(&control.conductor));
        let moves = moves.await.into_iter();
        let moves = moves.filter_map(|(id, spec)| Some((id, usage(&spec)?)));
        let moves: Vec<(MigrationId, Usage)> = moves.collect();
        let (mut after, mut count) = (None, 0);
        loop {
            let reading =
                self.read(move |control, _| uncounted_instances(&control.conductor, after));
            let (uncounted, last) = reading.await;
            let uncounted = uncounted.into_iter();
            let counted = uncounted.filter_map(|(id, spec)| Some((id, usage(&spec)?)));
            let instances: Vec<(InstanceId, Usage)> = counted.collect();
            count += instances.len();
            if !instances.is_empty() {
                let moves = Vec::new();
                let command = Command::CountUsage { instances, moves };
                drop(self.submit(command).await?);
            }
            match last {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        if !moves.is_empty() {
            let instances = Vec::new();
            let command = Command::CountUsage { instances, moves };
            drop(self.submit(command).await?);
        }
        Ok(count)
    }
}

/// The moves under way for whose new specifications no usage is recorded.
fn uncounted_moves(state: &State) -> Vec<(MigrationId, Spec)> {
    let moves = state.moves().iter();
    let specs = moves.filter_map(|(id, row)| Some((*id, row.spec.as_ref()?)));
    let uncounted = specs.filter(|(_, spec)| !spec.usage.is_known());
    uncounted.map(|(id, spec)| (id, spec.clone())).collect()
}

/// Some of the instances for which no usage is recorded, from those after `after`; and the instance after which the
/// search continues, or `None` when all were seen.
fn uncounted_instances(
    state: &State,
    after: Option<InstanceId>,
) -> (Vec<(InstanceId, Spec)>, Option<InstanceId>) {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut found = Vec::new();
    let rows = state.specs().range((from, Bound::Unbounded));
    for (index, (id, spec)) in rows.enumerate() {
        if !spec.usage.is_known() {
            found.push((*id, spec.clone()));
        }
        if found.len() == INSTANCES_PER_COMMAND || index == SPECS_PER_LOCK {
            return (found, Some(*id));
        }
    }
    (found, None)
}

/// The scopes that have to change for a configuration, with their new limits; `None` to remove them.
fn changes_for_configuration(
    state: &State,
    defaults: &Limits,
    source: LimitSource,
) -> Vec<(QuotaScope, Option<Limits>)> {
    let is_unified = source == LimitSource::Keystone;
    let mut sets = Vec::new();
    let defaults = (!defaults.is_empty()).then(|| defaults.clone());
    let present = state.quotas().get(&QuotaScope::Configured);
    if present.map(|set| &set.limits) != defaults.as_ref() {
        sets.push((QuotaScope::Configured, defaults));
    }
    if is_unified && !state.has_unified_limits() {
        let no_instances = Limits::from([(Resource::Instances, 0)]);
        sets.push((QuotaScope::Registered, Some(no_instances)));
    }
    if !is_unified {
        sets.extend(unified_scopes(state).map(|scope| (scope, None)));
    }
    sets
}

/// The scopes that have to change for Keystone's limits, with their new limits; `None` to remove them.
fn changes_for_unified_limits(
    state: &State,
    limits: &UnifiedLimits,
) -> Vec<(QuotaScope, Option<Limits>)> {
    let mut registered = limits.registered.clone();
    // As in Nova, servers need a registered limit; a resource without one is not limited.
    registered.entry(Resource::Instances).or_insert(0);
    let mut wanted = BTreeMap::from([(QuotaScope::Registered, registered)]);
    let projects = limits.projects.iter();
    wanted.extend(projects.map(|(id, limits)| (QuotaScope::Unified(id.clone()), limits.clone())));
    let gone = unified_scopes(state).filter(|scope| !wanted.contains_key(scope));
    let gone: Vec<_> = gone.map(|scope| (scope, None)).collect();
    let differs = |(scope, limits): &(QuotaScope, Limits)| {
        state.quotas().get(scope).map(|set| &set.limits) != Some(limits)
    };
    let new = wanted.into_iter().filter(differs);
    let new = new.map(|(scope, limits)| (scope, Some(limits)));
    new.chain(gone).collect()
}

fn unified_scopes(state: &State) -> impl Iterator<Item = QuotaScope> + '_ {
    let scopes = state.quotas().keys();
    let unified =
        |scope: &&QuotaScope| matches!(scope, QuotaScope::Registered | QuotaScope::Unified(_));
    scopes.filter(unified).cloned()
}
