//! The description of a host: its providers for placement, and its facts for its cell.

use std::collections::BTreeMap;

use placewright_conductor::HostId;
use placewright_types::host_name::uuid_of_name;
use placewright_types::host_state::{HostFacts, HostNames, Metric, OWNER_TRAIT};
use placewright_types::platform::Platform;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

/// The description of a host, as a driver or an operator's file gives it.
///
/// ```
/// let host: placewright_agent::HostDescription = serde_json::from_str(r#"{
///     "name": "node-1",
///     "inventories": {"VCPU": {"total": 8, "allocation_ratio": 4.0}, "MEMORY_MB": {"total": 16384}},
///     "traits": {"HW_CPU_X86_AVX2": true},
///     "providers": [{
///         "name": "node-1_gpu_0",
///         "inventories": {"CUSTOM_GPU_MILLI": {"total": 1000}}
///     }]
/// }"#).unwrap();
/// host.check().unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostDescription {
    /// The host's name, unique over all cells; also the name of its root provider.
    pub name: String,
    /// The root provider's UUID. If none, it is derived from the name.
    pub uuid: Option<Uuid>,
    /// The root provider's inventories, by resource class.
    pub inventories: BTreeMap<String, Inventory>,
    /// Traits of the root provider: true to set one, false to remove it. Other traits are left as they are.
    pub traits: BTreeMap<String, bool>,
    /// The aggregates of the root provider. If none, they are left as they are.
    pub aggregates: Option<Vec<Uuid>>,
    /// Nested providers, each after its parent.
    pub providers: Vec<NestedProvider>,
    /// The host's hardware and hypervisor.
    pub platform: Platform,
    /// The host's IP address.
    pub ip: Option<String>,
    /// Further facts about the host, by name.
    pub stats: BTreeMap<String, String>,
    /// Measured values, such as the CPU's utilisation.
    pub metrics: Vec<Metric>,
    /// Why the host is disabled for new instances; none if it is enabled.
    pub disabled: Option<String>,
}

/// A provider below the root provider, for a part of the host such as a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NestedProvider {
    /// The provider's name, unique over all providers.
    pub name: String,
    /// The provider's UUID. If none, it is derived from the name.
    pub uuid: Option<Uuid>,
    /// The name of the parent, which is the root provider or another nested provider. If none, it is the root provider.
    pub parent: Option<String>,
    /// The provider's inventories, by resource class.
    pub inventories: BTreeMap<String, Inventory>,
    /// Traits of the provider, set and removed as those of the root provider.
    pub traits: BTreeMap<String, bool>,
    /// The aggregates of the provider. If none, they are left as they are.
    pub aggregates: Option<Vec<Uuid>>,
}

/// The inventory of one resource class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    /// The total amount, including the reserved amount.
    pub total: i32,
    /// The amount that instances cannot have.
    #[serde(default)]
    pub reserved: i32,
    /// The smallest amount of one allocation.
    #[serde(default = "one")]
    pub min_unit: i32,
    /// The largest amount of one allocation. If none, the total.
    #[serde(default)]
    pub max_unit: Option<i32>,
    /// Each allocation's amount is a multiple of this.
    #[serde(default = "one")]
    pub step_size: i32,
    /// The factor by which the amount may be overcommitted. If none, the ratio that placement has is
    /// kept, so that an operator can set it there; a new inventory gets 1.0.
    #[serde(default)]
    pub allocation_ratio: Option<f32>,
}

fn one() -> i32 {
    1
}

impl Inventory {
    /// An inventory without a reserved amount and without limits on single allocations.
    #[must_use]
    pub fn new(total: i32, allocation_ratio: Option<f32>) -> Self {
        Self {
            total,
            reserved: 0,
            min_unit: 1,
            max_unit: None,
            step_size: 1,
            allocation_ratio,
        }
    }
}

