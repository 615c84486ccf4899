//! Measures which share of the devices gets allocated when tasks arrive one by one, under three
//! placement heuristics: random, best fit, and least fragmentation.
//!
//! `cargo run --release -p placewright-scheduler --example packing NODES.csv TASKS.csv [ORDERS]`
//!
//! The files are those of the Alibaba trace cluster-trace-gpu-v2023 (repository alibaba/clusterdata):
//! `sn,cpu_milli,memory_mib,gpu,model` and `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,…`. All
//! tasks arrive in random order. Random tasks arrive again, until 130 % of the GPUs were requested. A task that fits on
//! no host is refused; no task ends. All heuristics consider every host. The fragmentation heuristic uses the same loss
//! cache as the scheduler, and its demand histogram only has the tasks that arrived. ORDERS is the number of random
//! orders; the default is 10.
//!
//! Each decision is measured in wall-clock time and in CPU time, which other programs do not affect. The exit code is 1
//! if the fragmentation heuristic misses its targets: 95 % of the devices as the mean over the orders, and less than 1
//! ms of CPU time for every decision.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use placewright_scheduler::hosts::fragmentation::{
    Demand, DemandHistogram, FreeCapacity, LossCache, WHOLE_DEVICE,
};
use placewright_trace::{TraceError, nodes, tasks};

/// The total demand as a share of the total capacity.
const REQUESTED_SHARE: f64 = 1.3;
/// The forecast is renewed after this many arrivals, and at each power of two, which matters at the start.
const FORECAST_INTERVAL: usize = 100;
/// The target for the allocated share of devices, in percent.
const SHARE_TARGET: f64 = 95.0;
/// The target for the CPU time of a decision, in µs.
const DECISION_TARGET_US: f64 = 1_000.0;

/// A machine of the trace, with what is free of it.
#[derive(Clone)]
struct Node {
    /// The free CPUs in thousandths, as the trace has them.
    cpu: u64,
    /// The free memory in MiB.
    memory: u64,
    /// By device: its free shares.
    devices: Vec<u32>,
    /// The model of the node's devices, as one bit.
    model: u32,
}

impl Node {
    fn free_capacity(&self) -> FreeCapacity<'_> {
        FreeCapacity {
            cpu: self.cpu,
            memory: self.memory,
            devices: &self.devices,
        }
    }
}

#[derive(Clone, Copy)]
struct Task {
    demand: Demand,
    /// A bit set of the acceptable models.
    models: u32,
}

/// The models of devices, numbered in order of appearance.
#[derive(Default)]
struct Models {
    numbers: BTreeMap<String, u32>,
}

impl Models {
    /// The bit of a model, which is numbered if it is new.
    fn bit(&mut self, name: &str) -> u32 {
        let next = u32::try_from(self.numbers.len()).expect("few models");
        1 << *self.numbers.entry(name.to_owned()).or_insert(next)
    }
}

fn read_nodes(path: &Path, models: &mut Models) -> Result<Vec<Node>, TraceError> {
    let node = |node: nodes::Node| Node {
        cpu: node.cpu_milli.into(),
        memory: node.memory_mib.into(),
        devices: vec![WHOLE_DEVICE; node.gpus as usize],
        model: models.bit(node.gpu_model.as_deref().unwrap_or_default()),
    };
    Ok(nodes::read(path)?.into_iter().map(node).collect())
}

fn read_tasks(path: &Path, models: &mut Models) -> Result<Vec<Task>, TraceError> {
    let task = |task: tasks::Task| {
        let accepted = task.gpu_models.iter();
        let mask = accepted.fold(0, |mask, name| mask | models.bit(name));
        Task {
            demand: Demand {
                cpu: task.cpu_milli.into(),
                memory: task.memory_mib.into(),
                devices: task.gpus,
                share: task.gpu_milli,
            },
            models: if mask == 0 { u32::MAX } else { mask },
        }
    };
    Ok(tasks::read(path)?.into_iter().map(task).collect())
}

/// A pseudo-random generator with a fixed seed.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn new(seed: u64) -> Self {
        let mut numbers = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..10 {
            numbers.next();
        }
        numbers
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap_or(0) % end
    }
}

/// The amount of devices that a task requests, in the unit in which a device has [`WHOLE_DEVICE`].
fn shares(task: &Task) -> u64 {
    u64::from(task.demand.devices) * u64::from(task.demand.share)
}

