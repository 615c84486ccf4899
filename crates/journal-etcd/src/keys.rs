//! The keys of a store, below its prefix.
//!
//! ```text
//! head                             where the log ends (see `rows.rs`)
//! trim                             where the trimmed entries end
//! b/<first>                        a batch; <first> is its first entry
//! q/<first>/<number>               a part of a large batch, written in the transaction of `b/<first>`
//! p/<first>/<batch id>/<number>    a part of a batch that is too large for a transaction, uploaded before `b/<first>`
//! s/<sequence>                     a finished snapshot
//! c/<sequence>/<attempt>/<number>  a chunk of a snapshot; <attempt> is a number of its writer
//! ```
//!
//! Numbers have a fixed count of hexadecimal digits, so that keys are ordered as their numbers are.

use prost::bytes::Bytes;

/// Makes the keys of one store.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            prefix: format!("{prefix}/"),
        }
    }

    fn key(&self, rest: std::fmt::Arguments<'_>) -> Bytes {
        format!("{}{rest}", self.prefix).into()
    }

    /// The first key, and the key after the last one.
    pub(crate) fn all(&self) -> (Bytes, Bytes) {
        // '0' follows '/', with which the prefix ends.
        let until = format!("{}0", self.prefix.trim_end_matches('/'));
        (self.prefix.clone().into(), until.into())
    }

    pub(crate) fn head(&self) -> Bytes {
        self.key(format_args!("head"))
    }

    pub(crate) fn trim(&self) -> Bytes {
        self.key(format_args!("trim"))
    }

    /// The key of the batch that begins with the entry `first`; also the end of the range of the batches before it.
    pub(crate) fn batch(&self, first: u64) -> Bytes {
        self.key(format_args!("b/{first:016x}"))
    }

    /// The key after those of all batches.
    pub(crate) fn batches_end(&self) -> Bytes {
        self.key(format_args!("b0"))
    }

    pub(crate) fn part(&self, first: u64, number: usize) -> Bytes {
        self.key(format_args!("q/{first:016x}/{number:08x}"))
    }

    /// The beginning of the parts of a batch; also the end of the range of the parts before them.
    pub(crate) fn parts(&self, first: u64) -> Bytes {
        self.key(format_args!("q/{first:016x}/"))
    }

    /// The key after those of the parts of a batch.
    pub(crate) fn parts_end(&self, first: u64) -> Bytes {
        self.key(format_args!("q/{first:016x}0"))
    }

    pub(crate) fn uploaded_part(&self, first: u64, id: u128, number: usize) -> Bytes {
        self.key(format_args!("p/{first:016x}/{id:032x}/{number:08x}"))
    }

    /// The beginning of the uploaded parts of the batches at `first`; also the end of the range of the uploaded parts
    /// before them.
    pub(crate) fn uploads(&self, first: u64) -> Bytes {
        self.key(format_args!("p/{first:016x}/"))
    }

    /// The key after those of all uploaded parts.
    pub(crate) fn uploads_end(&self) -> Bytes {
        self.key(format_args!("p0"))
    }

    /// The first key of the uploaded parts of a batch, and the key after them.
    pub(crate) fn upload(&self, first: u64, id: u128) -> (Bytes, Bytes) {
        (
            self.key(format_args!("p/{first:016x}/{id:032x}/")),
            self.key(format_args!("p/{first:016x}/{id:032x}0")),
        )
    }

    pub(crate) fn snapshot(&self, sequence: u64) -> Bytes {
        self.key(format_args!("s/{sequence:016x}"))
    }

    /// The first key of a snapshot, and the key after those of all snapshots.
    pub(crate) fn snapshots(&self) -> (Bytes, Bytes) {
        (self.key(format_args!("s/")), self.key(format_args!("s0")))
    }

    pub(crate) fn chunk(&self, sequence: u64, attempt: u128, number: u64) -> Bytes {
        self.key(format_args!(
            "c/{sequence:016x}/{attempt:032x}/{number:08x}"
        ))
    }

    /// The first key of the chunks of one writer, and the key after them.
    pub(crate) fn attempt(&self, sequence: u64, attempt: u128) -> (Bytes, Bytes) {
        (
            self.key(format_args!("c/{sequence:016x}/{attempt:032x}/")),
            self.key(format_args!("c/{sequence:016x}/{attempt:032x}0")),
        )
    }

    /// The first key of a chunk, and the key after those of all chunks.
    pub(crate) fn chunks(&self) -> (Bytes, Bytes) {
        (self.key(format_args!("c/")), self.key(format_args!("c0")))
    }

    /// The number after the kind in a key: the first entry of a batch, or the sequence of a snapshot. `None` if the key
    /// has no number there.
    pub(crate) fn number(&self, key: &[u8]) -> Option<u64> {
        let digits = key.get(self.prefix.len() + 2..)?.get(..16)?;
        u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }

    /// The id of the batch or the writer in the key of a part or chunk, after its number. `None` if the key has no id
    /// there.
    pub(crate) fn id(&self, key: &[u8]) -> Option<u128> {
        let digits = key.get(self.prefix.len() + 19..)?.get(..32)?;
        u128::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_by_their_numbers_and_parsed_to_them() {
        let keys = Keys::new("a/b");
        let (from, until) = keys.all();
        let listed = [
            from,
            keys.batch(0),
            keys.batch(9),
            keys.batch(10),
            keys.batch(u64::MAX),
            keys.batches_end(),
            keys.chunk(3, 5, 1),
            keys.head(),
            keys.uploads(2),
            keys.uploaded_part(2, 7, 0),
            keys.upload(2, 7).1,
            keys.uploads(3),
            keys.uploads_end(),
            keys.parts(5),
            keys.part(5, 16),
            keys.parts_end(5),
            keys.parts(6),
            keys.snapshots().0,
            keys.snapshot(1),
            keys.snapshots().1,
            keys.trim(),
            until,
        ];
        assert!(listed.is_sorted(), "{listed:?}");
        assert_eq!(keys.number(&keys.batch(77)), Some(77));
        assert_eq!(keys.number(&keys.chunk(3, 5, 1)), Some(3));
        assert_eq!(keys.id(&keys.chunk(3, 5, 1)), Some(5));
        assert_eq!(keys.id(&keys.uploaded_part(2, 7, 0)), Some(7));
        assert_eq!(keys.number(&keys.head()), None);
    }
}
