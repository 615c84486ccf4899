//! CPU policies: how guest processors are assigned to host processors.

use crate::error::BadRequest;
use crate::image::known::{CPU_POLICIES, CPU_THREAD_POLICIES};
use crate::translate::guest_requirements::{
    GuestRequirements, SourcedValue, check_keyword, flavor_field, image_field,
};
use placewright_types::cpu_set::{CPU_LIMIT, CpuSet, parse_cpu_set};
use placewright_types::text::means_true;

/// How guest processors run on host processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuPolicy {
    /// All guest processors run on any of the host's shared processors.
    Shared,
    /// Each guest processor is pinned to a separate host processor.
    Dedicated,
    /// Some guest processors are dedicated, the others shared.
    Mixed,
}

/// How dedicated processors relate to hardware threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuThreadPolicy {
    /// The processors run on sibling threads if the host has any.
    Prefer,
    /// Each processor runs on a core that nothing else uses.
    Isolate,
    /// The processors run on sibling threads, which the host must have.
    Require,
}

/// Which host processors run the emulator threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EmulatorThreadsPolicy {
    /// The host's shared processors.
    Share,
    /// One more dedicated processor, which the guest does not see.
    Isolate,
}

const EMULATOR_THREADS_POLICIES: &[&str] = &["share", "isolate"];

impl<'a> GuestRequirements<'a> {
    /// The CPU policy of the flavor or, if it has none, of the image; `None` if neither has one.
    pub fn cpu_policy(&self) -> Result<Option<CpuPolicy>, BadRequest> {
        let (flavor_value, image_value) = self.checked_keywords("cpu_policy", CPU_POLICIES)?;
        let flavor_value = flavor_value.map(parse_policy);
        let image_value = image_value.map(parse_policy);
        let is_conflict = match flavor_value {
            Some(CpuPolicy::Mixed) => image_value == Some(CpuPolicy::Dedicated),
            Some(CpuPolicy::Shared) => {
                matches!(image_value, Some(CpuPolicy::Mixed | CpuPolicy::Dedicated))
            }
            Some(CpuPolicy::Dedicated) | None => false,
        };
        if is_conflict {
            return Err(BadRequest::conflict(
                image_field("hw", "cpu_policy"),
                flavor_field("hw", "cpu_policy"),
                "an image cannot ask for more dedicated processors than the flavor",
            ));
        }
        Ok(flavor_value.or(image_value))
    }

    /// The thread policy for dedicated processors, merged between flavor and image; `None` if neither has one.
    pub fn cpu_thread_policy(&self) -> Result<Option<CpuThreadPolicy>, BadRequest> {
        let (flavor_value, image_value) =
            self.checked_keywords("cpu_thread_policy", CPU_THREAD_POLICIES)?;
        let flavor_value = flavor_value.map(parse_thread_policy);
        let image_value = image_value.map(parse_thread_policy);
        match (flavor_value, image_value) {
            (Some(flavor), Some(image)) if flavor != CpuThreadPolicy::Prefer && flavor != image => {
                Err(BadRequest::conflict(
                    image_field("hw", "cpu_thread_policy"),
                    flavor_field("hw", "cpu_thread_policy"),
                    "an image cannot change what the flavor fixes",
                ))
            }
            // If the flavor's policy is "prefer", the image's policy is ignored: it is no conflict.
            (Some(CpuThreadPolicy::Prefer), _) => Ok(flavor_value),
            _ => Ok(flavor_value.or(image_value)),
        }
    }

    /// The policy for emulator threads, which only a flavor can set; `None` if it does not.
    pub fn emulator_threads_policy(&self) -> Result<Option<EmulatorThreadsPolicy>, BadRequest> {
        let Some(value) = self.flavor.filled_extra_spec("hw:emulator_threads_policy") else {
            return Ok(None);
        };
        let field = flavor_field("hw", "emulator_threads_policy");
        check_keyword(&SourcedValue { value, field }, EMULATOR_THREADS_POLICIES)?;
        Ok(Some(match value {
            "isolate" => EmulatorThreadsPolicy::Isolate,
            _ => EmulatorThreadsPolicy::Share,
        }))
    }

