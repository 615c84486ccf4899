//! States of the past: those that the journal can still give, rebuilt beside the running engine.
//!
//! Nothing here touches the engine's own state. A rebuild loads the newest snapshot that is not later than the wanted
//! entry, and applies the entries after it, on the caller's thread and with a journal handle of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use placewright_journal::{Journal, JournalError};
use tokio::sync::oneshot;

use crate::error::RecoverError;
use crate::history::HistoryRequest;
use crate::recover::{Recovered, load_newest, replay};
use crate::throttle::Throttle;
use crate::{Engine, Machine};

/// How much one rebuild may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PastLimits {
    /// The most entries that are applied.
    pub entries_max: u64,
    /// The longest time that a rebuild takes.
    pub time_max: Duration,
    /// The share of one core that a rebuild may take, from above 0 to 1.
    pub duty: f64,
}

/// The entries after which the state can still be rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastRange {
    /// The first of them.
    pub oldest: u64,
    /// The last of them, which is the last durable entry.
    pub newest: u64,
}

/// Why a state of the past cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// The entries up to the wanted one were trimmed.
    #[error("entry {asked} is no longer held: the journal has the states after the entries {} to {}", .held.oldest, .held.newest)]
    Trimmed {
        /// The entry after which the state is wanted.
        asked: u64,
        /// The entries after which it can be had.
        held: PastRange,
    },
    /// The wanted entry does not exist yet.
    #[error("entry {asked} does not exist: the journal has the states after the entries {} to {}", .held.oldest, .held.newest)]
    Ahead {
        /// The entry after which the state is wanted.
        asked: u64,
        /// The entries after which it can be had.
        held: PastRange,
    },
    /// Too many entries lie between the snapshot and the wanted entry.
    #[error("{entries} entries would have to be applied; {entries_max} are the most")]
    TooMany {
        /// The number of entries to apply.
        entries: u64,
        /// The limit, which is [`PastLimits::entries_max`].
        entries_max: u64,
    },
    /// The rebuild took too long; see [`PastLimits::time_max`].
    #[error("rebuilding the state took longer than {} s", .0.as_secs())]
    TimeUp(Duration),
    /// The engine shuts down.
    #[error("shutting down")]
    Stopped,
    /// The journal cannot be read.
    #[error("the store is unavailable")]
    Journal(#[from] JournalError),
    /// The state cannot be rebuilt.
    #[error("the state cannot be rebuilt")]
    Recover(#[source] RecoverError),
}

/// A state of the past.
#[derive(Debug)]
pub struct PastState<M> {
    recovered: Recovered<M>,
    /// How often the engine had accepted another end of the journal when this was rebuilt; see `lost_entries.rs`.
    end_acceptances: u64,
}

impl<M> PastState<M> {
    /// The state after the entry [`Self::sequence`].
    pub fn machine(&self) -> &M {
        &self.recovered.machine
    }

    /// The last entry that the state has.
    pub fn sequence(&self) -> u64 {
        self.recovered.sequence
    }
}

/// A handle on the journal of a running engine, from which states of the past are rebuilt.
pub struct Past {
    journal: Box<dyn Journal>,
    /// The last durable entry when this was opened.
    durable: u64,
    /// How often the engine had accepted another end of the journal when this was opened.
    end_acceptances: u64,
    /// Set when the engine shuts down.
    stop: Arc<AtomicBool>,
}

impl<M: Machine> Engine<M> {
    /// Opens a handle on the journal, for rebuilding states of the past. States up to the entry that is the last
    /// durable one now can be rebuilt with it.
    pub fn open_past(&self) -> impl Future<Output = Result<Past, PastError>> + Send + use<M> {
        let shared = Arc::clone(self.shared());
        let stop = self.stop_flag();
        let (reply, answer) = oneshot::channel();
        let sent = shared.history_requests.send(HistoryRequest::Open(reply));
        async move {
            let stop = stop.ok_or(PastError::Stopped)?;
            sent.map_err(|_| PastError::Stopped)?;
            let end_acceptances = shared.lost.end_acceptances.load(Ordering::Acquire);
            let durable = shared.durable();
            let journal = answer.await.map_err(|_| PastError::Stopped)??;
            Ok(Past {
                journal,
                durable,
                end_acceptances,
                stop,
            })
        }
    }
}

impl Past {
    /// The entries after which the state can be rebuilt. Blocks.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn range(&mut self) -> Result<PastRange, PastError> {
        let newest = self.durable;
        let first_held = self.journal.first_held()?;
        let oldest = match first_held {
            // All entries are held, so no snapshot is needed.
            1 => Some(1),
            _ => {
                let snapshots = self.journal.snapshots()?;
                let sequences = snapshots.iter().map(|info| info.sequence);
                sequences.filter(|at| at + 1 >= first_held).min()
            }
        };
        Ok(PastRange {
            oldest: oldest.unwrap_or(newest).min(newest),
            newest,
        })
    }

    /// When an entry was appended, in microseconds since 1970, if the journal knows it. Blocks.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn appended_at(&mut self, sequence: u64) -> Result<Option<i64>, PastError> {
        Ok(self.journal.appended_at(sequence)?)
    }

    /// Rebuilds the state after an entry. Blocks, as long as the limits allow. `earlier` is a state that was rebuilt
    /// before. The rebuild begins with it if it is not after the entry and not before the nearest snapshot, and if the
    /// journal has not lost entries since. Otherwise `earlier` is dropped first, so that no two rebuilt states are in
    /// memory at once.
    ///
    /// # Errors
    /// See [`PastError`].
    pub fn rebuild<M: Machine>(
        &mut self,
        sequence: u64,
        earlier: Option<PastState<M>>,
        limits: &PastLimits,
    ) -> Result<PastState<M>, PastError> {
        self.check_held(sequence)?;
        let rebuilt = self.rebuild_held(sequence, earlier, limits);
        if matches!(rebuilt, Err(PastError::Recover(_) | PastError::Journal(_))) {
            // The engine may have trimmed the journal meanwhile.
            self.check_held(sequence)?;
        }
        rebuilt
    }

    /// Checks that the state after an entry can be rebuilt, as far as [`Self::range`] tells. Blocks.
    ///
    /// # Errors
    /// [`PastError::Trimmed`], [`PastError::Ahead`], or the journal cannot be read.
    pub fn check_held(&mut self, sequence: u64) -> Result<(), PastError> {
        let (asked, held) = (sequence, self.range()?);
        if asked < held.oldest {
            return Err(PastError::Trimmed { asked, held });
        }
        if asked > held.newest {
            return Err(PastError::Ahead { asked, held });
        }
        Ok(())
    }

    /// Rebuilds a state that [`Self::check_held`] has found to be held.
    fn rebuild_held<M: Machine>(
        &mut self,
        sequence: u64,
        earlier: Option<PastState<M>>,
        limits: &PastLimits,
    ) -> Result<PastState<M>, PastError> {
        let started = Instant::now();
        let until = started + limits.time_max;
        let mut throttle = Throttle::new(Arc::clone(&self.stop), limits.duty).with_end(until);
        let snapshots = self.journal.snapshots()?;
        let sequences = snapshots.iter().map(|info| info.sequence);
        let snapshot = sequences.filter(|at| *at <= sequence).max().unwrap_or(0);
        let end_acceptances = self.end_acceptances;
        let earlier = earlier.filter(|state| {
            state.end_acceptances == end_acceptances
                && (snapshot..=sequence).contains(&state.sequence())
        });
        let check_entries = |from: u64| {
            let (entries, entries_max) = (sequence.saturating_sub(from), limits.entries_max);
            match entries > entries_max {
                true => Err(PastError::TooMany {
                    entries,
                    entries_max,
                }),
                false => Ok(()),
            }
        };
        let stop = Arc::clone(&self.stop);
        let to_past_error = |error| match error {
            RecoverError::Stopped if stop.load(Ordering::Relaxed) => PastError::Stopped,
            RecoverError::Stopped => PastError::TimeUp(limits.time_max),
            error => PastError::Recover(error),
        };
        check_entries(earlier.as_ref().map_or(snapshot, PastState::sequence))?;
        let journal = self.journal.as_mut();
        // `&()` is an observer that ignores all events.
        let mut recovered = match earlier {
            Some(state) => state.recovered,
            None => load_newest(journal, sequence, &(), &mut throttle).map_err(&to_past_error)?,
        };
        // Checked again, because an older snapshot is loaded if the newest one is damaged.
        check_entries(recovered.sequence)?;
        replay(journal, &mut recovered, sequence, &(), &mut throttle).map_err(&to_past_error)?;
        Ok(PastState {
            recovered,
            end_acceptances,
        })
    }
}
