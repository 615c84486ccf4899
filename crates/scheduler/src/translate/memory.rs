//! Pages, locking, persistence and encryption of guest memory.

use crate::error::BadRequest;
use crate::image::known::MEMORY_ENCRYPTION_MODELS;
use crate::translate::guest_requirements::{
    GuestRequirements, SourcedValue, check_keyword, flavor_field, image_field,
};
use placewright_types::text::means_true;

/// The size of the pages of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// The smallest size of the host.
    Small,
    /// Any size but the smallest.
    Large,
    /// Any size of the host.
    Any,
    /// Pages of this many KiB.
    Kib(u64),
}

/// How guest memory is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryEncryption {
    /// AMD Secure Encrypted Virtualization.
    AmdSev,
    /// AMD SEV with encrypted register state (SEV-ES).
    AmdSevEs,
    /// AMD SEV with protection of nested page tables (SEV-SNP).
    AmdSevSnp,
    /// Intel Trust Domain Extensions.
    IntelTdx,
}

impl MemoryEncryption {
    /// The trait of hosts that support it.
    #[must_use]
    pub fn required_trait(self) -> &'static str {
        match self {
            Self::AmdSev => "HW_CPU_X86_AMD_SEV",
            Self::AmdSevEs => "HW_CPU_X86_AMD_SEV_ES",
            Self::AmdSevSnp => "HW_CPU_X86_AMD_SEV_SNP",
            Self::IntelTdx => "HW_CPU_X86_INTEL_TDX",
        }
    }

    fn needs_stateless_firmware(self) -> bool {
        match self {
            Self::AmdSev | Self::AmdSevEs => false,
            Self::AmdSevSnp | Self::IntelTdx => true,
        }
    }
}

impl GuestRequirements<'_> {
    /// The page size; an image can set it only where the flavor allows that.
    pub fn page_size(&self) -> Result<Option<PageSize>, BadRequest> {
        let key = "mem_page_size";
        let of_image = self.of_image("hw", key).filter(|text| !text.is_empty());
        let Some(of_flavor) = self.of_flavor("hw", key).filter(|text| !text.is_empty()) else {
            return match of_image {
                Some(_) => Err(BadRequest::conflict(
                    image_field("hw", key),
                    flavor_field("hw", key),
                    "the flavor does not let the image choose",
                )),
                None => Ok(None),
            };
        };
        let read = |text, field: String| {
            read_page_size(text).ok_or_else(|| {
                BadRequest::malformed(field, text, "\"small\", \"large\", \"any\" or a size")
            })
        };
        let size = read(of_flavor, flavor_field("hw", key))?;
        match (of_image, size) {
            (None, size) => Ok(Some(size)),
            (Some(text), PageSize::Any | PageSize::Large) => {
                Ok(Some(read(text, image_field("hw", key))?))
            }
            (Some(_), PageSize::Small | PageSize::Kib(_)) => Err(BadRequest::conflict(
                image_field("hw", key),
                flavor_field("hw", key),
                "the flavor fixes the size",
            )),
        }
    }

    /// Whether guest memory must never be swapped out.
    pub fn locked_memory(&self) -> Result<bool, BadRequest> {
        let of_flavor = self.of_flavor("hw", "locked_memory").map(means_true);
        let of_image = self.of_image("hw", "locked_memory").map(means_true);
        if let (Some(flavor), Some(image)) = (of_flavor, of_image)
            && flavor != image
        {
            return Err(BadRequest::conflict(
                image_field("hw", "locked_memory"),
                flavor_field("hw", "locked_memory"),
                "they say different things",
            ));
        }
        let is_locked = of_flavor.or(of_image).unwrap_or(false);
        let key = "mem_page_size";
        let sizes = [self.of_flavor("hw", key), self.of_image("hw", key)];
        let has_size = sizes.iter().flatten().any(|text| !text.is_empty());
        if is_locked && !has_size {
            return Err(BadRequest::missing(
                flavor_field("hw", key),
                "hw:locked_memory needs it",
            ));
        }
        if !is_locked {
            self.memory_encryption()?;
        }
        Ok(is_locked)
    }

    /// The labels of persistent memory namespaces, each as often as it is requested.
    #[must_use]
    pub fn persistent_memory(&self) -> Vec<&str> {
        let labels = self.flavor.extra_spec("hw:pmem").unwrap_or_default();
        let labels = labels.split(',').map(str::trim);
        labels.filter(|label| !label.is_empty()).collect()
    }

    /// How guest memory is to be encrypted, if at all.
    pub fn memory_encryption(&self) -> Result<Option<MemoryEncryption>, BadRequest> {
        if !self.merged_flag("mem_encryption")? {
            return Ok(None);
        }
        let key = "mem_encryption_model";
        let of_flavor = self.of_flavor("hw", key);
        let of_image = self.of_image("hw", key);
        if let (Some(flavor), Some(image)) = (of_flavor, of_image)
            && flavor != image
        {
            return Err(BadRequest::conflict(
                image_field("hw", key),
                flavor_field("hw", key),
                format!("the image says {image:?}, the flavor {flavor:?}"),
            ));
        }
        let given = of_image.or(of_flavor).filter(|text| !text.is_empty());
        let model = match given {
            None => MemoryEncryption::AmdSev,
            Some(value) => {
                let field = flavor_field("hw", key);
                check_keyword(&SourcedValue { value, field }, MEMORY_ENCRYPTION_MODELS)?;
                read_model(value)
            }
        };
        self.check_encrypted_machine(model)?;
        Ok(Some(model))
    }

    /// Refuses encryption for an image that does not support it.
    fn check_encrypted_machine(&self, model: MemoryEncryption) -> Result<(), BadRequest> {
        let of_image = |name| self.image.and_then(|image| image.get(name));
        let refuse = |key, needed| {
            Err(BadRequest::conflict(
                image_field("hw", key),
                "hw:mem_encryption or hw_mem_encryption",
                format!("encrypted memory needs {needed}"),
            ))
        };
        if of_image("hw_firmware_type") != Some("uefi") {
            return refuse("firmware_type", "\"uefi\"");
        }
        if of_image("hw_machine_type").is_some_and(|machine| !machine.contains("q35")) {
            return refuse("machine_type", "a q35 machine");
        }
        if model.needs_stateless_firmware() && !self.stateless_firmware() {
            return refuse("firmware_stateless", "stateless firmware with this model");
        }
        let has_video = of_image("hw_video_model") != Some("none");
        if model == MemoryEncryption::IntelTdx && has_video {
            return refuse("video_model", "\"none\" with this model");
        }
        Ok(())
    }
}

