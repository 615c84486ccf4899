//! The guest's NUMA cells: their number, and the processors and memory of each.

use crate::error::BadRequest;
use crate::flavor::extra_spec_field;
use crate::image::NUMA_NODES_MAX;
use crate::translate::cpu::{CpuPolicy, CpuThreadPolicy, EmulatorThreadsPolicy};
use crate::translate::guest_requirements::{GuestRequirements, flavor_field, image_field};
use crate::translate::memory::PageSize;
use placewright_types::cpu_set::{CpuSet, parse_cpu_set};
use placewright_types::text::whole_number;

/// The maximum number of cells: as many as numbered extra specs can describe.
const CELLS_MAX: u32 = NUMA_NODES_MAX as u32;

/// The NUMA topology of a guest and its layout on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestTopology {
    /// The cells, in rising order of number from 0.
    pub cells: Vec<GuestCell>,
    /// The page size of all cells; `None` leaves it to the host.
    pub page_size: Option<PageSize>,
    /// How guest processors are assigned to host processors.
    pub cpu_policy: Option<CpuPolicy>,
    /// How dedicated processors relate to hardware threads.
    pub cpu_thread_policy: Option<CpuThreadPolicy>,
    /// Where the emulator threads run.
    pub emulator_threads_policy: Option<EmulatorThreadsPolicy>,
}

/// One NUMA cell of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestCell {
    /// Processors that float over the host's shared ones.
    pub shared_cpus: CpuSet,
    /// Processors that are pinned to host processors of their own.
    pub dedicated_cpus: CpuSet,
    /// The memory of the cell in MiB.
    pub memory_mb: u64,
}

/// The NUMA cells that flavor and image describe; `None` for a guest without NUMA requirements.
///
/// A guest has cells when it names their number, a page size, persistent memory, or has dedicated
/// processors; one cell unless a number is given.
///
/// # Errors
///
/// [`BadRequest`] where flavor and image contradict themselves or each other.
pub fn guest_topology(
    requirements: &GuestRequirements<'_>,
) -> Result<Option<GuestTopology>, BadRequest> {
    let policies = Policies::of(requirements)?;
    let nodes = node_count(requirements)?;
    let page_size = requirements.page_size()?;
    requirements.locked_memory()?;
    let is_pinned = matches!(policies.cpu, Some(CpuPolicy::Dedicated | CpuPolicy::Mixed));
    let has_cells = nodes.is_some()
        || page_size.is_some()
        || !requirements.persistent_memory().is_empty()
        || is_pinned;
    if !has_cells {
        return Ok(None);
    }
    let dedicated = match policies.cpu {
        Some(CpuPolicy::Dedicated) => requirements.guest_cpus()?,
        Some(CpuPolicy::Mixed) => policies.dedicated_cpus,
        Some(CpuPolicy::Shared) | None => CpuSet::new(),
    };
    let cells = cells(requirements, nodes.unwrap_or(1), &dedicated)?;
    Ok(Some(GuestTopology {
        cells,
        page_size,
        cpu_policy: policies.cpu,
        cpu_thread_policy: policies.threads,
        emulator_threads_policy: policies.emulator,
    }))
}

/// The effective policies, after explicit resources and traits are taken into account.
struct Policies {
    cpu: Option<CpuPolicy>,
    threads: Option<CpuThreadPolicy>,
    emulator: Option<EmulatorThreadsPolicy>,
    dedicated_cpus: CpuSet,
}

impl Policies {
    fn of(requirements: &GuestRequirements<'_>) -> Result<Self, BadRequest> {
        let emulator = requirements.emulator_threads_policy()?;
        let realtime = requirements.realtime_cpus()?;
        let dedicated = requirements.dedicated_cpus()?;
        let cpu = policy_of_explicit(requirements, requirements.cpu_policy()?, emulator)?;
        let threads = threads_of_trait(requirements, requirements.cpu_thread_policy()?)?;
        check_masks(cpu, dedicated.is_some(), realtime.is_some())?;
        let is_shared = matches!(cpu, Some(CpuPolicy::Shared) | None);
        let needs_pinning = |field| {
            let policy = flavor_field("hw", "cpu_policy");
            let reason = "only dedicated processors can have it";
            Err(BadRequest::conflict(field, policy, reason))
        };
        if is_shared && threads.is_some() {
            return needs_pinning(match requirements.cpu_thread_policy()? {
                Some(_) => flavor_field("hw", "cpu_thread_policy"),
                None => "trait:HW_CPU_HYPERTHREADING".to_owned(),
            });
        }
        if is_shared && emulator == Some(EmulatorThreadsPolicy::Isolate) {
            return needs_pinning(flavor_field("hw", "emulator_threads_policy"));
        }
        Ok(Self {
            cpu,
            threads,
            emulator,
            dedicated_cpus: dedicated.or(realtime).unwrap_or_default(),
        })
    }
}

