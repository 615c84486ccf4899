//! Damages a store that a killed program left, in very many ways, and checks whether a start or a `verify` fails
//! to report anything that is missing. `tests/missing/run` makes the store and calls this.
//!
//! ```text
//! cargo run --release -p placewright-engine --example missing -- STORE ACKNOWLEDGED [STEP [SCRATCH]]
//! ```
//!
//! ACKNOWLEDGED is the last entry that was acknowledged to a client. Each byte of the last 64 KiB of the
//! database, its log and the mark is flipped in turn, and every sixteenth of a snapshot's (with STEP:
//! every STEP-th of those), each file is cut at every page, at every frame of
//! the log and at every sector of the mark, and removed. After each damage the store is verified, as
//! `placewright journal verify` does, and started, as a server does. Either every acknowledged entry is
//! there and unchanged, or the damage is reported; anything else is a failure.

#![allow(clippy::print_stdout, reason = "it prints its figures")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use placewright_engine::{DecodeError, LoadError, Machine, recover};
use placewright_journal::{SqliteJournal, SqliteOptions, verify};

const WINDOW_BYTES: usize = 64 << 10;
const PAGE_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;
const SNAPSHOT_STEP: usize = 16;
/// The layout of SQLite's write-ahead log.
const LOG_HEAD_BYTES: usize = 32;
const FRAME_BYTES: usize = 24 + PAGE_BYTES;
const PROGRESS_EVERY: Duration = Duration::from_secs(30);
const COMPLAINTS_MAX: usize = 20;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "missing STORE ACKNOWLEDGED [STEP [SCRATCH]]";
    let store = PathBuf::from(arguments.next().ok_or(usage)?);
    let acknowledged: u64 = arguments.next().ok_or(usage)?.parse()?;
    let step: usize = arguments.next().map_or(Ok(1), |step| step.parse())?;
    let scratch = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let sound = SoundStore::read(&store, acknowledged, &scratch)?;
    let cases = sound.cases(step.max(1));
    println!(
        "{} files, entries up to {acknowledged} were acknowledged, {} kinds of damage",
        sound.files.len(),
        cases.len()
    );
    let tally = run(&sound, &cases, &scratch);
    for (family, found) in &tally.families {
        println!(
            "  {family:46} {:7} whole, {:7} named, {} silent",
            found.whole, found.named, found.silent
        );
    }
    for complaint in &tally.complaints {
        println!("FAILED {complaint}");
    }
    let silent: usize = tally.families.values().map(|found| found.silent).sum();
    println!("{} passed, {silent} failed", 2 * cases.len() - silent);
    Ok(ExitCode::from(u8::from(silent > 0)))
}

/// The store as it was found.
struct SoundStore {
    files: BTreeMap<String, Vec<u8>>,
    acknowledged: u64,
    /// By snapshot: the digest that is expected after each entry.
    expected: BTreeMap<u64, BTreeMap<u64, u64>>,
}

#[derive(Clone)]
enum Damage {
    Flip(usize),
    Cut(usize),
    Remove,
}

struct Case<'a> {
    file: &'a str,
    damage: Damage,
}

