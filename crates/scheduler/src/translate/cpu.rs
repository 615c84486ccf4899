//! CPU policies: how guest processors are assigned to host processors.

use crate::error::BadRequest;
use crate::image::known::{CPU_POLICIES, CPU_THREAD_POLICIES};
use crate::translate::guest_requirements::{
    GuestRequirements, SourcedValue, check_keyword, flavor_field, image_field,
};
use placewright_types::cpu_set::{CPU_LIMIT, CpuSet, parse_cpu_set};
use placewright_types::text::means_true;

/// Whether guest processors are pinned to host processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuPolicy {
    /// All float over the host's shared processors.
    Shared,
    /// Each is pinned to a host processor of its own.
    Dedicated,
    /// Some are pinned, the others float.
    Mixed,
}

/// How dedicated processors relate to hardware threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuThreadPolicy {
    /// On sibling threads if the host has any.
    Prefer,
    /// Each on a core that nothing else uses.
    Isolate,
    /// On sibling threads; the host must have them.
    Require,
}

/// Where the emulator threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EmulatorThreadsPolicy {
    /// On the host's shared processors.
    Share,
    /// On a processor of their own.
    Isolate,
}

const EMULATOR_THREADS_POLICIES: &[&str] = &["share", "isolate"];

impl<'a> GuestRequirements<'a> {
    /// The processor policy: the flavor's, or the image's where the flavor leaves it open.
    pub fn cpu_policy(&self) -> Result<Option<CpuPolicy>, BadRequest> {
        let (of_flavor, of_image) = self.words("cpu_policy", CPU_POLICIES)?;
        let of_flavor = of_flavor.map(read_policy);
        let of_image = of_image.map(read_policy);
        let refused = match of_flavor {
            Some(CpuPolicy::Mixed) => of_image == Some(CpuPolicy::Dedicated),
            Some(CpuPolicy::Shared) => {
                matches!(of_image, Some(CpuPolicy::Mixed | CpuPolicy::Dedicated))
            }
            Some(CpuPolicy::Dedicated) | None => false,
        };
        if refused {
            return Err(BadRequest::conflict(
                image_field("hw", "cpu_policy"),
                flavor_field("hw", "cpu_policy"),
                "an image cannot ask for more dedicated processors than the flavor",
            ));
        }
        Ok(of_flavor.or(of_image))
    }

    /// The thread policy for dedicated processors, merged between flavor and image.
    pub fn cpu_thread_policy(&self) -> Result<Option<CpuThreadPolicy>, BadRequest> {
        let (of_flavor, of_image) = self.words("cpu_thread_policy", CPU_THREAD_POLICIES)?;
        let of_flavor = of_flavor.map(read_thread_policy);
        let of_image = of_image.map(read_thread_policy);
        match (of_flavor, of_image) {
            (Some(flavor), Some(image)) if flavor != CpuThreadPolicy::Prefer && flavor != image => {
                Err(BadRequest::conflict(
                    image_field("hw", "cpu_thread_policy"),
                    flavor_field("hw", "cpu_thread_policy"),
                    "an image cannot change what the flavor fixes",
                ))
            }
            // A flavor's "prefer" stays in force, but an image may name any policy beside it
            // without a conflict.
            (Some(CpuThreadPolicy::Prefer), _) => Ok(of_flavor),
            _ => Ok(of_flavor.or(of_image)),
        }
    }

    /// The emulator threads' policy; only a flavor has one.
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

    /// The dedicated processors of a guest with the mixed policy.
    pub fn dedicated_cpus(&self) -> Result<Option<CpuSet>, BadRequest> {
        let key = "hw:cpu_dedicated_mask";
        let Some(mask) = self.flavor.filled_extra_spec(key) else {
            return Ok(None);
        };
        let field = || flavor_field("hw", "cpu_dedicated_mask");
        let dedicated = self.read_mask(mask, field)?;
        let all = self.guest_cpus()?;
        if dedicated.is_empty() || dedicated.is_superset(&all) {
            return Err(BadRequest::invalid(
                field(),
                "a mixed guest has dedicated and shared processors, at least one of each",
            ));
        }
        if !dedicated.is_subset(&all) {
            return Err(BadRequest::invalid(
                field(),
                "the flavor has fewer processors",
            ));
        }
        Ok(Some(dedicated))
    }

    /// The real-time processors of a guest.
    pub fn realtime_cpus(&self) -> Result<Option<CpuSet>, BadRequest> {
        let wanted = self.flavor.extra_spec("hw:cpu_realtime");
        if !wanted.is_some_and(means_true) {
            return Ok(None);
        }
        let key = "cpu_realtime_mask";
        let all = self.guest_cpus()?;
        // The image's mask takes precedence: it knows its own workload better than the flavor.
        let of_image = self.of_image("hw", key).filter(|mask| !mask.is_empty());
        let of_flavor = self.of_flavor("hw", key).filter(|mask| !mask.is_empty());
        let (realtime, field) = match (of_image, of_flavor) {
            (Some(mask), _) => {
                let field = image_field("hw", key);
                (self.read_mask(mask, || field.clone())?, field)
            }
            (None, Some(mask)) => {
                let field = flavor_field("hw", key);
                (self.read_mask(mask, || field.clone())?, field)
            }
            (None, None) => (all.clone(), flavor_field("hw", key)),
        };
        if realtime.is_empty() || (realtime == all && self.emulator_threads_policy()?.is_none()) {
            return Err(BadRequest::invalid(
                field,
                "realtime processors need at least one that is not, or an emulator threads policy",
            ));
        }
        if !realtime.is_subset(&all) {
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

    /// Parses a mask; one that begins with `^` excludes from the set of all processors.
    fn read_mask(&self, mask: &str, field: impl Fn() -> String) -> Result<CpuSet, BadRequest> {
        let read = if mask.trim().starts_with('^') {
            let last = i64::from(self.flavor.vcpus) - 1;
            parse_cpu_set(&format!("0-{last},{mask}"))
        } else {
            parse_cpu_set(mask)
        };
        read.ok_or_else(|| BadRequest::malformed(field(), mask, "a set of processors"))
    }

    /// The values of flavor and image, each checked against a set of words.
    fn words(
        &self,
        key: &str,
        allowed: &'static [&'static str],
    ) -> Result<(Option<&'a str>, Option<&'a str>), BadRequest> {
        let of_flavor = self.of_flavor("hw", key).filter(|text| !text.is_empty());
        if let Some(value) = of_flavor {
            let field = flavor_field("hw", key);
            check_keyword(&SourcedValue { value, field }, allowed)?;
        }
        Ok((of_flavor, self.of_image("hw", key)))
    }
}

fn read_policy(word: &str) -> CpuPolicy {
    match word {
        "dedicated" => CpuPolicy::Dedicated,
        "mixed" => CpuPolicy::Mixed,
        _ => CpuPolicy::Shared,
    }
}

fn read_thread_policy(word: &str) -> CpuThreadPolicy {
    match word {
        "isolate" => CpuThreadPolicy::Isolate,
        "require" => CpuThreadPolicy::Require,
        _ => CpuThreadPolicy::Prefer,
    }
}