/// The CPU policy implied by explicit amounts of VCPU and PCPU.
fn policy_of_explicit(
    requirements: &GuestRequirements<'_>,
    policy: Option<CpuPolicy>,
    emulator: Option<EmulatorThreadsPolicy>,
) -> Result<Option<CpuPolicy>, BadRequest> {
    let vcpus = explicit_amount(requirements, "VCPU");
    let pcpus = explicit_amount(requirements, "PCPU");
    let named = if pcpus == 0 {
        "resources:VCPU"
    } else {
        "resources:PCPU"
    };
    if policy.is_some() && (vcpus != 0 || pcpus != 0) {
        return Err(BadRequest::conflict(
            extra_spec_field(named),
            "hw:cpu_policy or hw_cpu_policy",
            "use one or the other",
        ));
    }
    if vcpus != 0 && pcpus != 0 {
        return Err(BadRequest::conflict(
            extra_spec_field("resources:PCPU"),
            extra_spec_field("resources:VCPU"),
            "use hw:cpu_policy=mixed for a guest with both",
        ));
    }
    if pcpus != 0 {
        let isolated = emulator == Some(EmulatorThreadsPolicy::Isolate);
        let expected = i64::from(requirements.flavor.vcpus) + i64::from(isolated);
        if pcpus != expected {
            return Err(BadRequest::conflict(
                extra_spec_field("resources:PCPU"),
                "flavor.vcpus",
                format!("the flavor needs exactly {expected} PCPU"),
            ));
        }
        return Ok(Some(CpuPolicy::Dedicated));
    }
    Ok(if vcpus != 0 {
        Some(CpuPolicy::Shared)
    } else {
        policy
    })
}

/// The sum of a class over the unsuffixed and the numbered groups of the flavor.
fn explicit_amount(requirements: &GuestRequirements<'_>, class: &str) -> i64 {
    let specs = requirements.flavor.extra_specs.iter();
    let amounts = specs.filter(|(key, _)| is_numbered_key(key, "resources", class));
    amounts
        .filter_map(|(_, value)| whole_number(value))
        .fold(0, i64::saturating_add)
}

/// Whether a key is `<head>[N]:<name>…` with a number without leading zeros.
fn is_numbered_key(key: &str, head: &str, name: &str) -> bool {
    let Some((number, rest)) = key.strip_prefix(head).and_then(|rest| rest.split_once(':')) else {
        return false;
    };
    let is_number = number.is_empty()
        || (!number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit()));
    is_number && rest.starts_with(name)
}

/// The thread policy implied by the hyper-threading trait.
fn threads_of_trait(
    requirements: &GuestRequirements<'_>,
    policy: Option<CpuThreadPolicy>,
) -> Result<Option<CpuThreadPolicy>, BadRequest> {
    let name = "HW_CPU_HYPERTHREADING";
    let specs = requirements.flavor.extra_specs.iter();
    let of_flavor = specs
        .filter(|(key, _)| is_numbered_key(key, "trait", name))
        .map(|(_, value)| value.as_str())
        .next();
    let mut of_image = requirements
        .image
        .iter()
        .flat_map(|image| image.traits_required());
    let given = match of_flavor {
        Some(value) => Some(value),
        None => of_image
            .any(|required| required == name)
            .then_some("required"),
    };
    let Some(given) = given.filter(|value| !value.is_empty()) else {
        return Ok(policy);
    };
    if policy.is_some() {
        return Err(BadRequest::conflict(
            extra_spec_field("trait:HW_CPU_HYPERTHREADING"),
            "hw:cpu_thread_policy or hw_cpu_thread_policy",
            "use one or the other",
        ));
    }
    Ok(match given {
        "forbidden" => Some(CpuThreadPolicy::Isolate),
        "required" => Some(CpuThreadPolicy::Require),
        _ => policy,
    })
}

