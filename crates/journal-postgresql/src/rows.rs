//! The contents of the rows of a store.

use placewright_journal::batch::LogEnd;
use placewright_journal::chunks::ChunkTotals;
use tokio_postgres::Row;

use crate::failure::{Cause, Failure};
use crate::session::Session;

/// PostgreSQL's integers are signed; sequences and sizes never reach the sign bit.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The bytes of an id.
pub(crate) fn id_bytes(id: u128) -> [u8; 16] {
    id.to_be_bytes()
}

/// The row of the table `head`, against which every append is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The end of the log.
    pub(crate) end: LogEnd,
    /// The id of the last batch, by which a writer recognises a batch of its own.
    pub(crate) batch_id: Vec<u8>,
    /// The last entry that the writer of this row knew to be durable.
    pub(crate) acknowledged: u64,
    /// The address of the store that replaces this one, if this one is sealed.
    pub(crate) moved_to: Option<String>,
}

/// The data that one read of a store's head returns.
#[derive(Clone, Debug)]
pub(crate) struct StoreState {
    pub(crate) format: u32,
    pub(crate) head: Head,
    /// The end of the trimmed entries.
    pub(crate) trimmed: LogEnd,
    /// The last entry and the checksum of the last batch that begins at the requested entry or before it; `None` if no
    /// batch does.
    pub(crate) batch: Option<(u64, u32)>,
}

/// A batch without its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchHeader {
    pub(crate) first: u64,
    /// The end of the batch, with its own checksum.
    pub(crate) end: LogEnd,
    /// The checksum of the batch before.
    pub(crate) previous: u32,
}

/// A snapshot that is finished, as its row has it.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) sequence: u64,
    /// The id that all chunks of the snapshot have.
    pub(crate) attempt: Vec<u8>,
    pub(crate) totals: ChunkTotals,
}

impl Session {
    /// A number that is not negative.
    pub(crate) fn uint(&self, row: &Row, column: usize) -> Result<u64, Failure> {
        let value: i64 = self.get(row, column)?;
        u64::try_from(value).map_err(|_| self.bad_number())
    }

    /// A checksum, which has 32 bits.
    pub(crate) fn crc(&self, row: &Row, column: usize) -> Result<u32, Failure> {
        let value: i64 = self.get(row, column)?;
        u32::try_from(value).map_err(|_| self.bad_number())
    }

    fn bad_number(&self) -> Failure {
        let reason = format!("{}: a number of the store is out of range", self.address);
        Failure::new(Cause::Damaged, reason)
    }

    /// The end in three columns, from `column` on.
    pub(crate) fn log_end(&self, row: &Row, column: usize) -> Result<LogEnd, Failure> {
        Ok(LogEnd {
            last: self.uint(row, column)?,
            checksum: self.crc(row, column + 1)?,
            record_bytes: self.uint(row, column + 2)?,
        })
    }

    /// Reads a row of [`READ_HEAD`](crate::schema::READ_HEAD).
    pub(crate) fn store_state(&self, row: &Row) -> Result<StoreState, Failure> {
        let format: i32 = self.get(row, 0)?;
        let batch_last: Option<i64> = self.get(row, 10)?;
        Ok(StoreState {
            format: u32::try_from(format).map_err(|_| self.bad_number())?,
            head: Head {
                end: self.log_end(row, 1)?,
                batch_id: self.get(row, 4)?,
                acknowledged: self.uint(row, 5)?,
                moved_to: self.get(row, 6)?,
            },
            trimmed: self.log_end(row, 7)?,
            batch: match batch_last {
                Some(_) => Some((self.uint(row, 10)?, self.crc(row, 11)?)),
                None => None,
            },
        })
    }

    /// Reads a row of [`READ_BATCHES`](crate::schema::READ_BATCHES): the batch without its records, and these as bytes.
    pub(crate) fn batch(&self, row: &Row) -> Result<(BatchHeader, Vec<u8>), Failure> {
        let header = BatchHeader {
            first: self.uint(row, 0)?,
            previous: self.crc(row, 2)?,
            end: LogEnd {
                last: self.uint(row, 1)?,
                checksum: self.crc(row, 3)?,
                record_bytes: self.uint(row, 4)?,
            },
        };
        Ok((header, self.get(row, 5)?))
    }

    /// Reads a row of the table `snapshot`.
    pub(crate) fn manifest(&self, row: &Row) -> Result<Manifest, Failure> {
        Ok(Manifest {
            sequence: self.uint(row, 0)?,
            attempt: self.get(row, 1)?,
            totals: ChunkTotals {
                chunks: self.uint(row, 2)?,
                bytes: self.uint(row, 3)?,
                checksum: self.crc(row, 4)?,
            },
        })
    }
}
