//! Images, and their properties, which restrict the hosts on which instances can run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cpu_set::{CpuSet, parse_cpu_set};
use crate::error::BadRequest;
use crate::image::known::{Kind, kind};
use crate::text::{self, Value};

pub mod known;

/// The part of an image that matters to scheduling.
///
/// `{"disk_format": "qcow2", "properties": {"hw_disk_bus": "virtio", "trait:HW_CPU_X86_AVX2": "required"}}`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The UUID; `None` for an instance that boots from a volume.
    #[serde(default)]
    pub id: Option<String>,
    /// The image's name, used in messages only.
    #[serde(default)]
    pub name: Option<String>,
    /// The format of the image's disk: `qcow2`, `raw` …
    #[serde(default)]
    pub disk_format: Option<String>,
    /// The image's properties, in canonical form.
    #[serde(default)]
    pub properties: ImageProperties,
}

/// The properties of an image, validated and in canonical form.
///
/// Properties that the compute service knows are normalised: booleans become `true` or `false`, and
/// architectures and device models get their canonical name. A known property with an invalid value is
/// refused. A property with an old name (`architecture`) is kept as it is, and also sets the one with the present name
/// (`hw_architecture`), unless that is given. Unknown properties are kept as they are, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageProperties {
    values: BTreeMap<String, String>,
    traits_required: BTreeSet<String>,
    numa_cpus: Option<Vec<CpuSet>>,
    numa_memory_mb: Option<Vec<u64>>,
}

/// The most guest NUMA nodes that numbered properties can describe.
pub const NUMA_NODES_MAX: usize = 128;

impl ImageProperties {
    /// Reads properties in the form of the image service, which has a string for each name.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] for a known property with an invalid value.
    pub fn new(properties: impl IntoIterator<Item = (String, String)>) -> Result<Self, BadRequest> {
        let values = properties
            .into_iter()
            .map(|(name, value)| (name, Value::Text(value)));
        Self::from_values(values.collect())
    }

    fn from_values(mut given: BTreeMap<String, Value>) -> Result<Self, BadRequest> {
        let mut properties = Self::default();
        properties.extract_numa(&mut given)?;
        properties.extract_traits(&mut given)?;
        properties.apply_old_names(&given)?;
        for (name, value) in given {
            match value {
                Value::Text(value) => properties.set(&name, &name, &value)?,
                // A structured property has no influence on placement, so it is not kept.
                Value::List(_) | Value::Object if matches!(kind(&name), Some(Kind::Structured)) => {
                }
                Value::List(_) | Value::Object => {
                    return Err(BadRequest::malformed(field(&name), "a structure", "text"));
                }
            }
        }
        Ok(properties)
    }