/// A provider of a host as it is to be written to placement.
#[derive(Clone, Copy, Debug)]
pub struct DescribedProvider<'a> {
    /// The UUID of the provider.
    pub uuid: Uuid,
    /// The name of the provider.
    pub name: &'a str,
    /// The UUID of the parent; none for the root provider.
    pub parent: Option<Uuid>,
    /// Inventories, by resource class.
    pub inventories: &'a BTreeMap<String, Inventory>,
    /// Traits: true to set one, false to remove it.
    pub traits: &'a BTreeMap<String, bool>,
    /// Aggregates; none to leave them as they are.
    pub aggregates: Option<&'a [Uuid]>,
}

/// Why a description is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadDescription {
    /// A name is missing or too long.
    #[error("a host or a part of one needs a name of 1 to 200 characters, not {0:?}")]
    Name(String),
    /// A name occurs twice.
    #[error("there are two hosts or parts named {0}")]
    DuplicateName(String),
    /// A nested provider's parent is not described before it.
    #[error("{part} is part of {parent}, which does not stand before it")]
    Parent {
        /// The name of the part.
        part: String,
        /// The name that the part gives as its parent.
        parent: String,
    },
    /// An inventory has values that placement would refuse.
    #[error("{provider}: {class}: {why}")]
    Inventory {
        /// The name of the provider.
        provider: String,
        /// The resource class of the inventory.
        class: String,
        /// The reason, in a sentence.
        why: &'static str,
    },
}

/// The longest name of a provider that placement accepts.
const NAME_LENGTH_MAX: usize = 200;

impl HostDescription {
    /// The host's id, which is the UUID of its root provider.
    #[must_use]
    pub fn id(&self) -> HostId {
        HostId(uuid_of(self.uuid, &self.name))
    }

    /// All providers: the root provider first, then the nested ones in their order.
    pub fn providers(&self) -> impl Iterator<Item = DescribedProvider<'_>> {
        let root = DescribedProvider {
            uuid: self.id().0,
            name: &self.name,
            parent: None,
            inventories: &self.inventories,
            traits: &self.traits,
            aggregates: self.aggregates.as_deref(),
        };
        let nested = self.providers.iter().map(|nested| DescribedProvider {
            uuid: uuid_of(nested.uuid, &nested.name),
            name: &nested.name,
            parent: Some(self.parent_of(nested)),
            inventories: &nested.inventories,
            traits: &nested.traits,
            aggregates: nested.aggregates.as_deref(),
        });
        std::iter::once(root).chain(nested)
    }

    fn parent_of(&self, nested: &NestedProvider) -> Uuid {
        let parent_name = nested.parent.as_deref();
        let mut providers = self.providers.iter();
        let parent = providers.find(|provider| Some(provider.name.as_str()) == parent_name);
        parent.map_or(self.id().0, |parent| uuid_of(parent.uuid, &parent.name))
    }

    /// Adds [`OWNER_TRAIT`] to all providers of the host, which says that they belong to the compute service. A nested
    /// provider whose description sets the trait to false does not get it, because it belongs to another service.
    pub fn claim_ownership(&mut self) {
        self.traits.insert(OWNER_TRAIT.to_owned(), true);
        for nested in &mut self.providers {
            nested.traits.entry(OWNER_TRAIT.to_owned()).or_insert(true);
        }
    }

    /// The facts that the host reports to its cell, with the version of its compute service.
    #[must_use]
    pub fn facts(&self, service_host: &str, service_version: u32) -> HostFacts {
        HostFacts {
            names: HostNames {
                service_host: service_host.to_owned(),
                node: self.name.clone(),
                // An agent does not know its cell's UUID. Control fills it in.
                cell: Uuid::nil(),
                ip: self.ip.clone(),
                hypervisor_hostname: Some(self.name.clone()),
            },
            platform: self.platform.clone(),
            stats: self.stats.clone(),
            service_version,
        }
    }

    /// Checks the names, the parents and the inventories for values that placement would refuse.
    ///
    /// # Errors
    ///
    /// [`BadDescription`] for the first problem that is found.
    pub fn check(&self) -> Result<(), BadDescription> {
        let mut seen = Vec::new();
        for provider in self.providers() {
            let length = provider.name.chars().count();
            if length == 0 || length > NAME_LENGTH_MAX {
                return Err(BadDescription::Name(provider.name.to_owned()));
            }
            if seen.contains(&provider.name) {
                return Err(BadDescription::DuplicateName(provider.name.to_owned()));
            }
            seen.push(provider.name);
            for (class, inventory) in provider.inventories {
                inventory.check().map_err(|why| BadDescription::Inventory {
                    provider: provider.name.to_owned(),
                    class: class.clone(),
                    why,
                })?;
            }
        }
        for (index, nested) in self.providers.iter().enumerate() {
            let Some(parent) = &nested.parent else {
                continue;
            };
            let mut before = self.providers.iter().take(index);
            if *parent != self.name && !before.any(|provider| provider.name == *parent) {
                return Err(BadDescription::Parent {
                    part: nested.name.clone(),
                    parent: parent.clone(),
                });
            }
        }
        Ok(())
    }
}