fn read_model(word: &str) -> MemoryEncryption {
    match word {
        "amd-sev-es" => MemoryEncryption::AmdSevEs,
        "amd-sev-snp" => MemoryEncryption::AmdSevSnp,
        "intel-tdx" => MemoryEncryption::IntelTdx,
        _ => MemoryEncryption::AmdSev,
    }
}

fn read_page_size(text: &str) -> Option<PageSize> {
    match text {
        "any" => Some(PageSize::Any),
        "large" => Some(PageSize::Large),
        "small" => Some(PageSize::Small),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok().map(PageSize::Kib),
        _ => size_in_kib(text).map(PageSize::Kib),
    }
}

/// Parses a size with a unit, such as `2MB` or `1GiB`, both in powers of two, or `Mbit`; in whole
/// KiB.
fn size_in_kib(text: &str) -> Option<u64> {
    let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let magnitude: f64 = number.parse().ok()?;
    let (prefix, is_bits) = if let Some(prefix) = unit.strip_suffix("bit") {
        (prefix, true)
    } else if let Some(prefix) = unit.strip_suffix('b') {
        (prefix, true)
    } else {
        (unit.strip_suffix('B')?, false)
    };
    let prefix = prefix.strip_suffix('i').unwrap_or(prefix);
    let exponent = match prefix {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    let bytes = magnitude * 1024_f64.powi(exponent) / if is_bits { 8.0 } else { 1.0 };
    let kib = (bytes.ceil() / 1024.0).trunc();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    (0.0..1e15).contains(&kib).then_some(kib as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_read_with_their_units() {
        let cases = [
            ("2048", Some(PageSize::Kib(2048))),
            ("2MB", Some(PageSize::Kib(2048))),
            ("1GiB", Some(PageSize::Kib(1 << 20))),
            ("0.5MB", Some(PageSize::Kib(512))),
            ("16Mbit", Some(PageSize::Kib(2048))),
            ("large", Some(PageSize::Large)),
            ("-2MB", None),
            ("2kB", None),
            ("huge", None),
            ("2 MB", None),
        ];
        for (text, size) in cases {
            assert_eq!(read_page_size(text), size, "{text:?}");
        }
    }
}
