//! Firmware and devices of a guest that only some hosts support.

use crate::error::BadRequest;
use crate::image::known::{
    ADDRESS_MODES, DISK_ENCRYPTION_FORMATS, PCI_NUMA_POLICIES, SECURE_BOOT, SOUND_MODELS,
    TPM_MODELS, TPM_VERSIONS,
};
use crate::request::device::PciNumaPolicy;
use crate::translate::guest_requirements::{
    GuestRequirements, SourcedValue, check_keyword, flavor_field,
};

/// The host traits that an emulated trusted platform module requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tpm {
    /// The trait for the module's model.
    pub model_trait: &'static str,
    /// The trait for the module's version.
    pub version_trait: &'static str,
}

impl<'a> GuestRequirements<'a> {
    /// The emulated TPM, if the request has a TPM version. The default model is TIS.
    pub fn tpm(&self) -> Result<Option<Tpm>, BadRequest> {
        let Some(version) = self.merged_keyword("hw", "tpm_version", TPM_VERSIONS)? else {
            return Ok(None);
        };
        let model = self.merged_keyword("hw", "tpm_model", TPM_MODELS)?;
        if model == Some("tpm-crb") && version != "2.0" {
            return Err(BadRequest::conflict(
                flavor_field("hw", "tpm_model"),
                flavor_field("hw", "tpm_version"),
                "\"tpm-crb\" exists only in version 2.0",
            ));
        }
        Ok(Some(Tpm {
            model_trait: match model {
                Some("tpm-crb") => "COMPUTE_SECURITY_TPM_CRB",
                _ => "COMPUTE_SECURITY_TPM_TIS",
            },
            version_trait: match version {
                "2.0" => "COMPUTE_SECURITY_TPM_2_0",
                _ => "COMPUTE_SECURITY_TPM_1_2",
            },
        }))
    }

    /// Whether the guest requires secure boot.
    pub fn secure_boot(&self) -> Result<bool, BadRequest> {
        let policy = self.merged_keyword("os", "secure_boot", SECURE_BOOT)?;
        Ok(policy == Some("required"))
    }

    /// The host trait for the requested mode of physical guest addresses, if the request has one.
    pub fn address_mode_trait(&self) -> Result<Option<&'static str>, BadRequest> {
        let mode = self.merged_keyword("hw", "maxphysaddr_mode", ADDRESS_MODES)?;
        Ok(mode.map(|mode| match mode {
            "passthrough" => "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
            _ => "COMPUTE_ADDRESS_SPACE_EMULATED",
        }))
    }

    /// Whether the guest's firmware is stateless; only UEFI can be.
    #[must_use]
    pub fn stateless_firmware(&self) -> bool {
        let Some(image) = self.image else {
            return false;
        };
        image.get("hw_firmware_type") == Some("uefi")
            && image.flag("hw_firmware_stateless") == Some(true)
    }

    /// The NUMA affinity that the guest's PCI devices must have, if flavor or image set it.
    pub fn pci_numa_policy(&self) -> Result<Option<PciNumaPolicy>, BadRequest> {
        let policy = self.merged_keyword("hw", "pci_numa_affinity_policy", PCI_NUMA_POLICIES)?;
        Ok(policy.map(|policy| match policy {
            "required" => PciNumaPolicy::Required,
            "preferred" => PciNumaPolicy::Preferred,
            "socket" => PciNumaPolicy::Socket,
            _ => PciNumaPolicy::Legacy,
        }))
    }

    /// Whether network devices use packed rings.
    pub fn packed_ring(&self) -> Result<bool, BadRequest> {
        self.merged_flag("virtio_packed_ring")
    }

    /// Whether local disks are encrypted.
    pub fn disk_encryption(&self) -> Result<bool, BadRequest> {
        self.merged_flag("ephemeral_encryption")
    }

    /// The encryption format of local disks, if one is given.
    pub fn disk_encryption_format(&self) -> Result<Option<&'a str>, BadRequest> {
        self.merged_keyword("hw", "ephemeral_encryption_format", DISK_ENCRYPTION_FORMATS)
    }

    /// The model of the sound device, if there is one.
    pub fn sound_model(&self) -> Result<Option<&'a str>, BadRequest> {
        self.merged_keyword("hw", "sound_model", SOUND_MODELS)
    }

    /// The host trait for the security mode of a TPM's secret. Only a flavor can set the mode, because a
    /// rebuild with another image could not change it.
    pub fn tpm_secret_trait(&self) -> Result<&'static str, BadRequest> {
        let key = "tpm_secret_security";
        let value = self.flavor.filled_extra_spec("hw:tpm_secret_security");
        let value = value.unwrap_or("user");
        let field = flavor_field("hw", key);
        check_keyword(
            &SourcedValue { value, field },
            &["user", "host", "deployment"],
        )?;
        Ok(match value {
            "host" => "COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST",
            "deployment" => "COMPUTE_SECURITY_TPM_SECRET_SECURITY_DEPLOYMENT",
            _ => "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER",
        })
    }
}
