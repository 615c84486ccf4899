//! The rules: every operation's name, default and meaning. The one table that the server, the policy
//! files and the printed sample share.

use std::fmt;

/// A request that a rule is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The HTTP method.
    pub method: &'static str,
    /// The path, with the names of its parts in braces.
    pub path: &'static str,
}

/// What holds for a rule that no policy file mentions.
#[derive(Debug, Clone, Copy)]
pub struct RuleDefault {
    /// The name in policy files.
    pub name: &'static str,
    /// The rule in the policy language.
    pub check: &'static str,
    /// What was true before the reference's current defaults; holds beside `check` while
    /// `enforce_new_defaults` is off.
    pub deprecated_check: Option<&'static str>,
    /// What it allows.
    pub description: &'static str,
    /// The requests that it is asked about; none for rules that only other rules refer to.
    pub operations: &'static [Operation],
}

/// The name under which the reference registers what it replaced. It names no rule that anybody
/// would write, but a policy file that has it counts.
pub(crate) const DEPRECATED_NAME: &str = "rule:admin_api";

/// Rules that the others refer to.
pub(crate) const BASE: &[RuleDefault] = &[
    RuleDefault {
        name: "admin_api",
        check: "role:admin",
        deprecated_check: None,
        description: "An administrator.",
        operations: &[],
    },
    RuleDefault {
        name: "service_api",
        check: "role:service",
        deprecated_check: Some("role:admin"),
        description: "Another service of the cloud.",
        operations: &[],
    },
    RuleDefault {
        name: "admin_or_service_api",
        check: "role:admin or role:service",
        deprecated_check: Some("role:admin"),
        description: "An administrator or another service of the cloud.",
        operations: &[],
    },
    RuleDefault {
        name: "project_reader_api",
        check: "role:reader and project_id:%(project_id)s",
        deprecated_check: Some("role:admin"),
        description: "Somebody who may read what belongs to the project in question.",
        operations: &[],
    },
    RuleDefault {
        name: "admin_or_project_reader_or_service_api",
        check: "role:admin or rule:project_reader_api or role:service",
        deprecated_check: Some("role:admin"),
        description: "An administrator, a reader of the project in question, or another service.",
        operations: &[],
    },
];

macro_rules! rules {
    ($( $variant:ident = $name:literal, $check:literal, $description:literal,
        [ $( $method:literal $path:literal ),+ $(,)? ]; )+) => {
        /// An operation that a caller may or may not do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Rule {
            $( #[doc = $description] $variant, )+
        }

        impl Rule {
            /// All of them, in the order of the reference's sample, then our own.
            pub const ALL: &'static [Rule] = &[ $( Rule::$variant ),+ ];
        }

        const OPERATIONS: &[RuleDefault] = &[ $( RuleDefault {
            name: $name,
            check: $check,
            deprecated_check: None,
            description: $description,
            operations: &[ $( Operation { method: $method, path: $path } ),+ ],
        } ),+ ];
    };
}

