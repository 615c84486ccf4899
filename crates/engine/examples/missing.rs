//! Damages a store that a killed program left, in very many ways, and checks whether a start or a `verify` fails
//! to report anything that is missing. `tests/missing/run` makes the store and calls this.
//!
//! ```text
//! cargo run --release -p placewright-engine --example missing -- STORE ACKNOWLEDGED [STEP [SCRATCH]]
//! ```
//!
//! ACKNOWLEDGED is the last entry that was acknowledged to a client. Each case damages one file:
//! - a bit is flipped in a byte of its last 64 KiB: in each byte of the database, its log and the mark, and in
//!   every sixteenth byte of a snapshot (with STEP only in every STEP-th of these bytes);
//! - the file is cut at a page, the log also at a frame, and the mark at a sector instead;
//! - the file is removed.
//!
//! After each damage the store is verified, as `placewright journal verify` does, and started, as a server does.
//! Either every acknowledged entry is there and unchanged, or the damage is reported; anything else is a
//! failure.

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

/// Bits are flipped in this many bytes at the end of each file.
const WINDOW_BYTES: usize = 64 << 10;
/// Files are cut at the multiples of this size, with which pages of any size end.
const CUT_STEP_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;
/// A bit is flipped in every sixteenth byte of a snapshot.
const SNAPSHOT_STEP: usize = 16;
/// The size of the header of SQLite's write-ahead log.
const LOG_HEAD_BYTES: usize = 32;
/// The size of the header of a frame of that log, which is followed by a page.
const FRAME_HEAD_BYTES: usize = 24;
const PROGRESS_EVERY: Duration = Duration::from_secs(30);
/// The number of failures that are printed one by one.
const FAILURES_MAX: usize = 20;

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
    let results = run(&sound, &cases, &scratch);
    for (check_and_damage, counts) in &results.counts {
        println!(
            "  {check_and_damage:46} {:7} whole, {:7} named, {} silent",
            counts.whole, counts.reported, counts.silent
        );
    }
    for failure in &results.failures {
        println!("FAILED {failure}");
    }
    let silent: usize = results.counts.values().map(|counts| counts.silent).sum();
    // Each case counts twice: the store is verified, and started.
    println!("{} passed, {silent} failed", 2 * cases.len() - silent);
    Ok(ExitCode::from(u8::from(silent > 0)))
}

/// The store as it was found.
struct SoundStore {
    /// The content of each file by its name.
    files: BTreeMap<String, Vec<u8>>,
    /// The last entry that was acknowledged.
    acknowledged: u64,
    /// By the snapshot from which a start recovers, 0 for a start without one: the expected digest after each entry.
    expected_digests: BTreeMap<u64, BTreeMap<u64, u64>>,
}