/// Refuses masks that the policy does not use, and a mixed policy without a mask.
fn check_masks(
    policy: Option<CpuPolicy>,
    has_dedicated: bool,
    has_realtime: bool,
) -> Result<(), BadRequest> {
    let mask = extra_spec_field("hw:cpu_dedicated_mask");
    let of_policy = extra_spec_field("hw:cpu_policy");
    match policy {
        Some(CpuPolicy::Shared) | None if has_realtime => Err(BadRequest::conflict(
            extra_spec_field("hw:cpu_realtime"),
            of_policy,
            "only dedicated processors can be realtime",
        )),
        Some(CpuPolicy::Shared | CpuPolicy::Dedicated) | None if has_dedicated => Err(
            BadRequest::conflict(mask, of_policy, "the mask needs the policy \"mixed\""),
        ),
        Some(CpuPolicy::Mixed) if has_dedicated == has_realtime => Err(BadRequest::invalid(
            mask,
            "a mixed guest needs it or a realtime mask, and not both",
        )),
        Some(CpuPolicy::Shared | CpuPolicy::Dedicated | CpuPolicy::Mixed) | None => Ok(()),
    }
}

/// The number of cells, if one is given.
fn node_count(requirements: &GuestRequirements<'_>) -> Result<Option<u32>, BadRequest> {
    let of_flavor = requirements.flavor.filled_extra_spec("hw:numa_nodes");
    let of_image = requirements.of_image("hw", "numa_nodes");
    let (given, field) = match (of_flavor, of_image) {
        (Some(_), Some(image)) if image != "0" => {
            return Err(image_forbidden("numa_nodes"));
        }
        (Some(given), _) => (given, flavor_field("hw", "numa_nodes")),
        (None, Some(given)) => (given, image_field("hw", "numa_nodes")),
        (None, None) => return Ok(None),
    };
    // "02" and " 2" are accepted as numbers elsewhere, but not here.
    let count = given
        .parse::<u32>()
        .ok()
        .filter(|count| (1..=CELLS_MAX).contains(count) && given == count.to_string());
    match count {
        Some(count) => Ok(Some(count)),
        None => Err(BadRequest::malformed(
            field,
            given,
            "a number from 1 to 128",
        )),
    }
}

fn image_forbidden(key: &str) -> BadRequest {
    BadRequest::conflict(
        image_field("hw", key),
        flavor_field("hw", key),
        "an image cannot change the cells that the flavor describes",
    )
}

fn cells(
    requirements: &GuestRequirements<'_>,
    count: u32,
    dedicated: &CpuSet,
) -> Result<Vec<GuestCell>, BadRequest> {
    let cpus = cell_cpus(requirements)?;
    let memory_mb = cell_memory(requirements)?;
    match (cpus, memory_mb) {
        (None, None) => equal_cells(requirements, count, dedicated),
        (Some(cpus), Some(memory_mb)) => {
            let expected = usize::try_from(count).unwrap_or(usize::MAX);
            if cpus.len() != expected || memory_mb.len() != expected {
                return Err(BadRequest::invalid(
                    flavor_field("hw", "numa_nodes"),
                    "processors and memory must be given for every cell",
                ));
            }
            described_cells(requirements, cpus, &memory_mb, dedicated)
        }
        (Some(_), None) => Err(BadRequest::missing(
            flavor_field("hw", "numa_mem.0"),
            "hw:numa_cpus.0 is there",
        )),
        (None, Some(_)) => Err(BadRequest::missing(
            flavor_field("hw", "numa_cpus.0"),
            "hw:numa_mem.0 is there",
        )),
    }
}

fn cell_cpus(requirements: &GuestRequirements<'_>) -> Result<Option<Vec<CpuSet>>, BadRequest> {
    let of_flavor = numbered(requirements, "hw:numa_cpus", |field, value| {
        parse_cpu_set(value)
            .ok_or_else(|| BadRequest::malformed(field, value, "a set of processors"))
    })?;
    let of_image = requirements.image.and_then(|image| image.numa_cpus());
    match (of_flavor, of_image) {
        (Some(_), Some(_)) => Err(image_forbidden("numa_cpus.0")),
        (Some(cpus), None) => Ok(Some(cpus)),
        (None, of_image) => Ok(of_image.map(<[CpuSet]>::to_vec)),
    }
}

