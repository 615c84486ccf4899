//! The guest's NUMA cells: their number, and the processors and memory of each.

use crate::error::BadRequest;
use crate::flavor::extra_spec_field;
use crate::image::NUMA_NODES_MAX;
use crate::translate::cpu::{CpuPolicy, CpuThreadPolicy, EmulatorThreadsPolicy};
use crate::translate::guest_requirements::{GuestRequirements, flavor_field, image_field};
use crate::translate::memory::PageSize;
use placewright_types::cpu_set::{CpuSet, parse_cpu_set};
use placewright_types::text::whole_number;

/// The maximum number of cells, which is the number that extra specs can describe.
const CELLS_MAX: u32 = NUMA_NODES_MAX as u32;

/// The NUMA topology of a guest and its layout on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestTopology {
    /// The cells, by number.
    pub cells: Vec<GuestCell>,
    /// The page size of all cells; `None` leaves it to the host.
    pub page_size: Option<PageSize>,
    /// How guest processors run on host processors.
    pub cpu_policy: Option<CpuPolicy>,
    /// How dedicated processors relate to hardware threads.
    pub cpu_thread_policy: Option<CpuThreadPolicy>,
    /// Which host processors run the emulator threads.
    pub emulator_threads_policy: Option<EmulatorThreadsPolicy>,
}

/// One NUMA cell of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestCell {
    /// Processors that run on any of the host's shared processors.
    pub shared_cpus: CpuSet,
    /// Processors that are each pinned to a separate host processor.
    pub dedicated_cpus: CpuSet,
    /// The memory of the cell in MiB.
    pub memory_mb: u64,
}

/// The NUMA topology that flavor and image describe; `None` for a guest without NUMA requirements.
///
/// A guest has NUMA cells if flavor or image specify their number, a page size or persistent
/// memory, or if it has dedicated processors. The default number is 1.
///
/// # Errors
///
/// [`BadRequest`] if flavor and image contradict themselves or each other.
pub fn guest_topology(
    requirements: &GuestRequirements<'_>,
) -> Result<Option<GuestTopology>, BadRequest> {
    let policies = Policies::new(requirements)?;
    let cell_count = cell_count(requirements)?;
    let page_size = requirements.page_size()?;
    // Called only because it refuses contradictions: locking does not affect the topology.
    requirements.locked_memory()?;
    let has_dedicated = matches!(policies.cpu, Some(CpuPolicy::Dedicated | CpuPolicy::Mixed));
    let has_cells = cell_count.is_some()
        || page_size.is_some()
        || !requirements.persistent_memory().is_empty()
        || has_dedicated;
    if !has_cells {
        return Ok(None);
    }
    let dedicated = match policies.cpu {
        Some(CpuPolicy::Dedicated) => requirements.guest_cpus()?,
        Some(CpuPolicy::Mixed) => policies.dedicated_cpus,
        Some(CpuPolicy::Shared) | None => CpuSet::new(),
    };
    let cells = cells(requirements, cell_count.unwrap_or(1), &dedicated)?;
    Ok(Some(GuestTopology {
        cells,
        page_size,
        cpu_policy: policies.cpu,
        cpu_thread_policy: policies.threads,
        emulator_threads_policy: policies.emulator,
    }))
}

/// The effective CPU policies, which take account of explicit resources and traits.
struct Policies {
    cpu: Option<CpuPolicy>,
    threads: Option<CpuThreadPolicy>,
    emulator: Option<EmulatorThreadsPolicy>,
    /// The dedicated processors of a guest with the mixed policy.
    dedicated_cpus: CpuSet,
}

impl Policies {
    fn new(requirements: &GuestRequirements<'_>) -> Result<Self, BadRequest> {
        let emulator = requirements.emulator_threads_policy()?;
        let realtime = requirements.realtime_cpus()?;
        let dedicated = requirements.dedicated_cpus()?;
        let cpu = policy_of_explicit_resources(requirements, requirements.cpu_policy()?, emulator)?;
        let threads = thread_policy_of_trait(requirements, requirements.cpu_thread_policy()?)?;
        check_masks(cpu, dedicated.is_some(), realtime.is_some())?;
        let is_shared = matches!(cpu, Some(CpuPolicy::Shared) | None);
        let refuse_without_dedicated_cpus = |field| {
            let policy = flavor_field("hw", "cpu_policy");
            let reason = "only dedicated processors can have it";
            Err(BadRequest::conflict(field, policy, reason))
        };
        if is_shared && threads.is_some() {
            return refuse_without_dedicated_cpus(match requirements.cpu_thread_policy()? {
                Some(_) => flavor_field("hw", "cpu_thread_policy"),
                None => "trait:HW_CPU_HYPERTHREADING".to_owned(),
            });
        }
        if is_shared && emulator == Some(EmulatorThreadsPolicy::Isolate) {
            return refuse_without_dedicated_cpus(flavor_field("hw", "emulator_threads_policy"));
        }
        Ok(Self {
            cpu,
            threads,
            emulator,
            dedicated_cpus: dedicated.or(realtime).unwrap_or_default(),
        })
    }
}