/// The kinds of damage that are done to a file.
#[derive(Clone)]
enum Damage {
    /// Flips a bit of the byte at this offset.
    Flip(usize),
    /// Cuts the file off at this offset.
    Cut(usize),
    /// Removes the file.
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
            // The content of the lock file does not matter, and SQLite rebuilds its shared memory (-shm)
            // after a kill.
            if name != "lock" && !name.ends_with("-shm") {
                files.insert(name, fs::read(entry.path())?);
            }
        }
        if let Some(log) = files.get_mut("journal.sqlite-wal") {
            // The space after the last valid frame is reserved for later frames; leaving that space out of each
            // copy saves most of the time.
            let end = log_end(log);
            log.truncate(end);
        }
        let mut sound = Self {
            files,
            acknowledged,
            expected_digests: BTreeMap::new(),
        };
        sound.compute_expected_digests(scratch)?;
        Ok(sound)
    }

    /// Computes the expected digests for a start from each snapshot, and for one without snapshots.
    fn compute_expected_digests(&mut self, scratch: &Path) -> Result<(), Box<dyn Error>> {
        let directory = scratch.join("missing-sound");
        let snapshots: Vec<String> = self.snapshots().map(str::to_owned).collect();
        for removed in 0..=snapshots.len() {
            let no_damage = None;
            self.write_files(&directory, no_damage)?;
            // The newest snapshots are removed, so that the start uses an older one.
            for name in snapshots.iter().rev().take(removed) {
                fs::remove_file(directory.join(name))?;
            }
            let mut journal = SqliteJournal::open(&directory, SqliteOptions::default())?;
            // The entries before the oldest snapshot may have been trimmed; then no start without it succeeds.
            let Ok(recovered) = recover::<DigestHistory>(&mut journal, &()) else {
                continue;
            };
            let end = recovered.sequence;
            if end < self.acknowledged {
                return Err(
                    format!("the store ends at {end}, before what was acknowledged").into(),
                );
            }
            // The first digest is that of the snapshot, and each entry adds one more.
            let digests = (recovered.snapshot..=end).zip(recovered.machine.digests);
            self.expected_digests
                .insert(recovered.snapshot, digests.collect());
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
            let cuts = cuts(file, bytes).into_iter().map(Damage::Cut);
            let damages = flips.chain(cuts).chain([Damage::Remove]);
            cases.extend(damages.map(|damage| Case { file, damage }));
        }
        cases
    }

    /// Writes the store's files to an empty directory; with a case, one of them damaged.
    fn write_files(&self, directory: &Path, case: Option<&Case<'_>>) -> io::Result<()> {
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
                Some(Damage::Cut(offset)) => {
                    fs::write(directory.join(name), &bytes[..*offset])?;
                }
                Some(Damage::Flip(offset)) => {
                    let mut bytes = bytes.clone();
                    // In adjacent bytes different bits are flipped, so that each position of a bit occurs.
                    bytes[*offset] ^= 1 << (offset % 8);
                    fs::write(directory.join(name), bytes)?;
                }
                None => fs::write(directory.join(name), bytes)?,
            }
        }
        Ok(())
    }

    /// Recovers the state of a store whose damage was not reported so far. True if the state has every
    /// acknowledged entry unchanged.
    fn is_whole(&self, journal: &mut SqliteJournal) -> Result<bool, Box<dyn Error>> {
        let recovered = recover::<DigestHistory>(journal, &())?;
        let expected = self.expected_digests.get(&recovered.snapshot);
        let expected = expected.and_then(|digests| digests.get(&recovered.sequence));
        Ok(recovered.sequence >= self.acknowledged
            && expected.is_some()
            && expected == recovered.machine.digests.last())
    }

    /// Verifies a store as `placewright journal verify` does.
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
            Ok(_) | Err(_) => Outcome::Reported,
        }
    }

    /// Opens a store and recovers its state, as the start of a server does.
    fn start(&self, directory: &Path) -> Outcome {
        let Ok(mut journal) = SqliteJournal::open(directory, SqliteOptions::default()) else {
            return Outcome::Reported;
        };
        match self.is_whole(&mut journal) {
            Ok(true) => Outcome::Whole,
            Ok(false) => Outcome::Silent,
            Err(_) => Outcome::Reported,
        }
    }
}

/// The offsets at which to cut a file.
fn cuts(name: &str, content: &[u8]) -> Vec<usize> {
    let length = content.len();
    let step = if name == "mark" {
        SECTOR_BYTES
    } else {
        CUT_STEP_BYTES
    };
    let mut cuts: Vec<usize> = (0..length).step_by(step).collect();
    if name.ends_with("-wal") {
        cuts.extend((LOG_HEAD_BYTES..length).step_by(frame_bytes(content)));
    }
    cuts
}

/// The size of a frame of SQLite's log: its header and a page, whose size the log's header has.
fn frame_bytes(log: &[u8]) -> usize {
    let Some(page_bytes) = log.get(8..12).and_then(|bytes| bytes.try_into().ok()) else {
        return log.len().max(1);
    };
    FRAME_HEAD_BYTES + u32::from_be_bytes(page_bytes) as usize
}

/// The end of the last frame of SQLite's log that has the current salts and belongs to a committed
/// transaction. SQLite's documentation of the WAL format has the offsets.
fn log_end(log: &[u8]) -> usize {
    let salts = log.get(16..24);
    let mut end = LOG_HEAD_BYTES.min(log.len());
    let mut offset = LOG_HEAD_BYTES;
    let frame_bytes = frame_bytes(log);
    while let Some(frame) = log.get(offset..offset + frame_bytes) {
        if frame.get(8..16) != salts {
            break;
        }
        offset += frame_bytes;
        // The last frame of a transaction has the size of the database here, every other frame has 0.
        if frame[4..8] != [0; 4] {
            end = offset;
        }
    }
    end
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Every acknowledged entry is there and unchanged.
    Whole,
    /// The damage was reported.
    Reported,
    /// Entries are missing or changed and nothing reported it, which is a failure.
    Silent,
}

