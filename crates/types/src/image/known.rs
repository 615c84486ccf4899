//! The image properties that the compute service knows, and the types of their values.
//!
//! Source: the image metadata of Nova 34 (`ImageMetaProps` 1.44).

use crate::error::BadRequest;
use crate::text;

/// The type of a property's value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Any text, without validation.
    Text,
    /// A boolean, in many spellings.
    Boolean,
    /// An integer of any size and sign.
    Integer,
    /// One of a fixed set of words.
    OneOf(&'static [&'static str]),
    /// One of a fixed set of words, after other spellings were normalised.
    Normalized(&'static [&'static str], Normalize),
    /// Comma-separated conditions on a version, such as `>=2.6,<9`.
    VersionPredicate,
    /// A structure that does not influence placement.
    Structured,
}

/// Normalises spellings of a word.
pub type Normalize = fn(&str) -> String;

/// The properties that were renamed: (old name, present name).
pub(crate) const OLD_NAMES: [(&str, &str); 22] = [
    ("architecture", "hw_architecture"),
    ("auto_disk_config", "hw_auto_disk_config"),
    ("bdm_v2", "img_bdm_v2"),
    ("bittorrent", "img_bittorrent"),
    ("block_device_mapping", "img_block_device_mapping"),
    ("cache_in_nova", "img_cache_in_nova"),
    ("hypervisor_type", "img_hv_type"),
    ("hypervisor_version_requires", "img_hv_requested_version"),
    ("ipxe_boot", "hw_ipxe_boot"),
    ("mappings", "img_mappings"),
    ("owner_id", "img_owner_id"),
    ("root_device_name", "img_root_device_name"),
    ("vm_mode", "hw_vm_mode"),
    ("vmware_disktype", "hw_disk_type"),
    ("vmware_image_version", "img_version"),
    ("vmware_linked_clone", "img_linked_clone"),
    ("vmware_ostype", "os_distro"),
    ("xenapi_device_id", "hw_device_id"),
    ("xenapi_image_compression_level", "img_compression_level"),
    (
        "xenapi_skip_agent_inject_files_at_boot",
        "os_skip_agent_inject_files_at_boot",
    ),
    ("xenapi_skip_agent_inject_ssh", "os_skip_agent_inject_ssh"),
    ("xenapi_use_agent", "img_use_agent"),
];

const ARCHITECTURES: &[&str] = &[
    "alpha",
    "armv6",
    "armv7l",
    "armv7b",
    "aarch64",
    "cris",
    "i686",
    "ia64",
    "lm32",
    "m68k",
    "microblaze",
    "microblazeel",
    "mips",
    "mipsel",
    "mips64",
    "mips64el",
    "openrisc",
    "parisc",
    "parisc64",
    "ppc",
    "ppcle",
    "ppc64",
    "ppc64le",
    "ppcemb",
    "s390",
    "s390x",
    "sh4",
    "sh4eb",
    "sparc",
    "sparc64",
    "unicore32",
    "x86_64",
    "xtensa",
    "xtensaeb",
];
const BUSES: &[&str] = &[
    "fdc", "ide", "sata", "scsi", "usb", "virtio", "xen", "lxc", "uml",
];
/// How guest processors can be assigned to processors of the host.
pub const CPU_POLICIES: &[&str] = &["dedicated", "shared", "mixed"];
/// How guest processors can relate to hardware threads.
pub const CPU_THREAD_POLICIES: &[&str] = &["prefer", "isolate", "require"];
/// How near the guest's PCI devices must be to the guest's memory.
pub const PCI_NUMA_POLICIES: &[&str] = &["required", "legacy", "preferred", "socket"];
/// Models of an emulated TPM.
pub const TPM_MODELS: &[&str] = &["tpm-tis", "tpm-crb"];
/// Versions of an emulated TPM.
pub const TPM_VERSIONS: &[&str] = &["1.2", "2.0"];
/// Whether a guest requires signed boot code.
pub const SECURE_BOOT: &[&str] = &["required", "disabled", "optional"];
/// Which side defines the width of guest addresses.
pub const ADDRESS_MODES: &[&str] = &["passthrough", "emulate"];
/// How guest memory can be encrypted.
pub const MEMORY_ENCRYPTION_MODELS: &[&str] =
    &["amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx"];
