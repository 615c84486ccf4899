//! The rules: the name, default and description of each. The server, policy files and the
//! printed sample share this table.

use std::fmt;

/// An API request that a rule controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The HTTP method in capital letters.
    pub method: &'static str,
    /// The path, with parameters in braces.
    pub path: &'static str,
}

/// The default of a rule, which applies unless a policy file overrides it.
#[derive(Debug, Clone, Copy)]
pub struct RuleDefault {
    /// The name in policy files.
    pub name: &'static str,
    /// The rule in the policy language.
    pub check: &'static str,
    /// The reference's previous default, if there was one. While `enforce_new_defaults` is off, the rule also allows
    /// what this default allowed.
    pub deprecated_check: Option<&'static str>,
    /// A description of the operation for operators.
    pub description: &'static str,
    /// The API requests that the rule controls; none for rules that only other rules refer to.
    pub operations: &'static [Operation],
}

/// The name under which the reference registers its deprecated default. No rule has this name, but an
/// override under the name in a policy file takes the place of every rule that has a deprecated default.
pub(crate) const DEPRECATED_NAME: &str = "rule:admin_api";

/// Rules that other rules refer to.
pub(crate) const BASE_RULES: &[RuleDefault] = &[
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
    RuleDefault {
        name: "context_is_admin",
        check: "role:admin",
        deprecated_check: None,
        description: "An administrator, as the compute API calls it.",
        operations: &[],
    },
    RuleDefault {
        name: "project_member_api",
        check: "role:member and project_id:%(project_id)s",
        deprecated_check: Some("role:admin"),
        description: "Somebody who may change what belongs to the project in question.",
        operations: &[],
    },
    RuleDefault {
        name: "project_member_or_admin",
        check: "rule:project_member_api or rule:context_is_admin",
        deprecated_check: Some("role:admin or project_id:%(project_id)s"),
        description: "An administrator, or a member of the project in question.",
        operations: &[],
    },
    RuleDefault {
        name: "project_reader_or_admin",
        check: "rule:project_reader_api or rule:context_is_admin",
        deprecated_check: Some("role:admin or project_id:%(project_id)s"),
        description: "An administrator, or a reader of the project in question.",
        operations: &[],
    },
];