/// All tasks in random order, with random repetitions until they request [`REQUESTED_SHARE`] of the capacity.
fn arrivals(tasks: &[Task], capacity: u64, numbers: &mut RandomNumbers) -> Vec<Task> {
    let mut tasks_in_order = tasks.to_vec();
    let mut requested: u64 = tasks_in_order.iter().map(shares).sum();
    while (requested as f64) < capacity as f64 * REQUESTED_SHARE {
        let repeated = tasks[numbers.below(tasks.len())];
        requested += shares(&repeated);
        tasks_in_order.push(repeated);
    }
    for end in (1..tasks_in_order.len()).rev() {
        tasks_in_order.swap(end, numbers.below(end + 1));
    }
    tasks_in_order
}

#[derive(Clone, Copy)]
enum Heuristic {
    Random,
    BestFit,
    Fragmentation,
}

/// The node that a heuristic prefers, and the devices to take there.
fn choose(
    heuristic: Heuristic,
    nodes: &[Node],
    task: &Task,
    loss_cache: &mut LossCache,
    numbers: &mut RandomNumbers,
) -> Option<(usize, Vec<usize>)> {
    match heuristic {
        Heuristic::Fragmentation => choose_by_loss_cache(nodes, task, loss_cache),
        Heuristic::Random | Heuristic::BestFit => choose_by_search(heuristic, nodes, task, numbers),
    }
}

fn choose_by_loss_cache(
    nodes: &[Node],
    task: &Task,
    loss_cache: &mut LossCache,
) -> Option<(usize, Vec<usize>)> {
    loss_cache.update(&task.demand);
    let gradients = loss_cache.gradients(task.demand)?;
    let mut best: Option<(f64, u32)> = None;
    for (number, node) in (0u32..).zip(nodes) {
        if task.demand.devices > 0 && node.model & task.models == 0 {
            continue;
        }
        let Some(growth) = gradients.growth(number) else {
            continue;
        };
        if best.is_none_or(|(lowest_growth, _)| growth < lowest_growth - 1e-9) {
            best = Some((growth, number));
        }
    }
    let (_, number) = best?;
    let choice = loss_cache.choose_devices(number, &task.demand)?;
    Some((number as usize, choice.devices.to_vec()))
}