fn cell_memory(requirements: &GuestRequirements<'_>) -> Result<Option<Vec<u64>>, BadRequest> {
    let of_flavor = numbered(requirements, "hw:numa_mem", |field, value| {
        let amount = whole_number(value).and_then(|amount| u64::try_from(amount).ok());
        amount.ok_or_else(|| BadRequest::malformed(field, value, "an amount of MiB"))
    })?;
    let of_image = requirements.image.and_then(|image| image.numa_memory_mb());
    match (of_flavor, of_image) {
        (Some(_), Some(_)) => Err(image_forbidden("numa_mem.0")),
        (Some(memory_mb), None) => Ok(Some(memory_mb)),
        (None, of_image) => Ok(of_image.map(<[u64]>::to_vec)),
    }
}

/// The values of `key.0`, `key.1` and so on, up to the first that is absent.
fn numbered<T>(
    requirements: &GuestRequirements<'_>,
    key: &str,
    read: impl Fn(String, &str) -> Result<T, BadRequest>,
) -> Result<Option<Vec<T>>, BadRequest> {
    let mut found = Vec::new();
    for cell in 0..NUMA_NODES_MAX {
        let key = format!("{key}.{cell}");
        let Some(value) = requirements.flavor.extra_spec(&key) else {
            break;
        };
        found.push(read(extra_spec_field(&key), value)?);
    }
    Ok((!found.is_empty()).then_some(found))
}

/// Divides processors and memory equally between cells.
fn equal_cells(
    requirements: &GuestRequirements<'_>,
    count: u32,
    dedicated: &CpuSet,
) -> Result<Vec<GuestCell>, BadRequest> {
    let flavor = requirements.flavor;
    for (field, amount) in [
        ("flavor.vcpus", flavor.vcpus),
        ("flavor.memory_mb", flavor.memory_mb),
    ] {
        if amount % count != 0 {
            return Err(BadRequest::invalid(
                field,
                format!("cannot be divided evenly among {count} NUMA cells"),
            ));
        }
    }
    let cpus_per_cell = flavor.vcpus / count;
    requirements.guest_cpus()?;
    let cells = (0..count).map(|cell| {
        let first = cell * cpus_per_cell;
        let cpus = (first..first + cpus_per_cell).collect();
        GuestCell::new(&cpus, dedicated, u64::from(flavor.memory_mb / count))
    });
    Ok(cells.collect())
}

/// The cells that flavor or image describe explicitly.
fn described_cells(
    requirements: &GuestRequirements<'_>,
    cpus_of_cell: Vec<CpuSet>,
    memory_mb: &[u64],
    dedicated: &CpuSet,
) -> Result<Vec<GuestCell>, BadRequest> {
    let flavor = requirements.flavor;
    let mut unassigned = requirements.guest_cpus()?;
    for (cell, cpus) in cpus_of_cell.iter().enumerate() {
        for cpu in cpus {
            if !unassigned.remove(cpu) {
                let reason = if *cpu < flavor.vcpus {
                    "is in another cell too"
                } else {
                    "is not in the flavor"
                };
                return Err(BadRequest::invalid(
                    flavor_field("hw", &format!("numa_cpus.{cell}")),
                    format!("processor {cpu} {reason}"),
                ));
            }
        }
    }
    if let Some(cpu) = unassigned.first() {
        return Err(BadRequest::invalid(
            flavor_field("hw", "numa_cpus"),
            format!("processor {cpu} is in no cell"),
        ));
    }
    let total = memory_mb.iter().copied().fold(0, u64::saturating_add);
    if total != u64::from(flavor.memory_mb) {
        return Err(BadRequest::invalid(
            flavor_field("hw", "numa_mem"),
            format!(
                "{total} MiB in all, but the flavor has {}",
                flavor.memory_mb
            ),
        ));
    }
    let cells = cpus_of_cell.iter().zip(memory_mb);
    Ok(cells
        .map(|(cpus, memory_mb)| GuestCell::new(cpus, dedicated, *memory_mb))
        .collect())
}

impl GuestCell {
    fn new(cpus: &CpuSet, dedicated: &CpuSet, memory_mb: u64) -> Self {
        Self {
            shared_cpus: cpus.difference(dedicated).copied().collect(),
            dedicated_cpus: cpus.intersection(dedicated).copied().collect(),
            memory_mb,
        }
    }
}
