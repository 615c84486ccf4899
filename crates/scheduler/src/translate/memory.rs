//! The page size, locking, persistence and encryption of guest memory.

use crate::error::BadRequest;
use crate::image::known::MEMORY_ENCRYPTION_MODELS;
use crate::translate::guest_requirements::{
    GuestRequirements, SourcedValue, check_keyword, flavor_field, image_field,
};
use placewright_types::text::means_true;

/// The size of the pages of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// The smallest size that the host has.
    Small,
    /// Any size of the host but the smallest.
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
    /// The trait of hosts that support this encryption.
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
    /// The page size; `None` if neither flavor nor image set it. An image can only set it if the flavor's is `any` or
    /// `large`.
    pub fn page_size(&self) -> Result<Option<PageSize>, BadRequest> {
        let key = "mem_page_size";
        let image_value = self.image_value("hw", key).filter(|text| !text.is_empty());
        let Some(flavor_value) = self.flavor_value("hw", key).filter(|text| !text.is_empty())
        else {
            return match image_value {
                Some(_) => Err(BadRequest::conflict(
                    image_field("hw", key),
                    flavor_field("hw", key),
                    "the flavor does not let the image choose",
                )),
                None => Ok(None),
            };
        };
        let parse = |text, field: String| {
            parse_page_size(text).ok_or_else(|| {
                BadRequest::malformed(field, text, "\"small\", \"large\", \"any\" or a size")
            })
        };
        let size = parse(flavor_value, flavor_field("hw", key))?;
        match (image_value, size) {
            (None, size) => Ok(Some(size)),
            (Some(text), PageSize::Any | PageSize::Large) => {
                Ok(Some(parse(text, image_field("hw", key))?))
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
        let flavor_value = self.flavor_value("hw", "locked_memory").map(means_true);
        let image_value = self.image_value("hw", "locked_memory").map(means_true);
        if let (Some(flavor), Some(image)) = (flavor_value, image_value)
            && flavor != image
        {
            return Err(BadRequest::conflict(
                image_field("hw", "locked_memory"),
                flavor_field("hw", "locked_memory"),
                "they say different things",
            ));
        }
        let is_locked = flavor_value.or(image_value).unwrap_or(false);
        let key = "mem_page_size";
        let sizes = [self.flavor_value("hw", key), self.image_value("hw", key)];
        let has_size = sizes.iter().flatten().any(|text| !text.is_empty());
        if is_locked && !has_size {
            return Err(BadRequest::missing(
                flavor_field("hw", key),
                "hw:locked_memory needs it",
            ));
        }
        if !is_locked {
            // Called only because it refuses invalid memory encryption.
            self.memory_encryption()?;
        }
        Ok(is_locked)
    }

    /// The labels of the requested persistent memory namespaces; a label occurs once for each
    /// namespace.
    #[must_use]
    pub fn persistent_memory(&self) -> Vec<&str> {
        let labels = self.flavor.extra_spec("hw:pmem").unwrap_or_default();
        let labels = labels.split(',').map(str::trim);
        labels.filter(|label| !label.is_empty()).collect()
    }

    /// The encryption of guest memory; `None` if it is not requested.
    pub fn memory_encryption(&self) -> Result<Option<MemoryEncryption>, BadRequest> {
        if !self.merged_flag("mem_encryption")? {
            return Ok(None);
        }
        let key = "mem_encryption_model";
        let flavor_value = self.flavor_value("hw", key);
        let image_value = self.image_value("hw", key);
        if let (Some(flavor), Some(image)) = (flavor_value, image_value)
            && flavor != image
        {
            return Err(BadRequest::conflict(
                image_field("hw", key),
                flavor_field("hw", key),
                format!("the image says {image:?}, the flavor {flavor:?}"),
            ));
        }
        let model_name = image_value.or(flavor_value).filter(|text| !text.is_empty());
        let model = match model_name {
            None => MemoryEncryption::AmdSev,
            Some(value) => {
                let field = flavor_field("hw", key);
                check_keyword(&SourcedValue { value, field }, MEMORY_ENCRYPTION_MODELS)?;
                parse_model(value)
            }
        };
        self.check_encrypted_machine(model)?;
        Ok(Some(model))
    }

    /// Refuses encryption for an image whose machine does not support it.
    fn check_encrypted_machine(&self, model: MemoryEncryption) -> Result<(), BadRequest> {
        let image_value = |name| self.image.and_then(|image| image.get(name));
        let refuse = |key, requirement| {
            Err(BadRequest::conflict(
                image_field("hw", key),
                "hw:mem_encryption or hw_mem_encryption",
                format!("encrypted memory needs {requirement}"),
            ))
        };
        if image_value("hw_firmware_type") != Some("uefi") {
            return refuse("firmware_type", "\"uefi\"");
        }
        if image_value("hw_machine_type").is_some_and(|machine| !machine.contains("q35")) {
            return refuse("machine_type", "a q35 machine");
        }
        if model.needs_stateless_firmware() && !self.stateless_firmware() {
            return refuse("firmware_stateless", "stateless firmware with this model");
        }
        let has_video = image_value("hw_video_model") != Some("none");
        if model == MemoryEncryption::IntelTdx && has_video {
            return refuse("video_model", "\"none\" with this model");
        }
        Ok(())
    }
}

fn parse_model(word: &str) -> MemoryEncryption {
    match word {
        "amd-sev-es" => MemoryEncryption::AmdSevEs,
        "amd-sev-snp" => MemoryEncryption::AmdSevSnp,
        "intel-tdx" => MemoryEncryption::IntelTdx,
        _ => MemoryEncryption::AmdSev,
    }
}

/// Parses a page size: one of three words, a number of KiB, or a size with a unit; `None` if it is none of these.
fn parse_page_size(text: &str) -> Option<PageSize> {
    match text {
        "any" => Some(PageSize::Any),
        "large" => Some(PageSize::Large),
        "small" => Some(PageSize::Small),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok().map(PageSize::Kib),
        _ => parse_size_kib(text).map(PageSize::Kib),
    }
}

/// Parses a size with a unit, such as `2MB`, `1GiB` or `16Mbit`, into whole KiB; `None` if the text does not parse. All
/// units are powers of two.
fn parse_size_kib(text: &str) -> Option<u64> {
    let unit_start = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_start);
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
            assert_eq!(parse_page_size(text), size, "{text:?}");
        }
    }
}
