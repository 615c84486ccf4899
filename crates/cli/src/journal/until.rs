//! The option `--until`: the entry or the time up to which a backup is restored.

use jiff::Timestamp;
use placewright_journal::backup::{BackupBatch, BackupContents};

use super::bad_argument::BadArgument;
use super::time;

/// The moment to restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// The state after the entry with this number.
    Sequence(u64),
    /// Everything that was acknowledged before this time, and nothing that was requested after it. In
    /// microseconds since 1970.
    Time(i64),
}

/// Reads an argument of `--until`.
pub(super) fn parse(text: &str) -> Result<Until, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let sequence = text.parse();
        return sequence.map(Until::Sequence).map_err(|_| {
            "the number of an entry, such as 120000, or a time in RFC 3339, such as 2026-11-22T14:05:00Z"
                .to_owned()
        });
    }
    let until_time: Timestamp = text.parse().map_err(|_| {
        "neither the number of an entry, such as 120000, nor a time in RFC 3339 with its offset, such as \
         2026-11-22T14:05:00Z or 2026-11-22T15:05:00+01:00"
            .to_owned()
    })?;
    Ok(Until::Time(until_time.as_microsecond()))
}

/// Finds the last entry to restore, from the batches of a backup in order. All times are in microseconds since 1970.
#[derive(Debug, Default)]
pub(super) struct RestorePoint {
    until: Option<Until>,
    /// The last entry of the batches before the first one that is later than `until`.
    last: Option<u64>,
    /// When the last entry to restore was appended. It is set for [`Until::Sequence`], too, where `last` stays `None`.
    last_at: Option<i64>,
    /// The first and the last entry of the batches after `last` that have no time.
    untimed: Option<(u64, u64)>,
    /// The first entry of the first batch that is later than `until`, and when it was appended.
    later: Option<(u64, i64)>,
    /// The last entry of a batch that comes after the batch of `later`, though its time is not later than `until`.
    /// There is such a batch only if the time of day was set back.
    last_after_set_back: Option<u64>,
}

impl RestorePoint {
    pub(super) fn new(until: Option<Until>) -> Self {
        Self {
            until,
            ..Self::default()
        }
    }

    pub(super) fn add_batch(&mut self, batch: BackupBatch) {
        let until_time = match self.until {
            None => i64::MAX,
            Some(Until::Sequence(sequence)) => {
                if batch.first <= sequence {
                    self.last_at = batch.appended_at;
                }
                return;
            }
            Some(Until::Time(until_time)) => until_time,
        };
        match (self.later, batch.appended_at) {
            (Some(_), appended_at) => {
                if appended_at.is_some_and(|appended_at| appended_at <= until_time) {
                    self.last_after_set_back = Some(batch.last);
                }
            }
            (None, Some(appended_at)) if appended_at > until_time => {
                self.later = Some((batch.first, appended_at));
            }
            // An earlier release wrote the batch without a time. Its time lies between those of its neighbours, so it
            // is restored if the next batch with a time is restored, too. Otherwise nobody knows. Without `--until` all
            // batches are restored, and the time does not matter.
            (None, None) if self.until.is_some() => {
                let first = self.untimed.map_or(batch.first, |(first, _)| first);
                self.untimed = Some((first, batch.last));
            }
            (None, appended_at) => {
                self.last = Some(batch.last);
                self.last_at = appended_at;
                self.untimed = None;
            }
        }
    }

    /// The last entry to restore, and when it was appended, if that is known.
    ///
    /// # Errors
    /// The backup does not have the state of that moment, or does not say which entry it is.
    pub(super) fn find(&self, backup: &BackupContents) -> Result<(u64, Option<i64>), BadArgument> {
        let BackupContents { first, end, .. } = *backup;
        match self.until {
            None => Ok((end, self.last_at.or(backup.first_at))),
            Some(Until::Sequence(sequence)) if sequence < first || sequence > end => {
                Err(BadArgument(format!(
                    "--until {sequence}: the backup reaches from entry {first} to entry {end}"
                )))
            }
            Some(Until::Sequence(sequence)) if sequence == first => Ok((sequence, backup.first_at)),
            Some(Until::Sequence(sequence)) => Ok((sequence, self.last_at)),
            Some(Until::Time(until_time)) => self.find_by_time(until_time, backup),
        }
    }

