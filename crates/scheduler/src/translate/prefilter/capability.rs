//! Pre-filters that require traits of hosts.

use placewright_placement::names::standard_traits;

use crate::error::Warning;
use crate::image;
use crate::translate::accelerator::DEVICE_PROFILE_KEY;
use crate::translate::prefilter::{Additions, COMPUTE_VERSION_OWNER, Look, PrefilterRefusal};

const OWNER: &str = "OWNER_NOVA";

/// Image properties that name a device model, with the prefix of the trait for it.
const DEVICE_TRAITS: [(&str, &str); 7] = [
    ("hw_cdrom_bus", "COMPUTE_STORAGE_BUS"),
    ("hw_disk_bus", "COMPUTE_STORAGE_BUS"),
    ("hw_video_model", "COMPUTE_GRAPHICS_MODEL"),
    ("hw_vif_model", "COMPUTE_NET_VIF_MODEL"),
    ("hw_architecture", "HW_ARCH"),
    ("hw_emulation_architecture", "COMPUTE_ARCH"),
    ("hw_viommu_model", "COMPUTE_VIOMMU_MODEL"),
];

/// Requires support of the image's disk format; not for volumes.
pub(super) fn image_type(
    look: &Look<'_>,
    additions: &mut Additions,
) -> Result<bool, PrefilterRefusal> {
    if !look.options.query_placement_for_image_type_support || look.spec.is_bfv {
        return Ok(false);
    }
    let image = look.spec.image.as_ref();
    let Some(format) = image.and_then(|image| image.disk_format.as_deref()) else {
        return Ok(false);
    };
    let name = format!("COMPUTE_IMAGE_TYPE_{}", format.to_uppercase());
    Ok(require_standard(
        name,
        || "image.disk_format".to_owned(),
        additions,
    ))
}

/// Excludes hosts that their operator disabled.
pub(super) fn compute_status(
    look: &Look<'_>,
    additions: &mut Additions,
) -> Result<bool, PrefilterRefusal> {
    if look.options.compute_status_filter {
        let name = "COMPUTE_STATUS_DISABLED";
        additions.root_forbidden.insert(name.to_owned());
    }
    Ok(look.options.compute_status_filter)
}

/// Requires support of the image's device models.
pub(super) fn image_devices(
    look: &Look<'_>,
    additions: &mut Additions,
) -> Result<bool, PrefilterRefusal> {
    if !look.options.image_metadata_prefilter {
        return Ok(false);
    }
    for (property, prefix) in DEVICE_TRAITS {
        if let Some(value) = look.spec.image_property(property) {
            let value = value.replace('-', "_").to_uppercase();
            let name = format!("{prefix}_{value}");
            require_standard(name, || image::field(property), additions);
        }
    }
    Ok(true)
}

/// Requires support of accelerators if the flavor names a device profile.
pub(super) fn accelerators(
    look: &Look<'_>,
    additions: &mut Additions,
) -> Result<bool, PrefilterRefusal> {
    let profile = look.spec.flavor.filled_extra_spec(DEVICE_PROFILE_KEY);
    let is_wanted = look.options.accelerators_filter && profile.is_some();
    Ok(require_if(is_wanted, "COMPUTE_ACCELERATORS", additions))
}

/// Requires support of packed virtqueues if they are requested.
pub(super) fn packed_rings(
    look: &Look<'_>,
    additions: &mut Additions,
) -> Result<bool, PrefilterRefusal> {
    let is_wanted = look.options.packed_virtqueue_filter && look.wishes.packed_ring()?;
    Ok(require_if(
        is_wanted,
        "COMPUTE_NET_VIRTIO_PACKED",
        additions,
    ))
}

/// Requires remote-managed ports if the request has one.
pub(super) fn remote_managed_ports(
    look: &Look<'_>,
    additions: &mut Additions,
) -> Result<bool, PrefilterRefusal> {
    let mut nics = look.spec.requested_networks.iter();
    let is_wanted = look.options.remote_managed_ports_filter
        && nics.any(|nic| nic.vnic_type.as_deref() == Some("remote-managed"));
    Ok(require_if(
        is_wanted,
        "COMPUTE_REMOTE_MANAGED_PORTS",
        additions,
    ))
}

/// Requires encryption of local disks, and the format if one is named.
pub(super) fn disk_encryption(
    look: &Look<'_>,
    additions: &mut Additions,
) -> Result<bool, PrefilterRefusal> {
    if !look.options.ephemeral_encryption_filter || !look.wishes.disk_encryption()? {
        return Ok(false);
    }
    let name = "COMPUTE_EPHEMERAL_ENCRYPTION";
    additions.root_required.insert(name.to_owned());
    if let Some(format) = look.wishes.disk_encryption_format()? {
        let name = format!("{name}_{}", format.to_uppercase());
        additions.root_required.insert(name);
    }
    Ok(true)
}

/// Requires virtio sound devices if the image or flavor asks for one.
pub(super) fn sound(look: &Look<'_>, additions: &mut Additions) -> Result<bool, PrefilterRefusal> {
    let is_wanted =
        look.options.virtio_sound_filter && look.wishes.sound_model()? == Some("virtio");
    Ok(require_if(
        is_wanted,
        "COMPUTE_SOUND_MODEL_VIRTIO",
        additions,
    ))
}

/// Requires the security mode of the TPM secret.
pub(super) fn tpm_secret(
    look: &Look<'_>,
    additions: &mut Additions,
) -> Result<bool, PrefilterRefusal> {
    if !look.options.tpm_secret_security_filter || look.wishes.tpm()?.is_none() {
        return Ok(false);
    }
    let name = look.wishes.tpm_secret_trait()?;
    Ok(require_if(true, name, additions))
}

/// Requires providers that belong to the compute service, so that devices of other services are
/// left alone.
pub(super) fn owner(look: &Look<'_>, additions: &mut Additions) -> Result<bool, PrefilterRefusal> {
    if !look.options.owner_nova_filter {
        return Ok(false);
    }
    let params = &look.spec.request_level_params;
    if params.root_required.contains(OWNER) {
        return Ok(true);
    }
    if look.surroundings.compute_version_min() < COMPUTE_VERSION_OWNER {
        return Ok(false);
    }
    additions.pci_required = Some(OWNER);
    Ok(require_if(true, OWNER, additions))
}

fn require_if(is_wanted: bool, name: &str, additions: &mut Additions) -> bool {
    if is_wanted {
        additions.root_required.insert(name.to_owned());
    }
    is_wanted
}

/// Requires the host trait of this name if it is a standard one; warns otherwise.
fn require_standard(
    name: String,
    field: impl FnOnce() -> String,
    additions: &mut Additions,
) -> bool {
    let is_standard = standard_traits().any(|standard| standard == name);
    if is_standard {
        additions.root_required.insert(name);
    } else {
        let field = field();
        additions
            .warnings
            .push(Warning::NoSuchTrait { field, name });
    }
    is_standard
}
