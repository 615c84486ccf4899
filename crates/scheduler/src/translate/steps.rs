//! The steps of the translation from a request to its groups. Several steps may set the amount of the same class, so
//! the order of the steps matters.

use placewright_placement::GroupPolicy;

use super::extra_groups::{ExtraGroup, ExtraGroups};
use super::names::custom_name;
use super::options::TranslateOptions;
use super::parse_group::ParseGroup;
use super::translation::Translation;
use super::{accelerator, guest_cells, pci, port};
use crate::error::{BadRequest, Warning};
use crate::extra_spec::ExtraSpecKey;
use crate::flavor::{Flavor, extra_spec_field};
use crate::image;
use crate::request::device::PciNumaPolicy;
use crate::request::{RequestGroupPolicy, RequestSpec};
use crate::translate::cpu::{CpuPolicy, CpuThreadPolicy, EmulatorThreadsPolicy};
use crate::translate::guest_hardware::Tpm;
use crate::translate::guest_requirements::GuestRequirements;
use crate::translate::numa::GuestTopology;
use crate::translate::resource_request::ResourceRequest;

/// The resource class of which dedicated processors are requested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DedicatedCpuClass {
    Pcpu,
    /// In the fallback query, for hosts that report no PCPU.
    Vcpu,
}

/// The input of the steps.
pub(super) struct Input<'a> {
    pub(super) spec: &'a RequestSpec,
    pub(super) requirements: GuestRequirements<'a>,
    pub(super) options: &'a TranslateOptions,
    pub(super) extra_groups: &'a ExtraGroups,
}

/// The groups that the request contains, and those of ports, PCI devices and accelerators. Rules
/// between them are added to the translation.
pub(super) fn extra_groups(
    spec: &RequestSpec,
    options: &TranslateOptions,
    cell_count: usize,
    translation: &mut Translation,
) -> Result<ExtraGroups, BadRequest> {
    let requested = spec.requested_resources.iter().enumerate();
    let requested = requested.map(|(index, group)| ExtraGroup {
        group: group.clone(),
        field: format!("requested_resources[{index}].requester_id"),
    });
    let mut extra_groups = ExtraGroups {
        groups: requested.collect(),
        same_subtree: Vec::new(),
    };
    port::add_groups(spec, &mut extra_groups)?;
    let groups = &mut extra_groups.groups;
    accelerator::add_groups(spec, groups, &mut translation.warnings)?;
    if options.pci_in_placement {
        let grouped_cell_count = if options.numa_in_placement {
            cell_count
        } else {
            0
        };
        pci::add_groups(spec, options, grouped_cell_count, groups, translation)?;
    }
    Ok(extra_groups)
}

/// Builds the resource request. `grouped_cells` has the guest's NUMA cells if each becomes a group.
pub(super) fn build(
    input: &Input<'_>,
    dedicated_cpu_class: DedicatedCpuClass,
    grouped_cells: Option<&GuestTopology>,
    warnings: &mut Vec<Warning>,
) -> Result<ResourceRequest, BadRequest> {
    let Input {
        spec, requirements, ..
    } = *input;
    let mut request = ResourceRequest {
        limit: Some(input.options.max_placement_results),
        ..ResourceRequest::default()
    };
    add_request_level(spec, &mut request);
    add_extra_specs(&spec.flavor, &mut request, warnings)?;
    add_group_policy(spec, &mut request)?;
    request.flavor_group_count = request.suffixed.len();
    for name in requirements
        .image
        .iter()
        .flat_map(|image| image.traits_required())
    {
        request.group("").require(name);
    }
    // So far, the groups only have the amounts that the flavor sets explicitly, with `resources:`.
    let explicit_amounts = grouped_cells.map(|_| request.merged_resources());
    // If the class is VCPU, the defaults below request all processors.
    if dedicated_cpu_class == DedicatedCpuClass::Pcpu {
        add_dedicated_cpus(&requirements, &mut request)?;
    }
    for extra in &input.extra_groups.groups {
        request.add_group(extra.group.clone(), &extra.field)?;
    }
    request
        .same_subtree
        .extend(input.extra_groups.same_subtree.iter().cloned());
    add_defaults(spec, &mut request);
    add_memory_features(&requirements, &mut request)?;
    add_machine_features(&requirements, &mut request, warnings)?;
    if let Some((guest, explicit_amounts)) = grouped_cells.zip(explicit_amounts) {
        guest_cells::split(guest, &explicit_amounts, &mut request)?;
    }
    request.strip_zeros();
    Ok(request)
}

/// Adds the constraints on the request as a whole: on the root provider, and on which groups are in one
/// subtree.
fn add_request_level(spec: &RequestSpec, request: &mut ResourceRequest) {
    let params = &spec.request_level_params;
    request.root_required.clone_from(&params.root_required);
    request.root_forbidden.clone_from(&params.root_forbidden);
    request.same_subtree.clone_from(&params.same_subtree);
}

/// Adds the group policy that the request has itself.
fn add_group_policy(spec: &RequestSpec, request: &mut ResourceRequest) -> Result<(), BadRequest> {
    let Some(policy) = spec.group_policy else {
        return Ok(());
    };
    let policy = match policy {
        RequestGroupPolicy::None => GroupPolicy::None,
        RequestGroupPolicy::Isolate => GroupPolicy::Isolate,
    };
    if request.group_policy.is_some_and(|other| other != policy) {
        return Err(BadRequest::conflict(
            "group_policy",
            extra_spec_field("group_policy"),
            "they differ",
        ));
    }
    request.group_policy = Some(policy);
    Ok(())
}

