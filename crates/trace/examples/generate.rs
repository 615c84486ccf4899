//! Generates the small trace that is part of the project. The result is the same each time.
//!
//! `cargo run -p placewright-trace --example generate -- crates/trace/data`
//!
//! It has 60 machines, of which 52 have 192 GPUs of three models, and 400 tasks in two days. A third of
//! the tasks need no GPU, and half of the tasks need a part of one. Together the tasks request a little more GPU than
//! the machines have, so that a replay without deletions ends with refusals.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Groups of equal machines: count, CPU in thousandths of a core, memory in MiB, GPUs, GPU model.
const NODES: [(u32, u32, u32, u32, &str); 4] = [
    (8, 64_000, 262_144, 0, ""),
    (24, 48_000, 196_608, 2, "T4"),
    (20, 64_000, 262_144, 4, "A10"),
    (8, 96_000, 524_288, 8, "V100"),
];
const TASKS: u32 = 400;
/// The time in which tasks are submitted, in seconds.
const SUBMISSION_TIME_S: u64 = 2 * 24 * 3600;
/// The parts of a GPU that tasks request, in thousandths.
const SHARES: [u32; 6] = [100, 200, 250, 400, 500, 800];
/// The CPU in thousandths of a core and the memory in MiB that tasks request.
const SIZES: [(u32, u32); 5] = [
    (2_000, 8_192),
    (4_000, 16_384),
    (6_500, 16_384),
    (8_000, 32_768),
    (11_900, 65_536),
];

/// A pseudo-random generator with a fixed seed.
struct RandomNumbers(u64);

impl RandomNumbers {
    /// A number below `end` (xorshift64*).
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }

    fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = usize::try_from(self.below(choices.len() as u64)).unwrap_or(0);
        choices[index]
    }
}

fn nodes() -> String {
    let mut text = "sn,cpu_milli,memory_mib,gpu,model\n".to_owned();
    let machine_groups = NODES.iter().flat_map(|group| {
        let (count, ..) = *group;
        (0..count).map(move |_| group)
    });
    for (number, (_, cpu, memory, gpus, model)) in machine_groups.enumerate() {
        let _ = writeln!(text, "node-{number:02},{cpu},{memory},{gpus},{model}");
    }
    text
}

/// The file of the tasks. The ranges are shares of the tasks in percent.
fn tasks(random: &mut RandomNumbers) -> String {
    let header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time";
    let mut text = format!("{header}\n");
    for number in 0..TASKS {
        let (cpu, memory) = random.choose(&SIZES);
        let (gpus, gpu_milli) = match random.below(100) {
            0..33 => (0, 0),
            33..82 => (1, random.choose(&SHARES)),
            82..96 => (1, 1000),
            _ => (random.choose(&[2, 4, 8]), 1000),
        };
        let gpu_spec = match random.below(100) {
            0..12 if gpus == 1 => "T4",
            12..20 if gpus == 1 => "A10|T4",
            20..33 if gpus > 0 && gpus < 8 => "A10|V100",
            _ => "",
        };
        let created = SUBMISSION_TIME_S * u64::from(number) / u64::from(TASKS) + random.below(400);
        let deleted = created + 3600 + random.below(40 * 3600);
        let _ = writeln!(
            text,
            "task-{number:03},{cpu},{memory},{gpus},{gpu_milli},{gpu_spec},{created},{deleted}"
        );
    }
    text
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: generate FOLDER");
        return ExitCode::from(2);
    };
    let folder = Path::new(&folder);
    let mut random = RandomNumbers(0x706c_6163_6577_7269);
    let files = [("nodes.csv", nodes()), ("tasks.csv", tasks(&mut random))];
    for (name, text) in files {
        let file = folder.join(name);
        if let Err(error) = std::fs::write(&file, text) {
            eprintln!("{}: {error}", file.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