impl Inventory {
    fn check(&self) -> Result<(), &'static str> {
        if self.total < 1 {
            return Err("total has to be at least 1");
        }
        if self.reserved < 0 || self.reserved > self.total {
            return Err("reserved has to be from 0 to total");
        }
        if self.min_unit < 1 || self.step_size < 1 || self.max_unit.is_some_and(|max| max < 1) {
            return Err("min_unit, max_unit and step_size have to be at least 1");
        }
        if self
            .allocation_ratio
            .is_some_and(|ratio| !ratio.is_finite() || ratio <= 0.0)
        {
            return Err("allocation_ratio has to be more than 0");
        }
        Ok(())
    }
}

/// The given UUID, or one that is derived from the name.
fn uuid_of(given: Option<Uuid>, name: &str) -> Uuid {
    given.unwrap_or_else(|| uuid_of_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_json(text: &str) -> Result<(), BadDescription> {
        serde_json::from_str::<HostDescription>(text)
            .unwrap()
            .check()
    }

    #[test]
    fn the_id_of_a_host_is_derived_from_its_name() {
        let host = |name: &str| HostDescription {
            name: name.into(),
            ..HostDescription::default()
        };
        assert_eq!(host("a").id(), host("a").id());
        assert_ne!(host("a").id(), host("b").id());
    }

    #[test]
    fn nested_providers_come_after_their_parents() {
        let good = r#"{"name": "n", "providers": [{"name": "a"}, {"name": "b", "parent": "a"}]}"#;
        assert_eq!(check_json(good), Ok(()));
        let host: HostDescription = serde_json::from_str(good).unwrap();
        let providers: Vec<_> = host.providers().collect();
        assert_eq!(providers[1].parent, Some(providers[0].uuid));
        assert_eq!(providers[2].parent, Some(providers[1].uuid));

        let wrong = r#"{"name": "n", "providers": [{"name": "b", "parent": "a"}, {"name": "a"}]}"#;
        assert!(matches!(
            check_json(wrong),
            Err(BadDescription::Parent { .. })
        ));
        let twice = r#"{"name": "n", "providers": [{"name": "n"}]}"#;
        assert_eq!(
            check_json(twice),
            Err(BadDescription::DuplicateName("n".into()))
        );
        assert_eq!(check_json("{}"), Err(BadDescription::Name(String::new())));
    }

    #[test]
    fn inventories_with_impossible_values_are_refused() {
        let check_inventory = |inventory: &str| {
            check_json(&format!(
                r#"{{"name": "n", "inventories": {{"VCPU": {inventory}}}}}"#
            ))
        };
        assert_eq!(check_inventory(r#"{"total": 8, "reserved": 8}"#), Ok(()));
        for wrong in [
            r#"{"total": 0}"#,
            r#"{"total": 8, "reserved": 9}"#,
            r#"{"total": 8, "step_size": 0}"#,
            r#"{"total": 8, "allocation_ratio": 0.0}"#,
        ] {
            assert!(check_inventory(wrong).is_err(), "{wrong}");
        }
    }
}