/// How often each outcome occurred.
#[derive(Default)]
struct OutcomeCounts {
    whole: usize,
    reported: usize,
    silent: usize,
}

#[derive(Default)]
struct Results {
    /// The counts by check, kind of file and kind of damage.
    counts: BTreeMap<String, OutcomeCounts>,
    /// Descriptions of the first [`FAILURES_MAX`] failures.
    failures: Vec<String>,
}

impl Results {
    fn add(&mut self, check: &str, case: &Case<'_>, outcome: Outcome) {
        let damage = match case.damage {
            Damage::Flip(_) => "flipped",
            Damage::Cut(_) => "cut",
            Damage::Remove => "removed",
        };
        let file_kind = case.file.trim_end_matches(|c: char| c.is_ascii_digit());
        let counts = self.counts.entry(format!("{check}, {file_kind} {damage}"));
        let counts = counts.or_default();
        match outcome {
            Outcome::Whole => counts.whole += 1,
            Outcome::Reported => counts.reported += 1,
            Outcome::Silent => {
                counts.silent += 1;
                if self.failures.len() < FAILURES_MAX {
                    let place = match case.damage {
                        Damage::Flip(offset) | Damage::Cut(offset) => format!(" at byte {offset}"),
                        Damage::Remove => String::new(),
                    };
                    let file = case.file;
                    self.failures
                        .push(format!("{check}, {file} {damage}{place}"));
                }
            }
        }
    }
}

fn run(sound: &SoundStore, cases: &[Case<'_>], scratch: &Path) -> Results {
    // A panic counts as a failure; the messages of panics would hide the other output.
    std::panic::set_hook(Box::new(|_| ()));
    let results = Mutex::new(Results::default());
    let next_case = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for number in 0..threads {
            let directory = scratch.join(format!("missing-{}-{number}", std::process::id()));
            let (results, next_case) = (&results, &next_case);
            scope.spawn(move || {
                let mut reported_at = Instant::now();
                while let Some(case) = cases.get(next_case.fetch_add(1, Ordering::Relaxed)) {
                    let outcomes = run_case(sound, case, &directory);
                    let mut results = results
                        .lock()
                        .unwrap_or_else(|poisoned| poisoned.into_inner());
                    for (check, outcome) in ["verify", "start"].into_iter().zip(outcomes) {
                        results.add(check, case, outcome);
                    }
                    drop(results);
                    if number == 0 && reported_at.elapsed() >= PROGRESS_EVERY {
                        reported_at = Instant::now();
                        println!("  {} of {}", next_case.load(Ordering::Relaxed), cases.len());
                    }
                }
                // An error is ignored: the directory only takes up space.
                let _ = fs::remove_dir_all(&directory);
            });
        }
    });
    results
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Damages a copy of the store. Returns the outcomes of verifying and of starting the copy.
fn run_case(sound: &SoundStore, case: &Case<'_>, directory: &Path) -> [Outcome; 2] {
    // A panic, or a scratch directory without space, counts as a failure too.
    let attempt = |check: &dyn Fn() -> Outcome| {
        catch_unwind(AssertUnwindSafe(check)).unwrap_or(Outcome::Silent)
    };
    if sound.write_files(directory, Some(case)).is_err() {
        return [Outcome::Silent; 2];
    }
    // Both use one copy, because verification does not change a store.
    [
        attempt(&|| sound.verify(directory)),
        attempt(&|| sound.start(directory)),
    ]
}

/// A state machine that keeps the digest after each entry.
struct DigestHistory {
    /// The digest of the snapshot, then one for each entry after it.
    digests: Vec<u64>,
}

impl DigestHistory {
    fn next_digest(before: u64, bytes: &[u8]) -> u64 {
        use std::hash::{DefaultHasher, Hasher as _};
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(before);
        hasher.write(bytes);
        hasher.finish()
    }
}

impl Machine for DigestHistory {
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