fn choose_by_search(
    heuristic: Heuristic,
    nodes: &[Node],
    task: &Task,
    numbers: &mut RandomNumbers,
) -> Option<(usize, Vec<usize>)> {
    let demand = &task.demand;
    let mut best: Option<(f64, usize, Vec<usize>)> = None;
    for (number, node) in nodes.iter().enumerate() {
        if (demand.devices > 0 && node.model & task.models == 0)
            || !demand.fits(&node.free_capacity())
        {
            continue;
        }
        let mut devices: Vec<usize> = (0..node.devices.len()).collect();
        devices.retain(|device| node.devices[*device] >= demand.share);
        let cost = if matches!(heuristic, Heuristic::Random) {
            if !devices.is_empty() {
                let offset = numbers.below(devices.len());
                devices.rotate_left(offset);
            }
            numbers.next() as f64
        } else {
            devices.sort_by_key(|device| node.devices[*device]);
            let free_shares = u64::from(node.devices.iter().sum::<u32>()) - shares(task);
            // The free capacity relative to the largest machine: 128 CPUs, 1 TiB, 8 GPUs.
            (node.cpu - demand.cpu) as f64 / 128e3
                + (node.memory - demand.memory) as f64 / 1_048_576.0
                + free_shares as f64 / 8e3
        };
        devices.truncate(demand.devices as usize);
        if best
            .as_ref()
            .is_none_or(|(least_cost, ..)| cost < *least_cost - 1e-9)
        {
            best = Some((cost, number, devices));
        }
    }
    best.map(|(_, node, devices)| (node, devices))
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// The result of one order of arrivals.
struct PackingResult {
    /// The share of all devices that is allocated in the end.
    share: f64,
    /// The wall-clock and CPU time of each decision.
    times: Vec<(Duration, Duration)>,
}

/// Places tasks by a heuristic, in the random order that follows from `seed`.
fn pack(heuristic: Heuristic, nodes: &[Node], tasks: &[Task], seed: u64) -> PackingResult {
    let mut nodes = nodes.to_vec();
    let capacity: u64 = nodes
        .iter()
        .map(|node| node.devices.len() as u64 * u64::from(WHOLE_DEVICE))
        .sum();
    let mut numbers = RandomNumbers::new(seed);
    let mut histogram = DemandHistogram::default();
    let mut loss_cache = LossCache::default();
    for (number, node) in (0u32..).zip(&nodes) {
        loss_cache.set(number, &node.free_capacity());
    }
    let (mut allocated, mut times) = (0, Vec::new());
    let arrivals_in_order = arrivals(tasks, capacity, &mut numbers);
    for (number, task) in arrivals_in_order.iter().enumerate() {
        let (wall_start, cpu_start) = (Instant::now(), cpu_time());
        histogram.record(task.demand);
        if number % FORECAST_INTERVAL == 0 || number.is_power_of_two() {
            loss_cache.set_forecast(histogram.forecast());
        }
        let choice = choose(heuristic, &nodes, task, &mut loss_cache, &mut numbers);
        times.push((wall_start.elapsed(), cpu_time() - cpu_start));
        if let Some((node, devices)) = choice {
            nodes[node].cpu -= task.demand.cpu;
            nodes[node].memory -= task.demand.memory;
            for device in devices {
                nodes[node].devices[device] -= task.demand.share;
            }
            let changed = u32::try_from(node).expect("few nodes");
            loss_cache.set(changed, &nodes[node].free_capacity());
            allocated += shares(task);
        }
    }
    PackingResult {
        share: allocated as f64 / capacity as f64,
        times,
    }
}

/// The median, the 99th percentile and the maximum of some times, in µs.
fn percentiles(times: impl Iterator<Item = Duration>) -> [f64; 3] {
    let mut times: Vec<f64> = times.map(|time| time.as_secs_f64() * 1e6).collect();
    times.sort_by(f64::total_cmp);
    let last = times.len() - 1;
    [times[last / 2], times[last * 99 / 100], times[last]]
}

fn run(nodes: &Path, tasks: &Path, orders: u64) -> Result<bool, TraceError> {
    let mut models = Models::default();
    let nodes = read_nodes(nodes, &mut models)?;
    let tasks = read_tasks(tasks, &mut models)?;
    let devices: usize = nodes.iter().map(|node| node.devices.len()).sum();
    println!(
        "{} nodes with {devices} GPUs, {} tasks, {orders} orders",
        nodes.len(),
        tasks.len()
    );
    println!(
        "heuristic       GPUs: mean    least   decision µs: p50    p99     max   \
         CPU time:  p50    p99     max"
    );
    let mut meets_targets = true;
    for (heuristic, name) in [
        (Heuristic::Random, "random"),
        (Heuristic::BestFit, "best fit"),
        (Heuristic::Fragmentation, "fragmentation"),
    ] {
        let packed: Vec<PackingResult> = (1..=orders)
            .map(|seed| pack(heuristic, &nodes, &tasks, seed))
            .collect();
        let shares = packed.iter().map(|order| order.share * 100.0);
        let mean = shares.clone().sum::<f64>() / packed.len() as f64;
        let least = shares.fold(f64::INFINITY, f64::min);
        let times = || packed.iter().flat_map(|order| &order.times);
        let [wall_p50, wall_p99, wall_max] = percentiles(times().map(|(wall, _)| *wall));
        let [cpu_p50, cpu_p99, cpu_max] = percentiles(times().map(|(_, cpu)| *cpu));
        println!(
            "{name:13} {mean:10.2} % {least:6.2} % {wall_p50:16.1} {wall_p99:6.1} {wall_max:7.1} \
             {cpu_p50:16.1} {cpu_p99:6.1} {cpu_max:7.1}"
        );
        if matches!(heuristic, Heuristic::Fragmentation) {
            meets_targets = mean >= SHARE_TARGET && cpu_max < DECISION_TARGET_US;
        }
    }
    Ok(meets_targets)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let orders = arguments.get(2).map_or(Ok(10), |text| text.parse::<u64>());
    let (Some(nodes), Some(tasks), Ok(orders @ 1..)) =
        (arguments.first(), arguments.get(1), orders)
    else {
        eprintln!("usage: packing NODES.csv TASKS.csv [ORDERS]");
        return ExitCode::from(2);
    };
    match run(nodes.as_ref(), tasks.as_ref(), orders) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!(
                "fragmentation misses its targets: {SHARE_TARGET} %, {DECISION_TARGET_US} µs"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