/// Adds the resources, traits and the group policy of the flavor's extra specs.
fn add_extra_specs(
    flavor: &Flavor,
    request: &mut ResourceRequest,
    warnings: &mut Vec<Warning>,
) -> Result<(), BadRequest> {
    for (key, value) in &flavor.extra_specs {
        let field = || extra_spec_field(key);
        match ExtraSpecKey::parse(key) {
            ExtraSpecKey::Resources { suffix, class } => {
                let group = request.group(suffix);
                group.parse_resource(class, value, field, warnings);
            }
            ExtraSpecKey::Trait { suffix, name } => {
                request
                    .group(suffix)
                    .parse_trait(name, value, field, warnings);
            }
            ExtraSpecKey::AnyTrait { suffix } => {
                request.group(suffix).parse_any_trait(value, field)?;
            }
            ExtraSpecKey::GroupPolicy => match value.as_str() {
                "none" => request.group_policy = Some(GroupPolicy::None),
                "isolate" => request.group_policy = Some(GroupPolicy::Isolate),
                _ => warnings.push(Warning::BadGroupPolicy {
                    field: field(),
                    value: value.clone(),
                }),
            },
            ExtraSpecKey::Other => {}
        }
    }
    Ok(())
}

/// Requests dedicated processors as PCPU, and a host with the trait that the thread policy needs.
fn add_dedicated_cpus(
    requirements: &GuestRequirements<'_>,
    request: &mut ResourceRequest,
) -> Result<(), BadRequest> {
    let vcpus = u64::from(requirements.flavor.vcpus);
    let dedicated = match requirements.cpu_policy()? {
        Some(CpuPolicy::Dedicated) => Some(vcpus),
        Some(CpuPolicy::Mixed) => {
            let mask = match requirements.dedicated_cpus()? {
                Some(mask) => mask,
                None => requirements.realtime_cpus()?.unwrap_or_default(),
            };
            let dedicated = mask.len() as u64;
            let shared = vcpus.saturating_sub(dedicated);
            request.group("").set_resource("VCPU", shared);
            Some(dedicated)
        }
        Some(CpuPolicy::Shared) | None => None,
    };
    if let Some(dedicated) = dedicated {
        let isolates_emulator =
            requirements.emulator_threads_policy()? == Some(EmulatorThreadsPolicy::Isolate);
        let amount = dedicated + u64::from(isolates_emulator);
        request.group("").set_resource("PCPU", amount);
    }
    match requirements.cpu_thread_policy()? {
        Some(CpuThreadPolicy::Isolate) => request.group("").forbid("HW_CPU_HYPERTHREADING"),
        Some(CpuThreadPolicy::Require) => request.group("").require("HW_CPU_HYPERTHREADING"),
        Some(CpuThreadPolicy::Prefer) | None => {}
    }
    Ok(())
}

/// Adds the flavor's processors, memory and disk, except for classes that some group already has, with
/// whatever amount. VCPU and PCPU count as one class.
fn add_defaults(spec: &RequestSpec, request: &mut ResourceRequest) {
    let flavor = &spec.flavor;
    let has_class = |class| {
        let mut groups = request.groups();
        groups.any(|group| group.resources.contains_key(class))
    };
    let has_cpus = has_class("VCPU") || has_class("PCPU");
    let (has_memory, has_disk) = (has_class("MEMORY_MB"), has_class("DISK_GB"));
    if !has_cpus {
        let vcpus = u64::from(flavor.vcpus);
        request.group("").set_resource("VCPU", vcpus);
    }
    if !has_memory {
        let memory_mb = u64::from(flavor.memory_mb);
        request.group("").set_resource("MEMORY_MB", memory_mb);
    }
    let disk_gb = flavor.disk_gb(spec.is_bfv);
    if !has_disk && disk_gb > 0 {
        request.group("").set_resource("DISK_GB", disk_gb);
    }
}

/// Adds the resources and traits of encrypted and persistent memory.
fn add_memory_features(
    requirements: &GuestRequirements<'_>,
    request: &mut ResourceRequest,
) -> Result<(), BadRequest> {
    if let Some(model) = requirements.memory_encryption()? {
        let group = request.group("");
        group.set_resource("MEM_ENCRYPTION_CONTEXT", 1);
        group.require(model.required_trait());
    }
    let labels = requirements.persistent_memory();
    let classes: Vec<_> = labels
        .iter()
        .map(|label| custom_name(&format!("PMEM_NAMESPACE_{label}")))
        .collect();
    for class in &classes {
        let amount = classes.iter().filter(|other| *other == class).count();
        request.group("").set_resource(class, amount as u64);
    }
    Ok(())
}

/// Adds the traits of firmware and devices.
fn add_machine_features(
    requirements: &GuestRequirements<'_>,
    request: &mut ResourceRequest,
    warnings: &mut Vec<Warning>,
) -> Result<(), BadRequest> {
    if let Some(Tpm {
        model_trait,
        version_trait,
    }) = requirements.tpm()?
    {
        let group = request.group("");
        group.require(model_trait);
        group.require(version_trait);
    }
    if requirements.pci_numa_policy()? == Some(PciNumaPolicy::Socket) {
        request
            .group("")
            .require("COMPUTE_SOCKET_PCI_NUMA_AFFINITY");
    }
    if requirements.secure_boot()? {
        request
            .group("")
            .require("COMPUTE_SECURITY_UEFI_SECURE_BOOT");
    }
    if let Some(name) = requirements.address_mode_trait()? {
        request.group("").require(name);
    }
    if requirements.stateless_firmware() {
        request
            .group("")
            .require("COMPUTE_SECURITY_STATELESS_FIRMWARE");
    } else if let Some(image) = requirements.image
        && image.get("hw_firmware_stateless").is_some()
        && image.get("hw_firmware_type") != Some("uefi")
    {
        warnings.push(Warning::NeedsUefi {
            field: image::field("hw_firmware_stateless"),
        });
    }
    Ok(())
}
