//! Pre-filters, which add constraints to the query because of zones, tenants, image types and the
//! like.
//!
//! They run before the search, so that the search considers fewer hosts. Each can be switched on or off;
//! the defaults are Nova's. Source: Nova 34, `scheduler/request_filter.py`. Deliberately different:
//!
//! - An image property for which there is no standard trait is ignored with a warning; Nova then
//!   ignores all other properties too.
//! - The trait of an IOMMU model is the one that hosts report, `COMPUTE_VIOMMU_MODEL_…`; Nova requires
//!   `COMPUTE_VIOMMU_…`, which does not exist.
//! - Nova requires `OWNER_NOVA` of root providers and of the providers of devices. Here the trait is required of root
//!   providers only if there may be hosts that no compute service reported ([`Environment::has_reported_hosts_only`]).
//!   The scheduler knows reported hosts only, so a host whose traits somebody replaced can still be chosen. Of the
//!   providers of devices the trait is required cell by cell, once all compute services of the cell are new enough to
//!   add it.
//! - A zone that no aggregate has is refused, unless it is the default one. Nova's API refuses it too,
//!   but Nova's scheduler would ignore it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

use crate::error::{BadRequest, Warning};
use crate::request::RequestSpec;
use crate::translate::guest_requirements::GuestRequirements;
use crate::translate::rule::CandidateRule;
use crate::translate::target::{ComputeNode, Target};
use crate::translate::translation::Translation;

mod aggregate;
mod capability;

/// The switches of the pre-filters, under the names in Nova's configuration or code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrefilterOptions {
    /// Only hosts in the tenant's aggregates (metadata `filter_tenant_id…`), if the tenant has any.
    pub limit_tenants_to_placement_aggregate: bool,
    /// With `limit_tenants_to_placement_aggregate`: refuse requests of tenants that have no aggregate.
    pub placement_aggregate_required_for_tenants: bool,
    /// Only hosts in the requested zone.
    pub map_az_to_placement_aggregate: bool,
    /// The zone of hosts that have no other. Requesting it adds no constraint, unless it is the zone of an aggregate.
    pub default_availability_zone: String,
    /// Only hosts that support the image's disk format.
    pub query_placement_for_image_type_support: bool,
    /// Only hosts that are not disabled.
    pub compute_status_filter: bool,
    /// No hosts in aggregates that are reserved for a trait that the request does not require.
    pub enable_isolated_aggregate_filtering: bool,
    /// Only hosts with the device models of the image.
    pub image_metadata_prefilter: bool,
    /// Only hosts that support accelerators, if the flavor has any.
    pub accelerators_filter: bool,
    /// Only hosts that support packed virtqueues, if they are requested.
    pub packed_virtqueue_filter: bool,
    /// Only hosts in the segments of routed networks.
    pub query_placement_for_routed_network_aggregates: bool,
    /// Only hosts that support remote-managed ports, if the request has one.
    pub remote_managed_ports_filter: bool,
    /// Only hosts that can encrypt local disks, if that is requested.
    pub ephemeral_encryption_filter: bool,
    /// Only hosts with virtio sound devices, if one is requested.
    pub virtio_sound_filter: bool,
    /// Only hosts with the requested security mode of TPM secrets.
    pub tpm_secret_security_filter: bool,
    /// Only providers of PCI devices that have the trait `OWNER_NOVA`, in cells in which all compute services are new
    /// enough to add it. Root providers need the trait only if some hosts were not reported by a compute service.
    pub owner_nova_filter: bool,
}

impl Default for PrefilterOptions {
    fn default() -> Self {
        Self {
            limit_tenants_to_placement_aggregate: false,
            placement_aggregate_required_for_tenants: false,
            map_az_to_placement_aggregate: true,
            default_availability_zone: "nova".to_owned(),
            query_placement_for_image_type_support: false,
            compute_status_filter: true,
            enable_isolated_aggregate_filtering: false,
            image_metadata_prefilter: false,
            accelerators_filter: true,
            packed_virtqueue_filter: true,
            query_placement_for_routed_network_aggregates: false,
            remote_managed_ports_filter: true,
            ephemeral_encryption_filter: true,
            virtio_sound_filter: true,
            tpm_secret_security_filter: true,
            owner_nova_filter: true,
        }
    }
}

/// The pre-filters, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    missing_docs,
    reason = "the names are those of `PrefilterOptions` and of Nova"
)]
pub enum Prefilter {
    RequireTenantAggregate,
    MapAzToPlacementAggregate,
    RequireImageTypeSupport,
    ComputeStatus,
    IsolateAggregates,
    TransformImageMetadata,
    Accelerators,
    PackedVirtqueue,
    RoutedNetworks,
    RemoteManagedPorts,
    EphemeralEncryption,
    VirtioSound,
    TpmSecretSecurity,
    OwnerNova,
}

/// The data of the fleet that the pre-filters and the [target](crate::translate::target) need.
pub trait Environment {
    /// Visits every host aggregate with its metadata, in rising order of UUID.
    fn each_aggregate(&self, visit: &mut dyn FnMut(Uuid, &BTreeMap<String, String>));

    /// The aggregates of a network segment's provider; `None` if there is no such provider.
    fn segment_aggregates(&self, segment: Uuid) -> Option<Vec<Uuid>>;

    /// The lowest version among all compute services; 0 if there are none.
    fn compute_version_min(&self) -> u32;

    /// The highest among the cells' lowest versions. By default all hosts count as hosts of one cell.
    fn compute_version_min_of_newest_cell(&self) -> u32 {
        self.compute_version_min()
    }

    /// Whether every host was reported by a compute service. Then every root provider belongs to a compute service,
    /// even if it lacks the trait `OWNER_NOVA`.
    fn has_reported_hosts_only(&self) -> bool {
        false
    }