    fn find_by_time(
        &self,
        until_time: i64,
        backup: &BackupContents,
    ) -> Result<(u64, Option<i64>), BadArgument> {
        let until = time::text(until_time);
        if until_time > backup.made_at {
            return Err(BadArgument(format!(
                "--until {until}: the backup was made before, at {}",
                time::text(backup.made_at)
            )));
        }
        if let Some((first, last)) = self.untimed {
            return Err(BadArgument(format!(
                "--until {until}: entries {first} to {last} were written by a release that did not note \
                 times; name an entry instead"
            )));
        }
        if let Some(last) = self.last {
            return Ok((last, self.last_at));
        }
        match backup.first_at {
            Some(first_at) if first_at <= until_time => Ok((backup.first, Some(first_at))),
            _ => {
                let from = self
                    .later
                    .map(|(_, appended_at)| appended_at)
                    .or(backup.first_at);
                Err(BadArgument(format!(
                    "--until {until}: the backup does not reach back to it{}",
                    from.map_or_else(String::new, |from| format!(", but to {}", time::text(from)))
                )))
            }
        }
    }

    /// A warning that the time of day was set back around the restore point.
    pub(super) fn warning(&self) -> Option<String> {
        let (later, appended_at) = self.later?;
        let last_after_set_back = self.last_after_set_back?;
        Some(format!(
            "the clock was set back after {}: entries between {later} and {last_after_set_back} may be of before, too, and are \
             left out; name an entry if they are wanted",
            time::text(appended_at)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKUP: BackupContents = BackupContents {
        made_at: 1000,
        first: 10,
        first_at: Some(100),
        end: 40,
        files: Vec::new(),
        bytes: 0,
    };

    fn restore_point(until: Until, times: [Option<i64>; 3]) -> RestorePoint {
        let mut restore_point = RestorePoint::new(Some(until));
        for (first, appended_at) in [11, 21, 31].into_iter().zip(times) {
            restore_point.add_batch(BackupBatch {
                first,
                last: first + 9,
                appended_at,
            });
        }
        restore_point
    }

    fn restored_entry(time: i64, times: [Option<i64>; 3]) -> Result<u64, String> {
        let found = restore_point(Until::Time(time), times).find(&BACKUP);
        found.map(|(last, _)| last).map_err(|error| error.0)
    }

    #[test]
    fn a_time_restores_up_to_the_first_batch_that_is_later() {
        let times = [Some(200), Some(300), Some(400)];
        for (time, last) in [
            (100, 10),
            (199, 10),
            (200, 20),
            (299, 20),
            (300, 30),
            (400, 40),
            (1000, 40),
        ] {
            assert_eq!(restored_entry(time, times), Ok(last), "{time}");
        }
        assert!(
            restored_entry(99, times)
                .unwrap_err()
                .contains("does not reach back")
        );
        assert!(
            restored_entry(1001, times)
                .unwrap_err()
                .contains("made before")
        );
    }

    #[test]
    fn entries_without_a_time_are_refused() {
        let refused = restored_entry(250, [None, None, Some(400)]).unwrap_err();
        assert!(refused.contains("entries 11 to 30"), "{refused}");
        assert_eq!(restored_entry(400, [None, None, Some(400)]), Ok(40));
        let refused = restored_entry(250, [Some(200), None, Some(400)]).unwrap_err();
        assert!(refused.contains("entries 21 to 30"), "{refused}");
        assert_eq!(restored_entry(199, [Some(300), None, Some(400)]), Ok(10));
        assert!(restored_entry(500, [None, None, None]).is_err());
    }

    #[test]
    fn a_time_that_was_set_back_gives_a_warning() {
        let set_back = restore_point(Until::Time(250), [Some(200), Some(300), Some(240)]);
        assert_eq!(set_back.find(&BACKUP).unwrap().0, 20);
        assert!(
            set_back
                .warning()
                .unwrap()
                .contains("entries between 21 and 40")
        );
        let not_set_back = restore_point(Until::Time(250), [Some(200), Some(300), Some(310)]);
        assert_eq!(not_set_back.warning(), None);
    }

    #[test]
    fn sequences_within_the_backup_are_accepted() {
        let times = [Some(200), None, Some(400)];
        for sequence in [10, 11, 25, 40] {
            let found = restore_point(Until::Sequence(sequence), times).find(&BACKUP);
            assert_eq!(found.unwrap().0, sequence);
        }
        for sequence in [0, 9, 41] {
            let found = restore_point(Until::Sequence(sequence), times).find(&BACKUP);
            assert!(found.unwrap_err().0.contains("from entry 10 to entry 40"));
        }
    }

    #[test]
    fn arguments_are_a_number_or_a_time_with_its_offset() {
        assert_eq!(parse("120000"), Ok(Until::Sequence(120_000)));
        let noon = Ok(Until::Time(1_795_348_800_000_000));
        assert_eq!(parse("2026-11-22T12:00:00Z"), noon);
        assert_eq!(parse("2026-11-22T13:00:00+01:00"), noon);
        for wrong in [
            "",
            "x",
            "-1",
            "2026-11-22",
            "2026-11-22T12:00:00",
            "99999999999999999999",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
