//! Pre-filters that require traits of hosts.

use placewright_placement::names::standard_traits;
use placewright_types::host_state::{OWNER_TRAIT, OWNER_TRAIT_SINCE};

use crate::error::Warning;
use crate::image;
use crate::translate::accelerator::DEVICE_PROFILE_KEY;
use crate::translate::prefilter::{AddedConstraints, PrefilterInput, PrefilterRefusal};

/// The image properties that name a device model, with the prefix of the trait for it.
const DEVICE_TRAITS: [(&str, &str); 7] = [
    ("hw_cdrom_bus", "COMPUTE_STORAGE_BUS"),
    ("hw_disk_bus", "COMPUTE_STORAGE_BUS"),
    ("hw_video_model", "COMPUTE_GRAPHICS_MODEL"),
    ("hw_vif_model", "COMPUTE_NET_VIF_MODEL"),
    ("hw_architecture", "HW_ARCH"),
    ("hw_emulation_architecture", "COMPUTE_ARCH"),
    ("hw_viommu_model", "COMPUTE_VIOMMU_MODEL"),
];

/// Requires support of the image's disk format, unless the instance boots from a volume.
pub(super) fn image_type(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    if !input.options.query_placement_for_image_type_support || input.spec.is_bfv {
        return Ok(false);
    }
    let image = input.spec.image.as_ref();
    let Some(format) = image.and_then(|image| image.disk_format.as_deref()) else {
        return Ok(false);
    };
    let name = format!("COMPUTE_IMAGE_TYPE_{}", format.to_uppercase());
    Ok(require_standard(
        name,
        || "image.disk_format".to_owned(),
        added,
    ))
}

/// Excludes hosts that their operator disabled.
pub(super) fn compute_status(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    if input.options.compute_status_filter {
        let name = "COMPUTE_STATUS_DISABLED";
        added.root_forbidden.insert(name.to_owned());
    }
    Ok(input.options.compute_status_filter)
}

/// Requires support of the image's device models.
pub(super) fn image_devices(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    if !input.options.image_metadata_prefilter {
        return Ok(false);
    }
    for (property, prefix) in DEVICE_TRAITS {
        if let Some(value) = input.spec.image_property(property) {
            let value = value.replace('-', "_").to_uppercase();
            let name = format!("{prefix}_{value}");
            require_standard(name, || image::field(property), added);
        }
    }
    Ok(true)
}

/// Requires support of accelerators if the flavor names a device profile.
pub(super) fn accelerators(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    let profile = input.spec.flavor.filled_extra_spec(DEVICE_PROFILE_KEY);
    let is_required = input.options.accelerators_filter && profile.is_some();
    Ok(require_if(is_required, "COMPUTE_ACCELERATORS", added))
}

/// Requires support of packed virtqueues if they are requested.
pub(super) fn packed_rings(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    let is_required = input.options.packed_virtqueue_filter && input.requirements.packed_ring()?;
    Ok(require_if(is_required, "COMPUTE_NET_VIRTIO_PACKED", added))
}

/// Requires remote-managed ports if the request has one.
pub(super) fn remote_managed_ports(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    let mut nics = input.spec.requested_networks.iter();
    let is_required = input.options.remote_managed_ports_filter
        && nics.any(|nic| nic.vnic_type.as_deref() == Some("remote-managed"));
    Ok(require_if(
        is_required,
        "COMPUTE_REMOTE_MANAGED_PORTS",
        added,
    ))
}

/// Requires encryption of local disks if it is requested, with the format if one is requested.
pub(super) fn disk_encryption(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    if !input.options.ephemeral_encryption_filter || !input.requirements.disk_encryption()? {
        return Ok(false);
    }
    let name = "COMPUTE_EPHEMERAL_ENCRYPTION";
    added.root_required.insert(name.to_owned());
    if let Some(format) = input.requirements.disk_encryption_format()? {
        let name = format!("{name}_{}", format.to_uppercase());
        added.root_required.insert(name);
    }
    Ok(true)
}

/// Requires virtio sound devices if image or flavor request one.
pub(super) fn sound(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    let is_required =
        input.options.virtio_sound_filter && input.requirements.sound_model()? == Some("virtio");
    Ok(require_if(is_required, "COMPUTE_SOUND_MODEL_VIRTIO", added))
}

/// Requires the security mode of the TPM's secret if the guest has a TPM.
pub(super) fn tpm_secret(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    if !input.options.tpm_secret_security_filter || input.requirements.tpm()?.is_none() {
        return Ok(false);
    }
    let name = input.requirements.tpm_secret_trait()?;
    added.root_required.insert(name.to_owned());
    Ok(true)
}

/// Requires providers that belong to the compute service, so that devices of other services are not used.
pub(super) fn owner(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    if !input.options.owner_nova_filter {
        return Ok(false);
    }
    let params = &input.spec.request_level_params;
    if params.root_required.contains(OWNER_TRAIT) {
        return Ok(true);
    }
    if input.environment.compute_version_min() < OWNER_TRAIT_SINCE {
        let newest_cell = input.environment.compute_version_min_of_newest_cell();
        let is_used = newest_cell >= OWNER_TRAIT_SINCE && !input.translation.pci_groups.is_empty();
        added.pci_required_since = is_used.then_some((OWNER_TRAIT_SINCE, OWNER_TRAIT));
        return Ok(is_used);
    }
    added.pci_required = Some(OWNER_TRAIT);
    if !input.environment.has_reported_hosts_only() {
        added.root_required.insert(OWNER_TRAIT.to_owned());
    }
    Ok(true)
}

/// Requires a trait of the host if `is_required`. Returns `is_required`.
fn require_if(is_required: bool, name: &str, added: &mut AddedConstraints) -> bool {
    if is_required {
        added.root_required.insert(name.to_owned());
    }
    is_required
}

/// Requires a trait of the host if it is a standard trait; otherwise adds a warning. Returns
/// whether it is one.
fn require_standard(
    name: String,
    field: impl FnOnce() -> String,
    added: &mut AddedConstraints,
) -> bool {
    let is_standard = standard_traits().any(|standard| standard == name);
    if is_standard {
        added.root_required.insert(name);
    } else {
        let field = field();
        added.warnings.push(Warning::NoSuchTrait { field, name });
    }
    is_standard
}