macro_rules! rules {
    ($( $variant:ident = $name:literal, $check:literal, $description:literal,
        [ $( $method:literal $path:literal ),+ $(,)? ]; )+) => {
        /// A rule, by the operation that it controls.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Rule {
            $( #[doc = $description] $variant, )+
        }

        impl Rule {
            /// All rules: Placement's in the reference's order, then Placewright's, compute's and images'.
            pub const ALL: &'static [Rule] = &[ $( Rule::$variant ),+ ];
        }

        const RULE_DEFAULTS: &[RuleDefault] = &[ $( RuleDefault {
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
        "Take all traits from a resource provider.", ["DELETE" "/resource_providers/{uuid}/traits"];
    AllocationsManage = "placement:allocations:manage", "rule:admin_or_service_api",
        "Replace the allocations of several consumers at once.", ["POST" "/allocations"];
    AllocationsList = "placement:allocations:list", "rule:admin_or_service_api",
        "See what a consumer holds.", ["GET" "/allocations/{consumer_uuid}"];
    AllocationsUpdate = "placement:allocations:update", "rule:admin_or_service_api",
        "Claim resources for a consumer, or replace what it holds.", ["PUT" "/allocations/{consumer_uuid}"];
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
        "Follow every change as it becomes durable. Not part of Placement.", ["GET" "/placewright/v1/changes"];
    ExplainShow = "placewright:explain:show", "rule:admin_or_service_api",
        "Ask why a request has the candidates that it has. Not part of Placement.",
        ["GET" "/placewright/v1/explain"];
    AuditShow = "placewright:audit:show", "rule:admin_or_service_api",
        "Find inconsistencies between allocations, cells and hosts. Not part of Placement.", ["GET" "/placewright/v1/audit"];
    AuditRepair = "placewright:audit:repair", "rule:admin_api",
        "Repair the inconsistencies that an audit finds. Not part of Placement.",
        ["POST" "/placewright/v1/audit/repair"];
    StatusShow = "placewright:status:show", "rule:admin_or_service_api",
        "See whether a replica of control leads or follows. Not part of Placement.", ["GET" "/placewright/v1/status"];
    ReplicasManage = "placewright:replicas:manage", "rule:admin_api",
        "Have another replica lead, or lost entries appended again. Not part of Placement.",
        ["POST" "/placewright/v1/hand-over", "POST" "/placewright/v1/lost-entries/append"];
    PastShow = "placewright:past:show", "rule:admin_api",
        "See the fleet as it was, and why servers were where they were. Not part of Placement.",
        ["GET" "/ui/api/past", "GET" "/ui/api/past/{sequence}/fleet", "GET" "/ui/api/past/{sequence}/decisions/{instance}"];
    ServersIndex = "os_compute_api:servers:index", "rule:project_reader_or_admin",
        "List servers.", ["GET" "/servers"];
    ServersDetail = "os_compute_api:servers:detail", "rule:project_reader_or_admin",
        "List servers with their details.",
        ["GET" "/servers/detail"];
    ServersIndexAllProjects = "os_compute_api:servers:index:get_all_tenants", "rule:context_is_admin",
        "List the servers of all projects.",
        ["GET" "/servers"];
    ServersDetailAllProjects = "os_compute_api:servers:detail:get_all_tenants", "rule:context_is_admin",
        "List the servers of all projects with their details.",
        ["GET" "/servers/detail"];
    ServersAllFilters = "os_compute_api:servers:allow_all_filters", "rule:context_is_admin",
        "Filter a list of servers by anything, such as the host.",
        ["GET" "/servers", "GET" "/servers/detail"];
    ServersShow = "os_compute_api:servers:show", "rule:project_reader_or_admin",
        "Look at a server.",
        ["GET" "/servers/{server_id}"];
    ServersHostStatus = "os_compute_api:servers:show:host_status", "rule:context_is_admin",
        "See the status of a server's host.",
        ["GET" "/servers/{server_id}", "GET" "/servers/detail"];
    ServersExtendedAttributes = "os_compute_api:os-extended-server-attributes", "rule:context_is_admin",
        "See the host of a server, and other attributes for operators.",
        ["GET" "/servers/{server_id}", "GET" "/servers/detail"];
    ServersCreate = "os_compute_api:servers:create", "rule:project_member_or_admin",
        "Create servers.",
        ["POST" "/servers"];
    ServersCreateForcedHost = "os_compute_api:servers:create:forced_host", "rule:context_is_admin",
        "Force a new server onto the host that follows the zone.",
        ["POST" "/servers"];
    ServersCreateDestination = "compute:servers:create:requested_destination", "rule:context_is_admin",
        "Request a host for a new server by name.",
        ["POST" "/servers"];
    ServersCreateZeroDisk = "os_compute_api:servers:create:zero_disk_flavor", "rule:context_is_admin",
        "Create a server from an image with a flavor whose disk is 0.",
        ["POST" "/servers"];
    ServersCreatePortRequest = "compute:servers:create:port_resource_request", "rule:context_is_admin",
        "Give the resource request of a port with a new server. Not part of Nova.",
        ["POST" "/servers"];
    ServersUpdate = "os_compute_api:servers:update", "rule:project_member_or_admin",
        "Change the name or the description of a server.",
        ["PUT" "/servers/{server_id}"];
    ServersDelete = "os_compute_api:servers:delete", "rule:project_member_or_admin",
        "Delete a server.",
        ["DELETE" "/servers/{server_id}"];
    ServersForceDelete = "os_compute_api:os-deferred-delete:force", "rule:project_member_or_admin",
        "Delete a server at once.",
        ["POST" "/servers/{server_id}/action"];
    ServersResize = "os_compute_api:servers:resize", "rule:project_member_or_admin",
        "Give a server another flavor.",
        ["POST" "/servers/{server_id}/action"];
    ServersConfirmResize = "os_compute_api:servers:confirm_resize", "rule:project_member_or_admin",
        "Confirm a resize or migration.",
        ["POST" "/servers/{server_id}/action"];
    ServersRevertResize = "os_compute_api:servers:revert_resize", "rule:project_member_or_admin",
        "Revert a resize or migration.",
        ["POST" "/servers/{server_id}/action"];
    ServersRebuild = "os_compute_api:servers:rebuild", "rule:project_member_or_admin",
        "Rebuild a server on its host.",
        ["POST" "/servers/{server_id}/action"];
    ServersMigrate = "os_compute_api:os-migrate-server:migrate", "rule:context_is_admin",
        "Migrate a server.",
        ["POST" "/servers/{server_id}/action"];
    ServersMigrateHost = "os_compute_api:os-migrate-server:migrate:host", "rule:context_is_admin",
        "Migrate a server to a host of one's choice.",
        ["POST" "/servers/{server_id}/action"];
    ServersMigrateLive = "os_compute_api:os-migrate-server:migrate_live", "rule:context_is_admin",
        "Migrate a server while it runs.",
        ["POST" "/servers/{server_id}/action"];
    ServersEvacuate = "os_compute_api:os-evacuate", "rule:context_is_admin",
        "Rebuild a server on another host because its host is down.",
        ["POST" "/servers/{server_id}/action"];
    ServersShelve = "os_compute_api:os-shelve:shelve", "rule:project_member_or_admin",
        "Shelve a server.",
        ["POST" "/servers/{server_id}/action"];
    ServersShelveOffload = "os_compute_api:os-shelve:shelve_offload", "rule:context_is_admin",
        "Take a shelved server off its host.",
        ["POST" "/servers/{server_id}/action"];
    ServersUnshelve = "os_compute_api:os-shelve:unshelve", "rule:project_member_or_admin",
        "Bring a shelved server back.",
        ["POST" "/servers/{server_id}/action"];
    ServersUnshelveToHost = "os_compute_api:os-shelve:unshelve_to_host", "rule:context_is_admin",
        "Bring a shelved server back on a host of one's choice.",
        ["POST" "/servers/{server_id}/action"];
    ServersLock = "os_compute_api:os-lock-server:lock", "rule:project_member_or_admin",
        "Lock a server.",
        ["POST" "/servers/{server_id}/action"];
    ServersUnlock = "os_compute_api:os-lock-server:unlock", "rule:project_member_or_admin",
        "Unlock a server.",
        ["POST" "/servers/{server_id}/action"];
    ServersUnlockOverride = "os_compute_api:os-lock-server:unlock:unlock_override", "rule:context_is_admin",
        "Unlock a server that an administrator locked.",
        ["POST" "/servers/{server_id}/action"];
    ServersStart = "os_compute_api:servers:start", "rule:project_member_or_admin",
        "Start a server. Always refused, because an active server runs.",
        ["POST" "/servers/{server_id}/action"];
    ServerMetadataIndex = "os_compute_api:server-metadata:index", "rule:project_reader_or_admin",
        "See the metadata of a server.",
        ["GET" "/servers/{server_id}/metadata"];
    ServerMetadataShow = "os_compute_api:server-metadata:show", "rule:project_reader_or_admin",
        "See one item of the metadata of a server.",
        ["GET" "/servers/{server_id}/metadata/{key}"];
    ServerMetadataCreate = "os_compute_api:server-metadata:create", "rule:project_member_or_admin",
        "Add to the metadata of a server.",
        ["POST" "/servers/{server_id}/metadata"];
    ServerMetadataUpdateAll = "os_compute_api:server-metadata:update_all", "rule:project_member_or_admin",
        "Replace the metadata of a server.",
        ["PUT" "/servers/{server_id}/metadata"];
    ServerMetadataUpdate = "os_compute_api:server-metadata:update", "rule:project_member_or_admin",
        "Set one item of the metadata of a server.",
        ["PUT" "/servers/{server_id}/metadata/{key}"];
    ServerMetadataDelete = "os_compute_api:server-metadata:delete", "rule:project_member_or_admin",
        "Remove one item of the metadata of a server.",
        ["DELETE" "/servers/{server_id}/metadata/{key}"];
    ServerTagsIndex = "os_compute_api:os-server-tags:index", "rule:project_reader_or_admin",
        "See the tags of a server.",
        ["GET" "/servers/{server_id}/tags"];
    ServerTagsShow = "os_compute_api:os-server-tags:show", "rule:project_reader_or_admin",
        "Ask whether a server has a tag.",
        ["GET" "/servers/{server_id}/tags/{tag}"];
    ServerTagsUpdate = "os_compute_api:os-server-tags:update", "rule:project_member_or_admin",
        "Add a tag to a server.",
        ["PUT" "/servers/{server_id}/tags/{tag}"];
    ServerTagsUpdateAll = "os_compute_api:os-server-tags:update_all", "rule:project_member_or_admin",
        "Replace the tags of a server.",
        ["PUT" "/servers/{server_id}/tags"];
    ServerTagsDelete = "os_compute_api:os-server-tags:delete", "rule:project_member_or_admin",
        "Remove a tag of a server.",
        ["DELETE" "/servers/{server_id}/tags/{tag}"];
    ServerTagsDeleteAll = "os_compute_api:os-server-tags:delete_all", "rule:project_member_or_admin",
        "Remove all tags of a server.",
        ["DELETE" "/servers/{server_id}/tags"];
    ServerInterfacesList = "os_compute_api:os-attach-interfaces:list", "rule:project_reader_or_admin",
        "List the interfaces of a server. Ports are only passed on, so the list is empty.",
        ["GET" "/servers/{server_id}/os-interface"];
    ServerVolumesList = "os_compute_api:os-volumes-attachments:index", "rule:project_reader_or_admin",
        "List the volumes of a server: those with which it was created.",
        ["GET" "/servers/{server_id}/os-volume_attachments"];
    InstanceActionsList = "os_compute_api:os-instance-actions:list", "rule:project_reader_or_admin",
        "List the actions that were done with a server.",
        ["GET" "/servers/{server_id}/os-instance-actions"];
    InstanceActionsShow = "os_compute_api:os-instance-actions:show", "rule:project_reader_or_admin",
        "Look at one action that was done with a server.",
        ["GET" "/servers/{server_id}/os-instance-actions/{request_id}"];
    InstanceActionsEvents = "os_compute_api:os-instance-actions:events", "rule:context_is_admin",
        "See the events of an action, with hosts and tracebacks.",
        ["GET" "/servers/{server_id}/os-instance-actions/{request_id}"];
    InstanceActionsEventsDetails = "os_compute_api:os-instance-actions:events:details", "rule:context_is_admin",
        "See the error messages of an action's events.",
        ["GET" "/servers/{server_id}/os-instance-actions/{request_id}"];
    MigrationsIndex = "os_compute_api:os-migrations:index", "rule:context_is_admin",
        "List the migrations of all servers.",
        ["GET" "/os-migrations"];
    ServerMigrationsIndex = "os_compute_api:servers:migrations:index", "rule:context_is_admin",
        "List the migrations of a server that are under way.",
        ["GET" "/servers/{server_id}/migrations"];
    ServerMigrationsShow = "os_compute_api:servers:migrations:show", "rule:context_is_admin",
        "Look at a migration that is under way.",
        ["GET" "/servers/{server_id}/migrations/{migration_id}"];
    FlavorsCreate = "os_compute_api:os-flavor-manage:create", "rule:context_is_admin",
        "Create a flavor.",
        ["POST" "/flavors"];
    FlavorsUpdate = "os_compute_api:os-flavor-manage:update", "rule:context_is_admin",
        "Change the description of a flavor.",
        ["PUT" "/flavors/{flavor_id}"];
    FlavorsDelete = "os_compute_api:os-flavor-manage:delete", "rule:context_is_admin",
        "Delete a flavor.",
        ["DELETE" "/flavors/{flavor_id}"];
    FlavorAccessList = "os_compute_api:os-flavor-access", "rule:context_is_admin",
        "List who may use a flavor.",
        ["GET" "/flavors/{flavor_id}/os-flavor-access"];
    FlavorAccessAdd = "os_compute_api:os-flavor-access:add_tenant_access", "rule:context_is_admin",
        "Let a project use a flavor.",
        ["POST" "/flavors/{flavor_id}/action"];
    FlavorAccessRemove = "os_compute_api:os-flavor-access:remove_tenant_access", "rule:context_is_admin",
        "Withdraw a flavor from a project.",
        ["POST" "/flavors/{flavor_id}/action"];
    FlavorExtraSpecsIndex = "os_compute_api:os-flavor-extra-specs:index", "rule:project_reader_or_admin",
        "List the extra specs of a flavor.",
        ["GET" "/flavors/{flavor_id}/os-extra_specs", "GET" "/flavors/detail"];
    FlavorExtraSpecsShow = "os_compute_api:os-flavor-extra-specs:show", "rule:project_reader_or_admin",
        "See one extra spec of a flavor.",
        ["GET" "/flavors/{flavor_id}/os-extra_specs/{key}"];
    FlavorExtraSpecsCreate = "os_compute_api:os-flavor-extra-specs:create", "rule:context_is_admin",
        "Add extra specs to a flavor.",
        ["POST" "/flavors/{flavor_id}/os-extra_specs"];
    FlavorExtraSpecsUpdate = "os_compute_api:os-flavor-extra-specs:update", "rule:context_is_admin",
        "Set one extra spec of a flavor.",
        ["PUT" "/flavors/{flavor_id}/os-extra_specs/{key}"];
    FlavorExtraSpecsDelete = "os_compute_api:os-flavor-extra-specs:delete", "rule:context_is_admin",
        "Remove one extra spec of a flavor.",
        ["DELETE" "/flavors/{flavor_id}/os-extra_specs/{key}"];
    ServerGroupsIndex = "os_compute_api:os-server-groups:index", "rule:project_reader_or_admin",
        "List server groups.",
        ["GET" "/os-server-groups"];
    ServerGroupsIndexAllProjects = "os_compute_api:os-server-groups:index:all_projects", "rule:context_is_admin",
        "List the server groups of all projects.",
        ["GET" "/os-server-groups"];
    ServerGroupsShow = "os_compute_api:os-server-groups:show", "rule:project_reader_or_admin",
        "Look at a server group.",
        ["GET" "/os-server-groups/{server_group_id}"];
    ServerGroupsCreate = "os_compute_api:os-server-groups:create", "rule:project_member_or_admin",
        "Create a server group.",
        ["POST" "/os-server-groups"];
    ServerGroupsDelete = "os_compute_api:os-server-groups:delete", "rule:project_member_or_admin",
        "Delete a server group.",
        ["DELETE" "/os-server-groups/{server_group_id}"];
    HostAggregatesIndex = "os_compute_api:os-aggregates:index", "rule:context_is_admin",
        "List host aggregates.",
        ["GET" "/os-aggregates"];
    HostAggregatesShow = "os_compute_api:os-aggregates:show", "rule:context_is_admin",
        "Look at a host aggregate.",
        ["GET" "/os-aggregates/{aggregate_id}"];
    HostAggregatesCreate = "os_compute_api:os-aggregates:create", "rule:context_is_admin",
        "Create a host aggregate.",
        ["POST" "/os-aggregates"];
    HostAggregatesUpdate = "os_compute_api:os-aggregates:update", "rule:context_is_admin",
        "Rename a host aggregate, or change its zone.",
        ["PUT" "/os-aggregates/{aggregate_id}"];
    HostAggregatesDelete = "os_compute_api:os-aggregates:delete", "rule:context_is_admin",
        "Delete a host aggregate.",
        ["DELETE" "/os-aggregates/{aggregate_id}"];
    HostAggregatesAddHost = "os_compute_api:os-aggregates:add_host", "rule:context_is_admin",
        "Put a host into an aggregate.",
        ["POST" "/os-aggregates/{aggregate_id}/action"];
    HostAggregatesRemoveHost = "os_compute_api:os-aggregates:remove_host", "rule:context_is_admin",
        "Take a host out of an aggregate.",
        ["POST" "/os-aggregates/{aggregate_id}/action"];
    HostAggregatesSetMetadata = "os_compute_api:os-aggregates:set_metadata", "rule:context_is_admin",
        "Change the metadata of a host aggregate.",
        ["POST" "/os-aggregates/{aggregate_id}/action"];
    ZonesList = "os_compute_api:os-availability-zone:list", "@",
        "List the availability zones.",
        ["GET" "/os-availability-zone"];
    ZonesDetail = "os_compute_api:os-availability-zone:detail", "rule:context_is_admin",
        "List the availability zones with their hosts.",
        ["GET" "/os-availability-zone/detail"];
    TopologyList = "os_compute_api:placewright-topology:list", "@",
        "List the levels of the topology that `compute.topology_levels` shows. Not part of Nova.",
        ["GET" "/placewright/topology"];
    TopologyListAll = "os_compute_api:placewright-topology:list_all", "rule:context_is_admin",
        "See and name all levels and places of the topology. Not part of Nova.",
        ["GET" "/placewright/topology"];
    ServicesList = "os_compute_api:os-services:list", "rule:context_is_admin",
        "List the services.",
        ["GET" "/os-services"];
    ServicesUpdate = "os_compute_api:os-services:update", "rule:context_is_admin",
        "Enable, disable or force down a service.",
        ["PUT" "/os-services/{service_id}"];
    ServicesDelete = "os_compute_api:os-services:delete", "rule:context_is_admin",
        "Remove a service whose host will not come back.",
        ["DELETE" "/os-services/{service_id}"];
    HypervisorsList = "os_compute_api:os-hypervisors:list", "rule:context_is_admin",
        "List the hypervisors.",
        ["GET" "/os-hypervisors"];
    HypervisorsDetail = "os_compute_api:os-hypervisors:list-detail", "rule:context_is_admin",
        "List the hypervisors with their details.",
        ["GET" "/os-hypervisors/detail"];
    HypervisorsShow = "os_compute_api:os-hypervisors:show", "rule:context_is_admin",
        "Look at a hypervisor.",
        ["GET" "/os-hypervisors/{hypervisor_id}"];
    HypervisorsStatistics = "os_compute_api:os-hypervisors:statistics", "rule:context_is_admin",
        "See the sums over all hypervisors.",
        ["GET" "/os-hypervisors/statistics"];
    HypervisorsSearch = "os_compute_api:os-hypervisors:search", "rule:context_is_admin",
        "Find hypervisors by name.",
        ["GET" "/os-hypervisors/{pattern}/search"];
    HypervisorsServers = "os_compute_api:os-hypervisors:servers", "rule:context_is_admin",
        "List the servers of hypervisors.",
        ["GET" "/os-hypervisors/{pattern}/servers"];
    HypervisorsUptime = "os_compute_api:os-hypervisors:uptime", "rule:context_is_admin",
        "See how long a hypervisor has been up.",
        ["GET" "/os-hypervisors/{hypervisor_id}/uptime"];
    KeypairsIndex = "os_compute_api:os-keypairs:index", "rule:context_is_admin or user_id:%(user_id)s",
        "List key pairs.",
        ["GET" "/os-keypairs"];
    KeypairsShow = "os_compute_api:os-keypairs:show", "rule:context_is_admin or user_id:%(user_id)s",
        "Look at a key pair.",
        ["GET" "/os-keypairs/{name}"];
    KeypairsCreate = "os_compute_api:os-keypairs:create", "rule:context_is_admin or user_id:%(user_id)s",
        "Import a key pair.",
        ["POST" "/os-keypairs"];
    KeypairsDelete = "os_compute_api:os-keypairs:delete", "rule:context_is_admin or user_id:%(user_id)s",
        "Delete a key pair.",
        ["DELETE" "/os-keypairs/{name}"];
    LimitsShow = "os_compute_api:limits", "@",
        "See the limits.",
        ["GET" "/limits"];
    LimitsOtherProject = "os_compute_api:limits:other_project", "rule:context_is_admin",
        "See the limits of another project.",
        ["GET" "/limits"];
    QuotasShow = "os_compute_api:os-quota-sets:show", "rule:project_reader_or_admin",
        "See the quotas of a project.",
        ["GET" "/os-quota-sets/{project_id}"];
    QuotasDefaults = "os_compute_api:os-quota-sets:defaults", "@",
        "See the quotas that projects have by default.",
        ["GET" "/os-quota-sets/{project_id}/defaults"];
    QuotasDetail = "os_compute_api:os-quota-sets:detail", "rule:project_reader_or_admin",
        "See the quotas of a project and what it uses of them.",
        ["GET" "/os-quota-sets/{project_id}/detail"];
    QuotasUpdate = "os_compute_api:os-quota-sets:update", "rule:context_is_admin",
        "Set the quotas of a project.",
        ["PUT" "/os-quota-sets/{project_id}"];
    QuotasDelete = "os_compute_api:os-quota-sets:delete", "rule:context_is_admin",
        "Give a project the default quotas again.",
        ["DELETE" "/os-quota-sets/{project_id}"];
    QuotaClassesShow = "os_compute_api:os-quota-class-sets:show", "rule:context_is_admin",
        "See the quotas of a quota class.",
        ["GET" "/os-quota-class-sets/{quota_class}"];
    QuotaClassesUpdate = "os_compute_api:os-quota-class-sets:update", "rule:context_is_admin",
        "Set the quotas of a quota class.",
        ["PUT" "/os-quota-class-sets/{quota_class}"];
    ExtensionsList = "os_compute_api:extensions", "@",
        "List the API's extensions.",
        ["GET" "/extensions"];
    ImagesAllProjects = "image:all_projects", "rule:context_is_admin",
        "See and change images of all projects, and give them to others.",
        ["GET" "/v2/images", "GET" "/v2/images/{image_id}", "PATCH" "/v2/images/{image_id}"];
    ImagesIndex = "image:list", "rule:project_reader_or_admin",
        "List images, and see how many a project may have.",
        ["GET" "/v2/images", "GET" "/v2/info/usage"];
    ImagesShow = "image:show", "rule:project_reader_or_admin",
        "Look at an image and its members.",
        ["GET" "/v2/images/{image_id}", "GET" "/v2/images/{image_id}/members"];
    ImagesCreate = "image:create", "rule:project_member_or_admin",
        "Create images.",
        ["POST" "/v2/images"];
    ImagesUpdate = "image:update", "rule:project_member_or_admin",
        "Change the attributes, properties and tags of an image.",
        ["PATCH" "/v2/images/{image_id}", "PUT" "/v2/images/{image_id}/tags/{tag}"];
    ImagesDelete = "image:delete", "rule:project_member_or_admin",
        "Delete an image.",
        ["DELETE" "/v2/images/{image_id}"];
    ImagesUpload = "image:upload", "rule:project_member_or_admin",
        "Upload the bytes of an image.",
        ["PUT" "/v2/images/{image_id}/file"];
    ImagesDownload = "image:download", "rule:project_reader_or_admin",
        "Download the bytes of an image.",
        ["GET" "/v2/images/{image_id}/file"];
    ImagesPublicize = "image:publicize", "rule:context_is_admin",
        "Show an image to all projects.",
        ["POST" "/v2/images", "PATCH" "/v2/images/{image_id}"];
    ImagesCommunitize = "image:communitize", "rule:project_member_or_admin",
        "Let all projects use an image without listing it for them.",
        ["POST" "/v2/images", "PATCH" "/v2/images/{image_id}"];
    ImagesShare = "image:share", "rule:project_member_or_admin",
        "Share an image with other projects.",
        ["POST" "/v2/images/{image_id}/members", "DELETE" "/v2/images/{image_id}/members/{member_id}"];
}

impl Rule {
    /// The name in policy files, such as `placement:resource_providers:list`.
    pub fn name(self) -> &'static str {
        self.default().name
    }

    /// The default and the description.
    pub fn default(self) -> &'static RuleDefault {
        &RULE_DEFAULTS[self as usize]
    }

    /// Whether the rule belongs to the compute API.
    pub fn is_of_compute(self) -> bool {
        self.name().starts_with("os_compute_api:") || self.name().starts_with("compute:")
    }

    /// Whether the rule belongs to the Image API.
    pub fn is_of_image(self) -> bool {
        self.name().starts_with("image:")
    }

    /// The rule with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.name() == name)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