    /// The processors that the mask of the mixed policy dedicates; `None` without a mask.
    pub fn dedicated_cpus(&self) -> Result<Option<CpuSet>, BadRequest> {
        let key = "hw:cpu_dedicated_mask";
        let Some(mask) = self.flavor.filled_extra_spec(key) else {
            return Ok(None);
        };
        let field = || flavor_field("hw", "cpu_dedicated_mask");
        let dedicated = self.parse_mask(mask, field)?;
        let guest_cpus = self.guest_cpus()?;
        if dedicated.is_empty() || dedicated.is_superset(&guest_cpus) {
            return Err(BadRequest::invalid(
                field(),
                "a mixed guest has dedicated and shared processors, at least one of each",
            ));
        }
        if !dedicated.is_subset(&guest_cpus) {
            return Err(BadRequest::invalid(
                field(),
                "the flavor has fewer processors",
            ));
        }
        Ok(Some(dedicated))
    }

    /// The real-time processors of a guest; `None` if it has none.
    pub fn realtime_cpus(&self) -> Result<Option<CpuSet>, BadRequest> {
        let flag = self.flavor.extra_spec("hw:cpu_realtime");
        if !flag.is_some_and(means_true) {
            return Ok(None);
        }
        let key = "cpu_realtime_mask";
        let guest_cpus = self.guest_cpus()?;
        // The image's mask takes precedence, because it is made for the image's workload.
        let image_value = self.image_value("hw", key).filter(|mask| !mask.is_empty());
        let flavor_value = self.flavor_value("hw", key).filter(|mask| !mask.is_empty());
        let (realtime, field) = match (image_value, flavor_value) {
            (Some(mask), _) => {
                let field = image_field("hw", key);
                (self.parse_mask(mask, || field.clone())?, field)
            }
            (None, Some(mask)) => {
                let field = flavor_field("hw", key);
                (self.parse_mask(mask, || field.clone())?, field)
            }
            (None, None) => (guest_cpus.clone(), flavor_field("hw", key)),
        };
        if realtime.is_empty()
            || (realtime == guest_cpus && self.emulator_threads_policy()?.is_none())
        {
            return Err(BadRequest::invalid(
                field,
                "realtime processors need at least one that is not, or an emulator threads policy",
            ));
        }
        if !realtime.is_subset(&guest_cpus) {
            return Err(BadRequest::invalid(
                field,
                "the flavor has fewer processors",
            ));
        }
        Ok(Some(realtime))
    }

    /// The numbers of all guest processors.
    pub(crate) fn guest_cpus(&self) -> Result<CpuSet, BadRequest> {
        if self.flavor.vcpus > CPU_LIMIT {
            return Err(BadRequest::invalid(
                "flavor.vcpus",
                format!("a guest whose processors are told apart has at most {CPU_LIMIT}"),
            ));
        }
        Ok((0..self.flavor.vcpus).collect())
    }

    /// Parses a mask. A mask that begins with `^` lists the processors to exclude from all.
    fn parse_mask(&self, mask: &str, field: impl Fn() -> String) -> Result<CpuSet, BadRequest> {
        let cpus = if mask.trim().starts_with('^') {
            let last = i64::from(self.flavor.vcpus) - 1;
            parse_cpu_set(&format!("0-{last},{mask}"))
        } else {
            parse_cpu_set(mask)
        };
        cpus.ok_or_else(|| BadRequest::malformed(field(), mask, "a set of processors"))
    }

    /// The values of flavor and image. The flavor's is checked against the allowed words; the
    /// image's was checked when the image was parsed.
    fn checked_keywords(
        &self,
        key: &str,
        allowed: &'static [&'static str],
    ) -> Result<(Option<&'a str>, Option<&'a str>), BadRequest> {
        let flavor_value = self.flavor_value("hw", key).filter(|text| !text.is_empty());
        if let Some(value) = flavor_value {
            let field = flavor_field("hw", key);
            check_keyword(&SourcedValue { value, field }, allowed)?;
        }
        Ok((flavor_value, self.image_value("hw", key)))
    }
}

fn parse_policy(word: &str) -> CpuPolicy {
    match word {
        "dedicated" => CpuPolicy::Dedicated,
        "mixed" => CpuPolicy::Mixed,
        _ => CpuPolicy::Shared,
    }
}

fn parse_thread_policy(word: &str) -> CpuThreadPolicy {
    match word {
        "isolate" => CpuThreadPolicy::Isolate,
        "require" => CpuThreadPolicy::Require,
        _ => CpuThreadPolicy::Prefer,
    }
}
