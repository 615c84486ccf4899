//! Scheduler hints: what a new server wishes of its place beside zone and host.

use std::collections::BTreeMap;

use placewright_conductor::{Control, HardRule, InstanceId};
use placewright_placement::group::{self, Relation, Scope};
use placewright_scheduler::request::{RequestSpec, TopologyRule};
use serde_json::Value;
use uuid::Uuid;

use crate::admin::server_groups;
use crate::call::Call;
use crate::error::{ApiError, ApiResult};
use crate::fields::{self, Fields};
use crate::topology::{self, OTHERS_MAX};

/// The names of the object with the hints; the first is what errors call it.
const KEYS: [&str; 2] = ["os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"];

/// The hints of a request.
pub(super) struct Hints {
    /// Those for filters, as texts.
    texts: BTreeMap<String, Vec<String>>,
    /// The server group.
    pub(super) group: Option<Uuid>,
    /// What hints about other instances mean for the claim.
    rules: Vec<HardRule>,
    topology: Vec<TopologyRule>,
}

impl Hints {
    /// Reads the hints of a request for so many servers. What they say of other instances holds also
    /// when the claim is made.
    pub(super) fn read(fields: &mut Fields<'_>, servers: u32) -> ApiResult<Self> {
        let mut texts = BTreeMap::new();
        let mut topology = Vec::new();
        for key in KEYS {
            let Some(value) = fields.take(key) else {
                continue;
            };
            let map = value
                .as_object()
                .ok_or_else(|| fields::wrong(key, "an object", value))?;
            for (name, value) in map {
                if name == topology::NAME && !value.is_null() {
                    topology = topology::read(&topology_path(), value)?;
                    continue;
                }
                let of_hint = match value {
                    Value::Null => continue,
                    Value::String(text) => vec![text.clone()],
                    Value::Array(all) => all
                        .iter()
                        .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
                        .collect(),
                    other => vec![other.to_string()],
                };
                texts.insert(name.clone(), of_hint);
            }
        }
        let group = uuids(&texts, "group")?.first().copied();
        let mut rules = Vec::new();
        let same = uuids(&texts, "same_host")?;
        // Of several, one is enough: that is the filter's to check.
        if same.len() == 1 {
            rules.push(on_host(Relation::Same, same));
        }
        let different = uuids(&texts, "different_host")?;
        if !different.is_empty() {
            rules.push(on_host(Relation::FewerThan(1), different));
        }
        let is_about_all = topology.iter().any(|rule| rule.to.is_empty());
        if is_about_all && group.is_none() && servers as usize > OTHERS_MAX {
            let message = format!(
                "a rule without \"to\" is about all servers of the request: for more than \
                 {OTHERS_MAX} make a server group"
            );
            return Err(ApiError::field(&topology_path(), message));
        }
        Ok(Self {
            texts,
            group,
            rules,
            topology,
        })
    }

    /// Looks up what the hints name, and puts them into the request.
    pub(super) fn look_up(
        &self,
        call: &Call<'_>,
        control: &Control,
        request: &mut RequestSpec,
    ) -> ApiResult<()> {
        request.scheduler_hints.clone_from(&self.texts);
        topology::check(call, control, &topology_path(), &self.topology)?;
        request.topology_rules.clone_from(&self.topology);
        let Some(group) = self.group else {
            return Ok(());
        };
        let row = control.conductor.groups().get(&group);
        let row = row.filter(|row| row.project == call.project() || call.sees_all_projects());
        let row = row.ok_or_else(|| {
            let message = format!("there is no group {group}");
            ApiError::field("os:scheduler_hints.group", message)
        })?;
        request.instance_group = Some(server_groups::for_scheduler(control, group, row));
        Ok(())
    }

    /// What the claim of each of some instances has to keep. Topology rules that name nobody are
    /// about the members of the group, or else about these instances.
    pub(super) fn bind(
        &self,
        request: &mut RequestSpec,
        instances: &[InstanceId],
    ) -> Vec<HardRule> {
        if self.group.is_none() && instances.len() > 1 {
            let about_all = request.topology_rules.iter_mut();
            for rule in about_all.filter(|rule| rule.to.is_empty()) {
                rule.to = instances.iter().map(|instance| instance.0).collect();
            }
        }
        let of_topology = topology::hard_rules(&request.topology_rules);
        self.rules.iter().cloned().chain(of_topology).collect()
    }
}

fn topology_path() -> String {
    format!("{}.{}", KEYS[0], topology::NAME)
}

fn uuids(texts: &BTreeMap<String, Vec<String>>, name: &str) -> ApiResult<Vec<Uuid>> {
    let texts = texts.get(name).map_or(&[][..], Vec::as_slice);
    let ids = texts.iter().map(|text| {
        Uuid::try_parse(text).map_err(|_| {
            let path = format!("{}.{name}", KEYS[0]);
            ApiError::field(&path, format!("it must be a UUID, not {text:?}"))
        })
    });
    ids.collect()
}

fn on_host(relation: Relation, others: Vec<Uuid>) -> HardRule {
    HardRule {
        rule: group::Rule {
            scope: Scope::Host,
            relation,
        },
        others,
    }
}