impl SoundStore {
    fn read(store: &Path, acknowledged: u64, scratch: &Path) -> Result<Self, Box<dyn Error>> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(store)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // The lock file has no content that matters, and SQLite's shared files are rebuilt
            // after a kill.
            if name != "lock" && !name.ends_with("-shm") {
                files.insert(name, fs::read(entry.path())?);
            }
        }
        if let Some(log) = files.get_mut("journal.sqlite-wal") {
            // Space after the last valid frame is reserved for later ones; leaving it out of each
            // copy saves most of the time.
            let end = log_end(log);
            log.truncate(end);
        }
        let mut sound = Self {
            files,
            acknowledged,
            expected: BTreeMap::new(),
        };
        sound.expect(scratch)?;
        Ok(sound)
    }

    /// Computes the expected digests for a start from each snapshot, and without any.
    fn expect(&mut self, scratch: &Path) -> Result<(), Box<dyn Error>> {
        let directory = scratch.join("missing-sound");
        let snapshots: Vec<String> = self.snapshots().map(str::to_owned).collect();
        for without in 0..=snapshots.len() {
            self.put(&directory, None)?;
            for name in snapshots.iter().rev().take(without) {
                fs::remove_file(directory.join(name))?;
            }
            let mut journal = SqliteJournal::open(&directory, SqliteOptions::default())?;
            let Ok(recovered) = recover::<Trail>(&mut journal, &()) else {
                continue;
            };
            let end = recovered.sequence;
            if end < self.acknowledged {
                return Err(
                    format!("the store ends at {end}, before what was acknowledged").into(),
                );
            }
            // The trail grows by one digest with each record, so its length gives the position.
            let steps = (recovered.snapshot..=end).zip(recovered.machine.digests);
            self.expected.insert(recovered.snapshot, steps.collect());
        }
        fs::remove_dir_all(&directory)?;
        Ok(())
    }

    fn snapshots(&self) -> impl Iterator<Item = &str> {
        let names = self.files.keys().map(String::as_str);
        names.filter(|name| name.starts_with("snapshot-"))
    }

    fn cases(&self, step: usize) -> Vec<Case<'_>> {
        let mut cases = Vec::new();
        for (file, bytes) in &self.files {
            let window: Range<usize> = bytes.len().saturating_sub(WINDOW_BYTES)..bytes.len();
            // A snapshot's checksums cover long chunks, in which no byte is special.
            let step = if file.starts_with("snapshot-") {
                step * SNAPSHOT_STEP
            } else {
                step
            };
            let flips = window.step_by(step).map(Damage::Flip);
            let cuts = cuts(file, bytes.len()).into_iter().map(Damage::Cut);
            let damages = flips.chain(cuts).chain([Damage::Remove]);
            cases.extend(damages.map(|damage| Case { file, damage }));
        }
        cases
    }

    /// Writes the store's files, with one of them damaged.
    fn put(&self, directory: &Path, case: Option<&Case<'_>>) -> io::Result<()> {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(directory)?;
        for (name, bytes) in &self.files {
            let damage = case
                .filter(|case| case.file == name)
                .map(|case| &case.damage);
            match damage {
                Some(Damage::Remove) => {}
                Some(Damage::Cut(at)) => fs::write(directory.join(name), &bytes[..*at])?,
                Some(Damage::Flip(at)) => {
                    let mut bytes = bytes.clone();
                    // Flips a different bit in each byte, so that all bits are covered.
                    bytes[*at] ^= 1 << (at % 8);
                    fs::write(directory.join(name), bytes)?;
                }
                None => fs::write(directory.join(name), bytes)?,
            }
        }
        Ok(())
    }

    /// Checks what a store that is reported as sound has to contain.
    fn is_whole(&self, journal: &mut SqliteJournal) -> Result<bool, Box<dyn Error>> {
        let recovered = recover::<Trail>(journal, &())?;
        let expected = self.expected.get(&recovered.snapshot);
        let expected = expected.and_then(|steps| steps.get(&recovered.sequence));
        Ok(recovered.sequence >= self.acknowledged
            && expected.is_some()
            && expected == recovered.machine.digests.last())
    }

    /// Runs `placewright journal verify`. True if it reports damage, or if there is none.
    fn verify(&self, directory: &Path) -> Outcome {
        let found = SqliteJournal::open_read_only(directory).and_then(|mut journal| {
            let found = verify(&mut journal, &mut |_| ())?;
            Ok((journal, found))
        });
        match found {
            Ok((mut journal, found)) if found.problems.is_empty() => {
                match self.is_whole(&mut journal) {
                    Ok(true) => Outcome::Whole,
                    // The damage was not reported, and a start would not report it either.
                    Ok(false) | Err(_) => Outcome::Silent,
                }
            }
            Ok(_) | Err(_) => Outcome::Named,
        }
    }

    /// Starts a server on a copy of a store and says how it ended.
    fn start(&self, directory: &Path) -> Outcome {
        let Ok(mut journal) = SqliteJournal::open(directory, SqliteOptions::default()) else {
            return Outcome::Named;
        };
        match self.is_whole(&mut journal) {
            Ok(true) => Outcome::Whole,
            Ok(false) => Outcome::Silent,
            Err(_) => Outcome::Named,
        }
    }
}

/// Where to cut a file.
fn cuts(name: &str, length: usize) -> Vec<usize> {
    let every = if name == "mark" {
        SECTOR_BYTES
    } else {
        PAGE_BYTES
    };
    let mut cuts: Vec<usize> = (0..length).step_by(every).collect();
    if name.ends_with("-wal") {
        cuts.extend((LOG_HEAD_BYTES..length).step_by(FRAME_BYTES));
    }
    cuts
}

/// The end of the last frame of SQLite's log that has the current salts and belongs to a committed
/// transaction.
fn log_end(log: &[u8]) -> usize {
    let salts = log.get(16..24);
    let mut end = LOG_HEAD_BYTES.min(log.len());
    let mut at = LOG_HEAD_BYTES;
    while let Some(frame) = log.get(at..at + FRAME_BYTES) {
        if frame.get(8..16) != salts {
            break;
        }
        at += FRAME_BYTES;
        if frame[4..8] != [0; 4] {
            end = at;
        }
    }
    end
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Every acknowledged entry is there and unchanged.
    Whole,
    /// The damage was reported.
    Named,
    /// Entries are missing or changed, and nothing reported it: a failure.
    Silent,
}