/// How ephemeral disks can be encrypted.
pub const DISK_ENCRYPTION_FORMATS: &[&str] = &["plain", "luks", "luksv2"];
/// Models of a sound device.
pub const SOUND_MODELS: &[&str] = &[
    "sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio",
];
const HYPERVISORS: &[&str] = &[
    "baremetal",
    "bhyve",
    "docker",
    "fake",
    "hyperv",
    "ironic",
    "kqemu",
    "kvm",
    "lxc",
    "lxd",
    "openvz",
    "parallels",
    "phyp",
    "qemu",
    "test",
    "uml",
    "vbox",
    "vz",
    "vmware",
    "xen",
    "zvm",
    "prsm",
];
const VIF_MODELS: &[&str] = &[
    "virtio",
    "ne2k_pci",
    "pcnet",
    "rtl8139",
    "e1000",
    "e1000e",
    "netfront",
    "spapr-vlan",
    "lan9118",
    "sriov",
    "vmxnet",
    "vmxnet3",
    "igb",
];
const SCSI_MODELS: &[&str] = &[
    "buslogic",
    "ibmvscsi",
    "lsilogic",
    "lsisas1068",
    "lsisas1078",
    "virtio-scsi",
    "vmpvscsi",
];
const VIDEO_MODELS: &[&str] = &[
    "cirrus", "qxl", "vga", "vmvga", "xen", "virtio", "gop", "none", "bochs",
];
const SIGNATURE_KEYS: &[&str] = &[
    "DSA",
    "ECC_SECP384R1",
    "ECC_SECP521R1",
    "ECC_SECT409K1",
    "ECC_SECT409R1",
    "ECC_SECT571K1",
    "ECC_SECT571R1",
    "RSA-PSS",
];

/// The type of a known property; `None` for an unknown property.
#[must_use]
pub fn kind(name: &str) -> Option<Kind> {
    device_property(name)
        .or_else(|| processor_property(name))
        .or_else(|| other_property(name))
}

/// The type of a property of devices or firmware; `None` for other properties.
fn device_property(name: &str) -> Option<Kind> {
    Some(match name {
        "hw_auto_disk_config" | "hw_disk_type" | "hw_machine_type" => Kind::Text,
        "hw_ephemeral_encryption_secret_uuid" => Kind::Text,
        "hw_boot_menu"
        | "hw_ephemeral_encryption"
        | "hw_firmware_stateless"
        | "hw_ipxe_boot"
        | "hw_qemu_guest_agent"
        | "hw_time_hpet"
        | "hw_vif_multiqueue_enabled"
        | "hw_virtio_packed_ring" => Kind::Boolean,
        "hw_device_id"
        | "hw_maxphysaddr_bits"
        | "hw_redirected_usb_ports"
        | "hw_serial_port_count"
        | "hw_video_ram" => Kind::Integer,
        "hw_cdrom_bus" | "hw_disk_bus" | "hw_floppy_bus" | "hw_rescue_bus" => Kind::OneOf(BUSES),
        "hw_ephemeral_encryption_format" => Kind::OneOf(DISK_ENCRYPTION_FORMATS),
        "hw_firmware_type" => Kind::OneOf(&["uefi", "bios"]),
        "hw_input_bus" => Kind::OneOf(&["usb", "virtio"]),
        "hw_maxphysaddr_mode" => Kind::OneOf(ADDRESS_MODES),
        "hw_pointer_model" => Kind::OneOf(&["usbtablet"]),
        "hw_rescue_device" => Kind::OneOf(&["cdrom", "disk", "floppy", "fs", "lun"]),
        "hw_rng_model" => Kind::OneOf(&["virtio"]),
        "hw_scsi_model" => Kind::Normalized(SCSI_MODELS, normalize_scsi_model),
        "hw_sound_model" => Kind::OneOf(SOUND_MODELS),
        "hw_tpm_model" => Kind::OneOf(TPM_MODELS),
        "hw_tpm_version" => Kind::OneOf(TPM_VERSIONS),
        "hw_usb_model" => Kind::OneOf(&["none", "nec-xhci", "qemu-xhci"]),
        "hw_video_model" => Kind::OneOf(VIDEO_MODELS),
        "hw_vif_model" => Kind::Normalized(VIF_MODELS, normalize_vif_model),
        "hw_viommu_model" => Kind::OneOf(&["intel", "smmuv3", "virtio", "auto"]),
        "hw_watchdog_action" => Kind::OneOf(&["none", "pause", "poweroff", "reset", "disabled"]),
        "os_secure_boot" => Kind::OneOf(SECURE_BOOT),
        _ => return None,
    })
}

/// The type of a property of processors or memory; `None` for other properties.
fn processor_property(name: &str) -> Option<Kind> {
    Some(match name {
        "hw_architecture" | "hw_emulation_architecture" => {
            Kind::Normalized(ARCHITECTURES, normalize_architecture)
        }
        "hw_cpu_realtime_mask" | "hw_mem_page_size" => Kind::Text,
        "hw_locked_memory" | "hw_mem_encryption" | "hw_pmu" => Kind::Boolean,
        "hw_cpu_cores" | "hw_cpu_max_cores" | "hw_cpu_max_sockets" | "hw_cpu_max_threads"
        | "hw_cpu_sockets" | "hw_cpu_threads" | "hw_numa_nodes" => Kind::Integer,
        "hw_cpu_policy" => Kind::OneOf(CPU_POLICIES),
        "hw_cpu_thread_policy" => Kind::OneOf(CPU_THREAD_POLICIES),
        "hw_mem_encryption_model" => Kind::OneOf(MEMORY_ENCRYPTION_MODELS),
        "hw_pci_numa_affinity_policy" => Kind::OneOf(PCI_NUMA_POLICIES),
        "hw_vm_mode" => Kind::Normalized(&["hvm", "xen", "uml", "exe"], normalize_vm_mode),
        _ => return None,
    })
}