/// The CPU policy: the one that explicit amounts of VCPU or PCPU in the flavor imply, or else `policy`.
fn policy_of_explicit_resources(
    requirements: &GuestRequirements<'_>,
    policy: Option<CpuPolicy>,
    emulator: Option<EmulatorThreadsPolicy>,
) -> Result<Option<CpuPolicy>, BadRequest> {
    let vcpus = explicit_amount(requirements, "VCPU");
    let pcpus = explicit_amount(requirements, "PCPU");
    let key = if pcpus == 0 {
        "resources:VCPU"
    } else {
        "resources:PCPU"
    };
    if policy.is_some() && (vcpus != 0 || pcpus != 0) {
        return Err(BadRequest::conflict(
            extra_spec_field(key),
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
        let isolates_emulator = emulator == Some(EmulatorThreadsPolicy::Isolate);
        let expected = i64::from(requirements.flavor.vcpus) + i64::from(isolates_emulator);
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

/// The sum of the amounts of a class in the unsuffixed and the numbered groups of the flavor.
fn explicit_amount(requirements: &GuestRequirements<'_>, class: &str) -> i64 {
    let specs = requirements.flavor.extra_specs.iter();
    let amounts = specs.filter(|(key, _)| is_numbered_key(key, "resources", class));
    amounts
        .filter_map(|(_, value)| whole_number(value))
        .fold(0, i64::saturating_add)
}

/// Whether a key begins with `<prefix>:<name>` or, with a number N without leading zeros,
/// `<prefix>N:<name>`. As in the reference, any text may follow the name.
fn is_numbered_key(key: &str, prefix: &str, name: &str) -> bool {
    let numbered = key.strip_prefix(prefix);
    let Some((number, suffix)) = numbered.and_then(|key| key.split_once(':')) else {
        return false;
    };
    let is_number = number.is_empty()
        || (!number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit()));
    is_number && suffix.starts_with(name)
}

/// The thread policy: the one that the hyper-threading trait implies, or else `policy`.
fn thread_policy_of_trait(
    requirements: &GuestRequirements<'_>,
    policy: Option<CpuThreadPolicy>,
) -> Result<Option<CpuThreadPolicy>, BadRequest> {
    let name = "HW_CPU_HYPERTHREADING";
    let specs = requirements.flavor.extra_specs.iter();
    let flavor_value = specs
        .filter(|(key, _)| is_numbered_key(key, "trait", name))
        .map(|(_, value)| value.as_str())
        .next();
    let mut image_traits = requirements
        .image
        .iter()
        .flat_map(|image| image.traits_required());
    let trait_value = match flavor_value {
        Some(value) => Some(value),
        None => image_traits
            .any(|required| required == name)
            .then_some("required"),
    };
    let Some(trait_value) = trait_value.filter(|value| !value.is_empty()) else {
        return Ok(policy);
    };
    if policy.is_some() {
        return Err(BadRequest::conflict(
            extra_spec_field("trait:HW_CPU_HYPERTHREADING"),
            "hw:cpu_thread_policy or hw_cpu_thread_policy",
            "use one or the other",
        ));
    }
    Ok(match trait_value {
        "forbidden" => Some(CpuThreadPolicy::Isolate),
        "required" => Some(CpuThreadPolicy::Require),
        _ => policy,
    })
}

/// Refuses masks that do not go with the policy, and a mixed policy without exactly one mask.
fn check_masks(
    policy: Option<CpuPolicy>,
    has_dedicated_mask: bool,
    has_realtime_cpus: bool,
) -> Result<(), BadRequest> {
    let mask = extra_spec_field("hw:cpu_dedicated_mask");
    let policy_field = extra_spec_field("hw:cpu_policy");
    match policy {
        Some(CpuPolicy::Shared) | None if has_realtime_cpus => Err(BadRequest::conflict(
            extra_spec_field("hw:cpu_realtime"),
            policy_field,
            "only dedicated processors can be realtime",
        )),
        Some(CpuPolicy::Shared | CpuPolicy::Dedicated) | None if has_dedicated_mask => Err(
            BadRequest::conflict(mask, policy_field, "the mask needs the policy \"mixed\""),
        ),
        Some(CpuPolicy::Mixed) if has_dedicated_mask == has_realtime_cpus => {
            Err(BadRequest::invalid(
                mask,
                "a mixed guest needs it or a realtime mask, and not both",
            ))
        }
        Some(CpuPolicy::Shared | CpuPolicy::Dedicated | CpuPolicy::Mixed) | None => Ok(()),
    }
}

/// The number of cells, if flavor or image specify it.
fn cell_count(requirements: &GuestRequirements<'_>) -> Result<Option<u32>, BadRequest> {
    let flavor_value = requirements.flavor.filled_extra_spec("hw:numa_nodes");
    let image_value = requirements.image_value("hw", "numa_nodes");
    let (text, field) = match (flavor_value, image_value) {
        (Some(_), Some(image)) if image != "0" => {
            return Err(image_conflict("numa_nodes"));
        }
        (Some(text), _) => (text, flavor_field("hw", "numa_nodes")),
        (None, Some(text)) => (text, image_field("hw", "numa_nodes")),
        (None, None) => return Ok(None),
    };
    // Unlike other numbers in extra specs, the number of cells may have no leading zero or space.
    let count = text
        .parse::<u32>()
        .ok()
        .filter(|count| (1..=CELLS_MAX).contains(count) && text == count.to_string());
    match count {
        Some(count) => Ok(Some(count)),
        None => Err(BadRequest::malformed(field, text, "a number from 1 to 128")),
    }
}

/// The refusal of an image property that contradicts the flavor's cells.
fn image_conflict(key: &str) -> BadRequest {
    BadRequest::conflict(
        image_field("hw", key),
        flavor_field("hw", key),
        "an image cannot change the cells that the flavor describes",
    )
}

/// The cells, either equal ones or those that flavor or image describe.
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

/// The processors of each cell, if flavor or image describe them.
fn cell_cpus(requirements: &GuestRequirements<'_>) -> Result<Option<Vec<CpuSet>>, BadRequest> {
    let flavor_value = parse_numbered(requirements, "hw:numa_cpus", |field, value| {
        parse_cpu_set(value)
            .ok_or_else(|| BadRequest::malformed(field, value, "a set of processors"))
    })?;
    let image_value = requirements.image.and_then(|image| image.numa_cpus());
    match (flavor_value, image_value) {
        (Some(_), Some(_)) => Err(image_conflict("numa_cpus.0")),
        (Some(cpus), None) => Ok(Some(cpus)),
        (None, image_value) => Ok(image_value.map(<[CpuSet]>::to_vec)),
    }
}

/// The memory of each cell in MiB, if flavor or image describe it.
fn cell_memory(requirements: &GuestRequirements<'_>) -> Result<Option<Vec<u64>>, BadRequest> {
    let flavor_value = parse_numbered(requirements, "hw:numa_mem", |field, value| {
        let amount = whole_number(value).and_then(|amount| u64::try_from(amount).ok());
        amount.ok_or_else(|| BadRequest::malformed(field, value, "an amount of MiB"))
    })?;
    let image_value = requirements.image.and_then(|image| image.numa_memory_mb());
    match (flavor_value, image_value) {
        (Some(_), Some(_)) => Err(image_conflict("numa_mem.0")),
        (Some(memory_mb), None) => Ok(Some(memory_mb)),
        (None, image_value) => Ok(image_value.map(<[u64]>::to_vec)),
    }
}

/// The parsed values of the extra specs `key.0`, `key.1` and so on, up to the first that is absent;
/// `None` if there is no `key.0`.
fn parse_numbered<T>(
    requirements: &GuestRequirements<'_>,
    key: &str,
    parse: impl Fn(String, &str) -> Result<T, BadRequest>,
) -> Result<Option<Vec<T>>, BadRequest> {
    let mut values = Vec::new();
    for cell in 0..NUMA_NODES_MAX {
        let key = format!("{key}.{cell}");
        let Some(value) = requirements.flavor.extra_spec(&key) else {
            break;
        };
        values.push(parse(extra_spec_field(&key), value)?);
    }
    Ok((!values.is_empty()).then_some(values))
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
    // Called only because it refuses too many processors.
    requirements.guest_cpus()?;
    let cells = (0..count).map(|cell| {
        let first_cpu = cell * cpus_per_cell;
        let cpus = (first_cpu..first_cpu + cpus_per_cell).collect();
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