/// How often each outcome occurred.
#[derive(Default)]
struct OutcomeCounts {
    whole: usize,
    named: usize,
    silent: usize,
}

#[derive(Default)]
struct Tally {
    families: BTreeMap<String, OutcomeCounts>,
    complaints: Vec<String>,
}

impl Tally {
    fn add(&mut self, act: &str, case: &Case<'_>, outcome: Outcome) {
        let damage = match case.damage {
            Damage::Flip(_) => "flipped",
            Damage::Cut(_) => "cut",
            Damage::Remove => "removed",
        };
        let kind = case.file.trim_end_matches(|c: char| c.is_ascii_digit());
        let found = self.families.entry(format!("{act}, {kind} {damage}"));
        let found = found.or_default();
        match outcome {
            Outcome::Whole => found.whole += 1,
            Outcome::Named => found.named += 1,
            Outcome::Silent => {
                found.silent += 1;
                if self.complaints.len() < COMPLAINTS_MAX {
                    let at = match case.damage {
                        Damage::Flip(at) | Damage::Cut(at) => format!(" at byte {at}"),
                        Damage::Remove => String::new(),
                    };
                    let file = case.file;
                    self.complaints.push(format!("{act}, {file} {damage}{at}"));
                }
            }
        }
    }
}

fn run(sound: &SoundStore, cases: &[Case<'_>], scratch: &Path) -> Tally {
    // Panics are counted; their messages would hide the other output.
    std::panic::set_hook(Box::new(|_| ()));
    let tally = Mutex::new(Tally::default());
    let next_case = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for number in 0..threads {
            let directory = scratch.join(format!("missing-{}-{number}", std::process::id()));
            let (tally, next_case) = (&tally, &next_case);
            scope.spawn(move || {
                let mut reported_at = Instant::now();
                while let Some(case) = cases.get(next_case.fetch_add(1, Ordering::Relaxed)) {
                    let done = damage(sound, case, &directory);
                    let mut tally = tally.lock().unwrap_or_else(|broken| broken.into_inner());
                    for (act, outcome) in ["verify", "start"].into_iter().zip(done) {
                        tally.add(act, case, outcome);
                    }
                    drop(tally);
                    if number == 0 && reported_at.elapsed() >= PROGRESS_EVERY {
                        reported_at = Instant::now();
                        println!("  {} of {}", next_case.load(Ordering::Relaxed), cases.len());
                    }
                }
                // It would only take up space.
                let _ = fs::remove_dir_all(&directory);
            });
        }
    });
    tally
        .into_inner()
        .unwrap_or_else(|broken| broken.into_inner())
}

fn damage(sound: &SoundStore, case: &Case<'_>, directory: &Path) -> [Outcome; 2] {
    // A panic, or a scratch directory without space, counts as a failure too.
    let attempt =
        |act: &dyn Fn() -> Outcome| catch_unwind(AssertUnwindSafe(act)).unwrap_or(Outcome::Silent);
    if sound.put(directory, Some(case)).is_err() {
        return [Outcome::Silent; 2];
    }
    // Verification must not change the store.
    [
        attempt(&|| sound.verify(directory)),
        attempt(&|| sound.start(directory)),
    ]
}

/// A state machine that records a digest after each record.
struct Trail {
    digests: Vec<u64>,
}

impl Trail {
    fn next_digest(before: u64, bytes: &[u8]) -> u64 {
        use std::hash::{DefaultHasher, Hasher as _};
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(before);
        hasher.write(bytes);
        hasher.finish()
    }
}

impl Machine for Trail {
    type Command = ();
    type Change = Vec<u8>;
    type Outcome = ();
    type Refusal = ();
    type Undo = ();

    fn empty() -> Self {
        Self { digests: vec![0] }
    }

    fn decide(&self, (): &(), _: &mut Vec<Vec<u8>>) -> Result<(), ()> {
        Ok(())
    }

    fn apply(&mut self, record: &Vec<u8>) {
        let before = self.digests.last().copied().unwrap_or(0);
        self.digests.push(Self::next_digest(before, record));
    }

    fn undo(&mut self, (): ()) {}

    fn encode(records: &[Vec<u8>], out: &mut Vec<u8>) {
        out.extend(records.iter().flatten());
    }

    fn decode(record: &[u8]) -> Result<Vec<Vec<u8>>, DecodeError> {
        Ok(vec![record.to_vec()])
    }

    fn save(&self, _: &mut dyn io::Write) -> io::Result<()> {
        Ok(())
    }

    fn load(input: &mut dyn io::Read) -> Result<Self, LoadError> {
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes)?;
        let digests = vec![Self::next_digest(0, &bytes)];
        Ok(Self { digests })
    }

    fn digest(&self) -> u128 {
        self.digests.last().copied().unwrap_or(0).into()
    }
}
