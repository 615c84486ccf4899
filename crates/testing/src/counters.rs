//! Bounded counters: the smallest state machine with rules, changes, refusals and undo, for tests of the engine and for
//! its throughput example.

use std::io::{Read, Write};

use placewright_engine::{DecodeError, LoadError, Machine};

/// Counters, each of which stays between 0 and [`LIMIT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    values: Vec<u64>,
}

/// How many counters there are.
pub const COUNTERS: usize = 16;
/// The greatest value of a counter.
pub const LIMIT: u64 = 1_000;
/// The version of an encoded state.
const VERSION: u8 = 1;
/// The bytes of an encoded change: the counter and its value.
const CHANGE_BYTES: usize = 9;

/// The commands of the counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Adds a number to a counter.
    Add { counter: usize, amount: u64 },
    /// Moves from one counter to another: two changes, or none.
    Move { from: usize, to: usize, amount: u64 },
    /// Returns a counter's value.
    Get { counter: usize },
    /// Adds 1 to the first counter, whatever the limit is; the decision takes this long.
    Slow { micros: u64 },
    /// Panics while it is decided, as a command that meets a bug would.
    Panic,
}

/// The counter has this value from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub counter: u8,
    pub value: u64,
}

/// Why a command is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The counter would exceed the limit.
    TooMuch { value: u64 },
    /// The counter would fall below 0.
    TooLittle { value: u64 },
}

/// The answer to a command.
pub type Answer = Result<Result<u64, Refusal>, placewright_engine::SubmitError>;

impl Counters {
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    pub fn total(&self) -> u64 {
        self.values.iter().sum()
    }

    fn change(counter: usize, value: u64) -> Change {
        Change {
            counter: u8::try_from(counter).expect("there are few counters"),
            value,
        }
    }
}

impl Machine for Counters {
    type Command = Command;
    type Change = Change;
    type Outcome = u64;
    type Refusal = Refusal;
    type Undo = Change;

    fn empty() -> Self {
        Self {
            values: vec![0; COUNTERS],
        }
    }

    fn decide(&self, command: &Command, changes: &mut Vec<Change>) -> Result<u64, Refusal> {
        match *command {
            Command::Add { counter, amount } => {
                let value = self.values[counter];
                if value + amount > LIMIT {
                    return Err(Refusal::TooMuch { value });
                }
                if amount > 0 {
                    changes.push(Self::change(counter, value + amount));
                }
                Ok(value + amount)
            }
            Command::Move { from, to, amount } => {
                let (source, target) = (self.values[from], self.values[to]);
                if source < amount {
                    return Err(Refusal::TooLittle { value: source });
                }
                if from == to || amount == 0 {
                    return Ok(source);
                }
                // Added before the last check, to show that the changes of a refused command are
                // ignored.
                changes.push(Self::change(from, source - amount));
                if target + amount > LIMIT {
                    return Err(Refusal::TooMuch { value: target });
                }
                changes.push(Self::change(to, target + amount));
                Ok(target + amount)
            }
            Command::Get { counter } => Ok(self.values[counter]),
            Command::Slow { micros } => {
                let began = std::time::Instant::now();
                while began.elapsed() < std::time::Duration::from_micros(micros) {
                    std::hint::spin_loop();
                }
                changes.push(Self::change(0, self.values[0] + 1));
                Ok(self.values[0] + 1)
            }
            Command::Panic => {
                changes.push(Self::change(0, LIMIT + 1));
                panic!("the command asks for a panic")
            }
        }
    }

    fn apply(&mut self, change: &Change) -> Change {
        let value = &mut self.values[usize::from(change.counter)];
        let before = std::mem::replace(value, change.value);
        Change {
            counter: change.counter,
            value: before,
        }
    }

    fn undo(&mut self, undo: Change) {
        self.apply(&undo);
    }

    fn encode(changes: &[Change], out: &mut Vec<u8>) {
        out.push(VERSION);
        for change in changes {
            out.push(change.counter);
            out.extend_from_slice(&change.value.to_le_bytes());
        }
    }

    fn decode(encoded: &[u8]) -> Result<Vec<Change>, DecodeError> {
        let damaged = || DecodeError::Damaged("it is not a list of changes".into());
        let (&version, rest) = encoded.split_first().ok_or_else(damaged)?;
        if version > VERSION {
            return Err(DecodeError::Newer {
                found: version.into(),
                supported: VERSION.into(),
            });
        }
        let (changes, rest) = rest.as_chunks::<CHANGE_BYTES>();
        if !rest.is_empty() {
            return Err(damaged());
        }
        let change = |&[counter, ref value @ ..]: &[u8; CHANGE_BYTES]| Change {
            counter,
            value: u64::from_le_bytes(*value),
        };
        Ok(changes.iter().map(change).collect())
    }

    fn save(&self, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(&[VERSION])?;
        for value in &self.values {
            out.write_all(&value.to_le_bytes())?;
        }
        Ok(())
    }

    fn load(input: &mut dyn Read) -> Result<Self, LoadError> {
        let mut version = [0];
        input.read_exact(&mut version)?;
        if version[0] > VERSION {
            return Err(LoadError::Newer {
                found: version[0].into(),
                supported: VERSION.into(),
            });
        }
        let mut values = Vec::new();
        for _ in 0..COUNTERS {
            let mut value = [0; 8];
            input.read_exact(&mut value)?;
            values.push(u64::from_le_bytes(value));
        }
        Ok(Self { values })
    }

    fn digest(&self) -> u128 {
        // As FNV-1a, with its prime for 128 bits.
        let mix_in = |digest: u128, &value: &u64| {
            (digest ^ u128::from(value)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        };
        self.values.iter().fold(1, mix_in)
    }
}