/// The type of a property of the image's use or of the guest's operating system; `None` for other properties.
fn other_property(name: &str) -> Option<Kind> {
    Some(match name {
        "img_bdm_v2"
        | "img_bittorrent"
        | "img_cache_in_nova"
        | "img_hide_hypervisor_id"
        | "img_linked_clone"
        | "img_use_agent"
        | "os_require_quiesce"
        | "os_skip_agent_inject_files_at_boot"
        | "os_skip_agent_inject_ssh" => Kind::Boolean,
        "img_owner_id"
        | "img_root_device_name"
        | "img_signature"
        | "img_signature_certificate_uuid"
        | "os_admin_user"
        | "os_command_line"
        | "os_distro" => Kind::Text,
        "img_compression_level" | "img_version" => Kind::Integer,
        "img_config_drive" => Kind::OneOf(&["optional", "mandatory"]),
        "img_hv_type" => Kind::Normalized(HYPERVISORS, normalize_hypervisor),
        "img_hv_requested_version" => Kind::VersionPredicate,
        "img_signature_hash_method" => Kind::OneOf(&["SHA-224", "SHA-256", "SHA-384", "SHA-512"]),
        "img_signature_key_type" => Kind::OneOf(SIGNATURE_KEYS),
        "os_type" => Kind::Normalized(&["linux", "windows"], str::to_lowercase),
        "img_block_device_mapping" | "img_mappings" => Kind::Structured,
        _ => return None,
    })
}

impl Kind {
    /// The canonical form of a value; `field` is the property's name in the error.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] for an invalid value.
    pub fn canonical(self, field: &str, value: &str) -> Result<String, BadRequest> {
        let refuse = |expected| Err(BadRequest::malformed(field, value, expected));
        match self {
            Self::Text | Self::Structured => Ok(value.to_owned()),
            Self::Boolean => Ok(text::means_true(value).to_string()),
            Self::Integer => match text::whole_number(value) {
                Some(number) => Ok(number.to_string()),
                None => refuse("a whole number"),
            },
            Self::VersionPredicate if value.split(',').all(is_version_condition) => {
                Ok(value.to_owned())
            }
            Self::VersionPredicate => refuse("a condition on a version, such as \">=2.6\""),
            Self::OneOf(allowed) => one_of(field, value, value.to_owned(), allowed),
            Self::Normalized(allowed, normalize) => one_of(field, value, normalize(value), allowed),
        }
    }
}

/// Refuses a value that is not allowed. `given` is the value as the request has it, and `value` its normalised form.
fn one_of(
    field: &str,
    given: &str,
    value: String,
    allowed: &'static [&'static str],
) -> Result<String, BadRequest> {
    if allowed.contains(&&*value) {
        return Ok(value);
    }
    Err(BadRequest::NotAllowed {
        field: field.to_owned(),
        value: given.to_owned(),
        allowed,
    })
}

/// Whether a text is a comparison operator followed by something that starts like a version.
fn is_version_condition(text: &str) -> bool {
    let text = text.trim();
    let operators = ["<=", ">=", "!=", "==", "<", ">"];
    let version = operators.iter().find_map(|sign| text.strip_prefix(sign));
    version.is_some_and(|version| {
        let version = version.trim();
        let number = version.strip_prefix(['v', 'V']).unwrap_or(version);
        number.starts_with(|first: char| first.is_ascii_digit())
            && !number.contains(char::is_whitespace)
    })
}

fn normalize_architecture(name: &str) -> String {
    let name = name.to_lowercase();
    match &*name {
        "i386" | "i486" | "i586" | "x86_32" | "x86_32p" => "i686".to_owned(),
        "amd64" => "x86_64".to_owned(),
        _ => name,
    }
}

fn normalize_hypervisor(name: &str) -> String {
    let name = name.to_lowercase();
    if name == "xapi" {
        "xen".to_owned()
    } else {
        name
    }
}

fn normalize_vm_mode(name: &str) -> String {
    let name = name.to_lowercase();
    match &*name {
        "pv" => "xen".to_owned(),
        "hv" | "baremetal" => "hvm".to_owned(),
        _ => name,
    }
}

fn normalize_scsi_model(name: &str) -> String {
    let name = name.to_lowercase();
    match &*name {
        "lsilogicsas" => "lsisas1068".to_owned(),
        "paravirtual" => "vmpvscsi".to_owned(),
        _ => name,
    }
}

fn normalize_vif_model(name: &str) -> String {
    let name = name.to_lowercase();
    match &*name {
        "virtuale1000" => "e1000".to_owned(),
        "virtuale1000e" => "e1000e".to_owned(),
        "virtualpcnet32" => "pcnet".to_owned(),
        "virtualsriovethernetcard" => "sriov".to_owned(),
        "virtualvmxnet" => "vmxnet".to_owned(),
        "virtualvmxnet3" => "vmxnet3".to_owned(),
        _ => name,
    }
}