rules! {
    ResourceProvidersList = "placement:resource_providers:list", "rule:admin_or_service_api",
        "Find resource providers.", ["GET" "/resource_providers"];
    ResourceProvidersCreate = "placement:resource_providers:create", "rule:admin_or_service_api",
        "Make a resource provider.", ["POST" "/resource_providers"];
    ResourceProvidersShow = "placement:resource_providers:show", "rule:admin_or_service_api",
        "Look at one resource provider.", ["GET" "/resource_providers/{uuid}"];
    ResourceProvidersUpdate = "placement:resource_providers:update", "rule:admin_or_service_api",
        "Rename a resource provider or move it in its tree.", ["PUT" "/resource_providers/{uuid}"];
    ResourceProvidersDelete = "placement:resource_providers:delete", "rule:admin_or_service_api",
        "Remove a resource provider.", ["DELETE" "/resource_providers/{uuid}"];
    ResourceClassesList = "placement:resource_classes:list", "rule:admin_or_service_api",
        "See the resource classes.", ["GET" "/resource_classes"];
    ResourceClassesCreate = "placement:resource_classes:create", "rule:admin_or_service_api",
        "Make a resource class.", ["POST" "/resource_classes"];
    ResourceClassesShow = "placement:resource_classes:show", "rule:admin_or_service_api",
        "Look at one resource class.", ["GET" "/resource_classes/{name}"];
    ResourceClassesUpdate = "placement:resource_classes:update", "rule:admin_or_service_api",
        "Make a resource class if it does not exist, or rename one in old microversions.",
        ["PUT" "/resource_classes/{name}"];
    ResourceClassesDelete = "placement:resource_classes:delete", "rule:admin_or_service_api",
        "Remove a resource class.", ["DELETE" "/resource_classes/{name}"];
    InventoriesList = "placement:resource_providers:inventories:list", "rule:admin_or_service_api",
        "See what a resource provider has.", ["GET" "/resource_providers/{uuid}/inventories"];
    InventoriesCreate = "placement:resource_providers:inventories:create", "rule:admin_or_service_api",
        "Give a resource provider one inventory more.",
        ["POST" "/resource_providers/{uuid}/inventories"];
    InventoriesShow = "placement:resource_providers:inventories:show", "rule:admin_or_service_api",
        "Look at one inventory of a resource provider.",
        ["GET" "/resource_providers/{uuid}/inventories/{resource_class}"];
    InventoriesUpdate = "placement:resource_providers:inventories:update", "rule:admin_or_service_api",
        "Replace one inventory of a resource provider, or all of them.",
        ["PUT" "/resource_providers/{uuid}/inventories",
         "PUT" "/resource_providers/{uuid}/inventories/{resource_class}"];
    InventoriesDelete = "placement:resource_providers:inventories:delete", "rule:admin_or_service_api",
        "Remove one inventory of a resource provider, or all of them.",
        ["DELETE" "/resource_providers/{uuid}/inventories",
         "DELETE" "/resource_providers/{uuid}/inventories/{resource_class}"];
    AggregatesList = "placement:resource_providers:aggregates:list", "rule:admin_or_service_api",
        "See which aggregates a resource provider is in.",
        ["GET" "/resource_providers/{uuid}/aggregates"];
    AggregatesUpdate = "placement:resource_providers:aggregates:update", "rule:admin_or_service_api",
        "Say which aggregates a resource provider is in.",
        ["PUT" "/resource_providers/{uuid}/aggregates"];
    ProviderUsages = "placement:resource_providers:usages", "rule:admin_or_service_api",
        "See how much of a resource provider is in use.",
        ["GET" "/resource_providers/{uuid}/usages"];
    TotalUsages = "placement:usages", "rule:admin_or_project_reader_or_service_api",
        "See how much a project uses. The target's project_id is the one of the query.",
        ["GET" "/usages"];
    TraitsList = "placement:traits:list", "rule:admin_or_service_api",
        "See the traits.", ["GET" "/traits"];
    TraitsShow = "placement:traits:show", "rule:admin_or_service_api",
        "Ask whether a trait exists.", ["GET" "/traits/{name}"];
    TraitsUpdate = "placement:traits:update", "rule:admin_or_service_api",
        "Make a trait if it does not exist.", ["PUT" "/traits/{name}"];
    TraitsDelete = "placement:traits:delete", "rule:admin_or_service_api",
        "Remove a trait.", ["DELETE" "/traits/{name}"];
    ProviderTraitsList = "placement:resource_providers:traits:list", "rule:admin_or_service_api",
        "See a resource provider's traits.", ["GET" "/resource_providers/{uuid}/traits"];
    ProviderTraitsUpdate = "placement:resource_providers:traits:update", "rule:admin_or_service_api",
        "Say which traits a resource provider has.", ["PUT" "/resource_providers/{uuid}/traits"];
    ProviderTraitsDelete = "placement:resource_providers:traits:delete", "rule:admin_or_service_api",
        "Take all traits from a resource provider.",
        ["DELETE" "/resource_providers/{uuid}/traits"];
    AllocationsManage = "placement:allocations:manage", "rule:admin_or_service_api",
        "Replace the allocations of several consumers at once.", ["POST" "/allocations"];
    AllocationsList = "placement:allocations:list", "rule:admin_or_service_api",
        "See what a consumer holds.", ["GET" "/allocations/{consumer_uuid}"];
    AllocationsUpdate = "placement:allocations:update", "rule:admin_or_service_api",
        "Claim resources for a consumer, or replace what it holds.",
        ["PUT" "/allocations/{consumer_uuid}"];
    AllocationsDelete = "placement:allocations:delete", "rule:admin_or_service_api",
        "Give back what a consumer holds.", ["DELETE" "/allocations/{consumer_uuid}"];
    ProviderAllocationsList = "placement:resource_providers:allocations:list",
        "rule:admin_or_service_api", "See who holds what of a resource provider.",
        ["GET" "/resource_providers/{uuid}/allocations"];
    AllocationCandidatesList = "placement:allocation_candidates:list", "rule:admin_or_service_api",
        "Find out where a request could be served.", ["GET" "/allocation_candidates"];
    ReshaperReshape = "placement:reshaper:reshape", "rule:service_api",
        "Move inventories and their allocations among resource providers in one step.",
        ["POST" "/reshaper"];
    ChangesFollow = "placewright:changes:follow", "rule:admin_or_service_api",
        "Follow every change as it becomes durable. Not part of Placement.", ["GET" "/changes"];
    ExplainShow = "placewright:explain:show", "rule:admin_or_service_api",
        "Ask why a request has the candidates that it has. Not part of Placement.",
        ["GET" "/explain"];
}

impl Rule {
    /// Its name in policy files, as `placement:resource_providers:list`.
    pub fn name(self) -> &'static str {
        self.default().name
    }

    /// Its default and meaning.
    pub fn default(self) -> &'static RuleDefault {
        &OPERATIONS[self as usize]
    }

    /// The rule with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.name() == name)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
