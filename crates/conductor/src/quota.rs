//! Quotas: the resources that they limit, and the usage of instances.
//!
//! An instance counts from the moment at which its build request is accepted until its last record
//! is removed, whatever its state is: even without a host, shelved, or being deleted. While it is
//! resized it counts for the larger of both flavors, resource by resource. These are the rules of
//! Nova's own driver.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The resources that have a name of their own in Keystone, with that name. Cores and memory are resource classes
/// there.
const UNIFIED_NAMES: [(&str, Resource); 2] = [
    ("servers", Resource::Instances),
    ("server_key_pairs", Resource::KeyPairs),
];

/// The limit of a resource that is not limited.
pub const UNLIMITED: i64 = -1;

/// The prefix of resource classes in the names of resources.
const CLASS_PREFIX: &str = "class:";
/// The maximum length of the name of a resource class, as in placement.
const CLASS_CHARS_MAX: usize = 255;

/// A resource that quotas limit, in the order in which refusals name them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// The instances of a project.
    Instances,
    /// The virtual processors in the flavors of a project's instances.
    Cores,
    /// The memory in the flavors of a project's instances, in MiB.
    Ram,
    /// The key pairs of a user.
    KeyPairs,
    /// The server groups of a project.
    ServerGroups,
    /// The members of one server group.
    ServerGroupMembers,
    /// The amounts of a resource class that the instances of a project request.
    Class(Box<str>),
}

/// The resources that are not resource classes, with their names in Nova.
const NAMED: [(Resource, &str); 6] = [
    (Resource::Instances, "instances"),
    (Resource::Cores, "cores"),
    (Resource::Ram, "ram"),
    (Resource::KeyPairs, "key_pairs"),
    (Resource::ServerGroups, "server_groups"),
    (Resource::ServerGroupMembers, "server_group_members"),
];

impl Resource {
    /// The name in requests and answers: Nova's, or `class:` and the name of the class.
    #[must_use]
    pub fn name(&self) -> Cow<'static, str> {
        if let Self::Class(class) = self {
            return Cow::Owned(format!("{CLASS_PREFIX}{class}"));
        }
        let known = NAMED.iter().find(|(resource, _)| resource == self);
        Cow::Borrowed(known.map_or("", |(_, name)| name))
    }

    /// The resource of a name in Keystone; `None` if no resource has it.
    #[must_use]
    pub fn parse_unified(name: &str) -> Option<Self> {
        let unified = UNIFIED_NAMES.iter().find(|(unified, _)| *unified == name);
        let resource = unified.map(|(_, resource)| resource.clone());
        resource.or_else(|| {
            // Nova's names of four resources do not exist in Keystone: instances and key pairs have
            // `UNIFIED_NAMES`, and cores and memory are `class:VCPU` and `class:MEMORY_MB`.
            let has_same_name = |resource: &Self| {
                !matches!(
                    resource,
                    Self::Instances | Self::KeyPairs | Self::Cores | Self::Ram
                )
            };
            Self::parse(name).filter(has_same_name)
        })
    }

    /// The resource of a name; `None` if no resource has it.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(class) = name.strip_prefix(CLASS_PREFIX) {
            let is_allowed = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let has_length = (1..=CLASS_CHARS_MAX).contains(&class.len());
            let is_class = has_length && class.chars().all(is_allowed);
            return is_class.then(|| Self::Class(class.into()));
        }
        let known = NAMED.iter().find(|(_, known)| *known == name);
        known.map(|(resource, _)| resource.clone())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name())
    }
}

/// Limits by resource. [`UNLIMITED`] means that a resource is not limited. The limit of a resource
/// without an entry is that of the scope with the next lower precedence; see [`QuotaScope`].
pub type Limits = BTreeMap<Resource, i64>;

/// The scope of limits: the projects that they hold for, and the source that has set them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaScope {
    /// Every project: the configuration's defaults.
    Configured,
    /// A quota class. Only `default` is in use: its limits hold for every project, and precede those
    /// of the configuration.
    Class(String),
    /// One project, by its id: the limits that the compute API has set for it. It precedes the class and the
    /// configuration.
    Project(String),
    /// Every project: Keystone's registered limits. Where these are set, Keystone's limits are in
    /// force and no others.
    Registered,
    /// One project: its limits in Keystone.
    Unified(String),
}