    /// A property that the compute service knows, in its canonical form; `None` for other properties, and if the image
    /// lacks it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.raw(name).filter(|_| kind(name).is_some())
    }

    /// Whether the image has any property that [`Self::raw`] finds.
    #[must_use]
    pub fn has_values(&self) -> bool {
        !self.values.is_empty()
    }

    /// The value of any property, known or not; `None` if the image lacks it. Required traits (`trait:…`) and the
    /// properties of a single NUMA node (`hw_numa_cpus.0`) are not found here, because they are stored apart.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The value of a boolean property; `None` if it is absent.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(text::means_true)
    }

    /// The value of an integer property; `None` if it is absent.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(text::whole_number)
    }

    /// The traits that the image requires, from its properties `trait:NAME` = `required`, or from a list
    /// `traits_required` as in Nova's image metadata.
    pub fn traits_required(&self) -> impl Iterator<Item = &str> {
        self.traits_required.iter().map(String::as_str)
    }

    /// The guest processors of each NUMA node, from `hw_numa_cpus.0` and so on; `None` if the image has no such
    /// property.
    #[must_use]
    pub fn numa_cpus(&self) -> Option<&[CpuSet]> {
        self.numa_cpus.as_deref()
    }

    /// The memory of each NUMA node in MiB, from `hw_numa_mem.0` and so on; `None` if the image has no such property.
    #[must_use]
    pub fn numa_memory_mb(&self) -> Option<&[u64]> {
        self.numa_memory_mb.as_deref()
    }

    /// All properties that [`Self::raw`] finds, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// All properties as a map, from which [`Self::new`] makes the same properties.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let mut all = self.values.clone();
        for name in &self.traits_required {
            all.insert(format!("trait:{name}"), "required".to_owned());
        }
        for (node, cpus) in self.numa_cpus.iter().flatten().enumerate() {
            let cpus: Vec<_> = cpus.iter().map(u32::to_string).collect();
            all.insert(format!("hw_numa_cpus.{node}"), cpus.join(","));
        }
        for (node, memory_mb) in self.numa_memory_mb.iter().flatten().enumerate() {
            all.insert(format!("hw_numa_mem.{node}"), memory_mb.to_string());
        }
        all
    }

    /// Sets a property in its canonical form. `given_name` is the name that the request has, for the error; it may be
    /// an old name of the property.
    fn set(&mut self, given_name: &str, name: &str, value: &str) -> Result<(), BadRequest> {
        let value = match kind(name) {
            Some(kind) => kind.canonical(&field(given_name), value)?,
            None => value.to_owned(),
        };
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    /// Applies properties with names from before 2013; those with present names override them.
    fn apply_old_names(&mut self, given: &BTreeMap<String, Value>) -> Result<(), BadRequest> {
        for (old, present) in known::OLD_NAMES {
            if let Some(Value::Text(value)) = given.get(old) {
                self.set(old, present, value)?;
            }
        }
        match given.get("vmware_adaptertype") {
            Some(Value::Text(adapter)) if adapter == "ide" => {
                self.set("vmware_adaptertype", "hw_disk_bus", "ide")
            }
            Some(Value::Text(adapter)) if !adapter.is_empty() => {
                self.set("vmware_adaptertype", "hw_disk_bus", "scsi")?;
                self.set("vmware_adaptertype", "hw_scsi_model", adapter)
            }
            Some(Value::Text(_) | Value::List(_) | Value::Object) | None => Ok(()),
        }
    }

    /// Takes the properties about traits out of `given`, and keeps the required traits.
    fn extract_traits(&mut self, given: &mut BTreeMap<String, Value>) -> Result<(), BadRequest> {
        if let Some(value) = given.remove("traits_required") {
            let wrong = || BadRequest::malformed(field("traits_required"), "", "a list of traits");
            let Value::List(traits) = value else {
                return Err(wrong());
            };
            for name in traits {
                let Value::Text(name) = name else {
                    return Err(wrong());
                };
                self.traits_required.insert(name);
            }
        }
        given.retain(|name, value| {
            let Some(required) = name.strip_prefix("trait:") else {
                return true;
            };
            if *value == Value::Text("required".to_owned()) {
                self.traits_required.insert(required.to_owned());
            }
            false
        });
        Ok(())
    }

    /// Takes the properties of single NUMA nodes out of `given`, and keeps their parsed values.
    fn extract_numa(&mut self, given: &mut BTreeMap<String, Value>) -> Result<(), BadRequest> {
        let memory = extract_numbered(given, "hw_numa_mem")?;
        let memory = memory.into_iter().map(|(name, value)| {
            let amount = text::whole_number(&value).and_then(|amount| u64::try_from(amount).ok());
            amount.ok_or_else(|| BadRequest::malformed(field(&name), value, "an amount of MiB"))
        });
        let memory = memory.collect::<Result<Vec<_>, _>>()?;
        let cpus = extract_numbered(given, "hw_numa_cpus")?;
        let cpus = cpus.into_iter().map(|(name, value)| {
            parse_cpu_set(&value)
                .ok_or_else(|| BadRequest::malformed(field(&name), value, "a set of processors"))
        });
        let cpus = cpus.collect::<Result<Vec<_>, _>>()?;
        self.numa_memory_mb = (!memory.is_empty()).then_some(memory);
        self.numa_cpus = (!cpus.is_empty()).then_some(cpus);
        Ok(())
    }
}

/// Removes and returns the values of `prefix.0`, `prefix.1` and so on, up to the first that is missing. A list of the
/// values under the prefix alone, which is how Nova's image metadata has them, is accepted too; any other value under
/// the prefix alone is refused.
fn extract_numbered(
    given: &mut BTreeMap<String, Value>,
    prefix: &str,
) -> Result<Vec<(String, String)>, BadRequest> {
    let as_text = |value: Value| match value {
        Value::Text(text) => text,
        Value::List(items) => {
            let texts = items.into_iter().filter_map(|item| match item {
                Value::Text(text) => Some(text),
                Value::List(_) | Value::Object => None,
            });
            texts.collect::<Vec<_>>().join(",")
        }
        Value::Object => String::from("{}"),
    };
    match given.remove(prefix) {
        Some(Value::List(items)) => {
            let named = items.into_iter().enumerate();
            return Ok(named
                .map(|(node, value)| (format!("{prefix}.{node}"), as_text(value)))
                .take(NUMA_NODES_MAX)
                .collect());
        }
        Some(value @ (Value::Text(_) | Value::Object)) => {
            return Err(BadRequest::malformed(
                field(prefix),
                as_text(value),
                "a list with an element for each NUMA node; as text, each node has a property of its own, with a full stop \
                 and the node's number at the end of the name",
            ));
        }
        None => {}
    }
    let names = (0..NUMA_NODES_MAX).map(|node| format!("{prefix}.{node}"));
    Ok(names
        .map_while(|name| given.remove(&name).map(|value| (name, as_text(value))))
        .collect())
}

/// The name of a property as a field in error messages.
#[must_use]
pub fn field(name: &str) -> String {
    format!("image.properties[{name:?}]")
}

impl<'de> Deserialize<'de> for ImageProperties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = BTreeMap::deserialize(deserializer)?;
        Self::from_values(given).map_err(serde::de::Error::custom)
    }
}

impl Serialize for ImageProperties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_map().serialize(serializer)
    }
}