    /// The compute nodes that a target names.
    fn compute_nodes(&self, target: Target<'_>) -> Vec<ComputeNode>;
}

/// The reason why a pre-filter refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrefilterRefusal {
    /// The tenant must have an aggregate and has none.
    #[error("no hosts available for tenant {project:?}: it has no aggregate of its own")]
    NoTenantAggregate {
        /// The project that has no aggregate.
        project: String,
    },
    /// No aggregate has the zone.
    #[error("availability_zone: there is no zone {zone:?}")]
    NoSuchZone {
        /// The zone that no aggregate has.
        zone: String,
    },
    /// A segment of a routed network is in no aggregate.
    #[error("no aggregate found for segment {segment} of a routed network")]
    NoSegmentAggregate {
        /// The network segment without an aggregate.
        segment: Uuid,
    },
    /// The request is contradictory or invalid.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
}

impl PrefilterRefusal {
    /// The field of the request that is the reason, if there is one.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::BadRequest(error) => Some(error.field()),
            Self::NoSuchZone { .. } => Some("availability_zone"),
            Self::NoTenantAggregate { .. } | Self::NoSegmentAggregate { .. } => None,
        }
    }
}

/// The constraints that the pre-filters add to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedConstraints {
    /// Traits that the root provider must have.
    pub root_required: BTreeSet<String>,
    /// Traits that the root provider must not have.
    pub root_forbidden: BTreeSet<String>,
    /// The host must be in one aggregate of each inner list.
    pub aggregates: Vec<Vec<Uuid>>,
    /// The host must not be in any of these aggregates.
    pub forbidden_aggregates: BTreeSet<Uuid>,
    /// A trait that every provider of a PCI device must have.
    pub pci_required: Option<&'static str>,
    /// A version of the compute service, and a trait. In cells in which no compute service has an earlier version,
    /// every provider of a PCI device must have the trait.
    pub pci_required_since: Option<(u32, &'static str)>,
    /// The pre-filters that were enabled and applied to the request.
    pub applied: Vec<Prefilter>,
    /// Warnings about parts of the request that were ignored.
    pub warnings: Vec<Warning>,
}

/// The input of a pre-filter.
struct PrefilterInput<'a> {
    spec: &'a RequestSpec,
    requirements: GuestRequirements<'a>,
    translation: &'a Translation,
    options: &'a PrefilterOptions,
    environment: &'a dyn Environment,
}

/// The function of a pre-filter. It returns whether the pre-filter applied to the request.
type PrefilterFn = fn(&PrefilterInput<'_>, &mut AddedConstraints) -> Result<bool, PrefilterRefusal>;

/// The pre-filters with their functions, in the order in which they run.
const PREFILTERS: [(Prefilter, PrefilterFn); 14] = [
    (Prefilter::RequireTenantAggregate, aggregate::tenant),
    (Prefilter::MapAzToPlacementAggregate, aggregate::zone),
    (Prefilter::RequireImageTypeSupport, capability::image_type),
    (Prefilter::ComputeStatus, capability::compute_status),
    (Prefilter::IsolateAggregates, aggregate::isolated),
    (Prefilter::TransformImageMetadata, capability::image_devices),
    (Prefilter::Accelerators, capability::accelerators),
    (Prefilter::PackedVirtqueue, capability::packed_rings),
    (Prefilter::RoutedNetworks, aggregate::routed_networks),
    (
        Prefilter::RemoteManagedPorts,
        capability::remote_managed_ports,
    ),
    (Prefilter::EphemeralEncryption, capability::disk_encryption),
    (Prefilter::VirtioSound, capability::sound),
    (Prefilter::TpmSecretSecurity, capability::tpm_secret),
    (Prefilter::OwnerNova, capability::owner),
];

/// Runs the pre-filters that are switched on.
///
/// # Errors
///
/// [`PrefilterRefusal`] if one of them refuses the request.
pub fn apply(
    spec: &RequestSpec,
    translation: &Translation,
    options: &PrefilterOptions,
    environment: &dyn Environment,
) -> Result<AddedConstraints, PrefilterRefusal> {
    let input = PrefilterInput {
        spec,
        requirements: GuestRequirements::new(spec),
        translation,
        options,
        environment,
    };
    let mut added = AddedConstraints::default();
    for (name, prefilter) in PREFILTERS {
        if prefilter(&input, &mut added)? {
            added.applied.push(name);
        }
    }
    Ok(added)
}

impl AddedConstraints {
    /// Adds the constraints to a translated request and its fallback.
    pub fn add_to(&self, translation: &mut Translation) {
        if let Some((version, name)) = self.pci_required_since {
            translation.rules_since.push((
                version,
                CandidateRule::Trait {
                    groups: translation.pci_groups.clone(),
                    name,
                },
            ));
        }
        let pci_groups = &translation.pci_groups;
        let requests = [
            Some(&mut translation.request),
            translation.fallback.as_mut(),
        ];
        for request in requests.into_iter().flatten() {
            let (required, forbidden) = (&self.root_required, &self.root_forbidden);
            request.root_required.extend(required.iter().cloned());
            request.root_forbidden.extend(forbidden.iter().cloned());
            if !self.aggregates.is_empty() || !self.forbidden_aggregates.is_empty() {
                let group = request.group("");
                group.aggregates.extend(self.aggregates.iter().cloned());
                group
                    .forbidden_aggregates
                    .extend(&self.forbidden_aggregates);
            }
            let Some(name) = self.pci_required else {
                continue;
            };
            let groups = request.suffixed.iter_mut();
            for group in groups.filter(|group| pci_groups.contains(&group.requester_id)) {
                group.require(name);
            }
        }
        translation.warnings.extend(self.warnings.iter().cloned());
    }
}