/// The limits of a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaSet {
    /// The limits of the scope; other resources have the limits of scopes with a lower precedence.
    pub limits: Limits,
}

/// The amounts that an instance counts for in quotas; the instance itself is counted apart. Shared
/// among the specs of one request.
///
/// The default stands for no amounts: of a spec, because a release without quotas wrote it, so that its usage is not
/// known; of the result of [`Self::excess_over`], because there is no excess.
#[derive(Clone, Debug, Default)]
pub struct Usage(Option<Arc<UsageAmounts>>);

/// The amounts that an instance counts for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageAmounts {
    /// The virtual processors of the instance's flavor.
    pub cores: u32,
    /// The memory of the instance's flavor, in MiB.
    pub ram_mb: u32,
    /// The amounts that the instance requests of each resource class, in rising order.
    pub classes: Vec<(String, u32)>,
}

impl Usage {
    /// The usage of an instance that counts for these amounts.
    #[must_use]
    pub fn new(amounts: UsageAmounts) -> Self {
        Self(Some(Arc::new(amounts)))
    }

    /// The amounts, if they are known.
    #[must_use]
    pub fn amounts(&self) -> Option<&UsageAmounts> {
        self.0.as_deref()
    }

    /// Whether the amounts are known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// The amounts by which this usage exceeds another, resource by resource; [`Usage::default`], of which
    /// [`Self::is_known`] is false, if it exceeds in none. Amounts of `other` that are not known count as 0.
    #[must_use]
    pub fn excess_over(&self, other: &Self) -> Self {
        if self == other {
            return Self::default();
        }
        let none = UsageAmounts::default();
        let (own, other) = (
            self.amounts().unwrap_or(&none),
            other.amounts().unwrap_or(&none),
        );
        let classes = own.classes.iter().filter_map(|(class, amount)| {
            let more = amount.saturating_sub(other.class(class));
            (more > 0).then(|| (class.clone(), more))
        });
        let more = UsageAmounts {
            cores: own.cores.saturating_sub(other.cores),
            ram_mb: own.ram_mb.saturating_sub(other.ram_mb),
            classes: classes.collect(),
        };
        if more == none {
            return Self::default();
        }
        Self::new(more)
    }
}

impl PartialEq for Usage {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Eq for Usage {}

impl UsageAmounts {
    /// The amount of a class.
    fn class(&self, class: &str) -> u32 {
        let found = self.classes.iter().find(|(known, _)| known == class);
        found.map_or(0, |(_, amount)| *amount)
    }
}

/// The sum of the usages of a project's instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectUsage {
    /// The number of instances.
    pub instances: u64,
    /// The virtual processors of the instances.
    pub cores: u64,
    /// The memory of the instances, in MiB.
    pub ram_mb: u64,
    /// The amounts of each resource class that the instances request; no class has an amount of 0.
    pub classes: BTreeMap<Box<str>, u64>,
}

impl ProjectUsage {
    /// The amount of a resource that the instances hold; 0 for resources that do not belong to
    /// instances, such as key pairs.
    #[must_use]
    pub fn amount(&self, resource: &Resource) -> u64 {
        match resource {
            Resource::Instances => self.instances,
            Resource::Cores => self.cores,
            Resource::Ram => self.ram_mb,
            Resource::Class(class) => self.classes.get(class).copied().unwrap_or(0),
            Resource::KeyPairs | Resource::ServerGroups | Resource::ServerGroupMembers => 0,
        }
    }

    /// Whether the project holds nothing that counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self {
            instances,
            cores,
            ram_mb,
            classes,
        } = self;
        *instances == 0 && *cores == 0 && *ram_mb == 0 && classes.is_empty()
    }

    /// Counts one more instance, and the amounts that it requests.
    pub fn add_instance(&mut self, usage: &Usage) {
        self.instances += 1;
        self.add(usage);
    }

    /// Counts amounts without an instance, such as those that a resize adds while it is under way.
    pub fn add(&mut self, usage: &Usage) {
        let Some(amounts) = usage.amounts() else {
            return;
        };
        self.cores += u64::from(amounts.cores);
        self.ram_mb += u64::from(amounts.ram_mb);
        for (class, amount) in &amounts.classes {
            if let Some(sum) = self.classes.get_mut(class.as_str()) {
                *sum += u64::from(*amount);
            } else if *amount > 0 {
                let class = class.as_str().into();
                self.classes.insert(class, u64::from(*amount));
            }
        }
    }

    /// Takes back the count of an instance.
    pub(crate) fn subtract_instance(&mut self, usage: &Usage) {
        self.instances = self.instances.saturating_sub(1);
        self.subtract(usage);
    }

    /// Takes back amounts that were counted.
    pub(crate) fn subtract(&mut self, usage: &Usage) {
        let Some(amounts) = usage.amounts() else {
            return;
        };
        self.cores = self.cores.saturating_sub(amounts.cores.into());
        self.ram_mb = self.ram_mb.saturating_sub(amounts.ram_mb.into());
        for (class, amount) in &amounts.classes {
            if let Some(sum) = self.classes.get_mut(class.as_str()) {
                *sum = sum.saturating_sub(u64::from(*amount));
                if *sum == 0 {
                    self.classes.remove(class.as_str());
                }
            }
        }
    }

    /// The amount of each resource, in the order in which refusals name the resources.
    pub(crate) fn resources(&self) -> impl Iterator<Item = (Resource, u64)> + '_ {
        let fixed = [
            (Resource::Instances, self.instances),
            (Resource::Cores, self.cores),
            (Resource::Ram, self.ram_mb),
        ];
        let classes = self.classes.iter();
        let classes = classes.map(|(class, amount)| (Resource::Class(class.clone()), *amount));
        fixed.into_iter().chain(classes)
    }
}

/// The quotas that a request would exceed; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverQuota(pub Vec<ExceededLimit>);

/// A limit that a request would exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExceededLimit {
    /// The resource that is limited.
    pub resource: Resource,
    /// The amount that the request would add.
    pub requested: u64,
    /// The amount that is held.
    pub used: u64,
    /// The amount that may be held.
    pub limit: i64,
}

/// The text is Nova's, because clients parse it.
impl fmt::Display for OverQuota {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |show: &dyn Fn(&ExceededLimit) -> String| {
            let shown: Vec<String> = self.0.iter().map(show).collect();
            shown.join(", ")
        };
        let names = list(&|limit| limit.resource.to_string());
        write!(
            formatter,
            "Quota exceeded for {names}: Requested {}, but already used {} of {} {names}",
            list(&|limit| limit.requested.to_string()),
            list(&|limit| limit.used.to_string()),
            list(&|limit| limit.limit.to_string()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_resource_is_parsed_to_the_same_resource() {
        for (resource, name) in NAMED {
            assert_eq!(resource.name(), name);
            assert_eq!(Resource::parse(name), Some(resource));
        }
        let class = Resource::Class("CUSTOM_GPU".into());
        assert_eq!(class.name(), "class:CUSTOM_GPU");
        assert_eq!(Resource::parse("class:CUSTOM_GPU"), Some(class));
        for name in [
            "",
            "class:",
            "class:custom_gpu",
            "class:A B",
            "disk",
            "Cores",
        ] {
            assert_eq!(Resource::parse(name), None, "{name}");
        }
    }

    #[test]
    fn the_excess_of_usage_is_computed_for_each_resource() {
        let usage = |cores, ram_mb, gpus| {
            let classes = vec![("CUSTOM_GPU".to_owned(), gpus)];
            Usage::new(UsageAmounts {
                cores,
                ram_mb,
                classes,
            })
        };
        assert_eq!(usage(4, 512, 1).excess_over(&usage(2, 1024, 1)), {
            let amounts = UsageAmounts {
                cores: 2,
                ..UsageAmounts::default()
            };
            Usage::new(amounts)
        });
        assert!(!usage(1, 1, 1).excess_over(&usage(1, 1, 2)).is_known());
        assert_eq!(
            usage(1, 1, 1).excess_over(&Usage::default()),
            usage(1, 1, 1)
        );
    }

    #[test]
    fn a_refusal_names_resource_limit_and_use() {
        let one = |resource, requested, used, limit| ExceededLimit {
            resource,
            requested,
            used,
            limit,
        };
        let over = OverQuota(vec![
            one(Resource::Instances, 3, 10, 10),
            one(Resource::Cores, 12, 40, 40),
        ]);
        assert_eq!(
            over.to_string(),
            "Quota exceeded for instances, cores: Requested 3, 12, but already used 10, 40 of \
             10, 40 instances, cores"
        );
    }
}
