//! The tables of a store, and the statements on them.
//!
//! | table | content |
//! | --- | --- |
//! | `head` | one row: the end of the log, and the id of the last batch; every append is compared with it |
//! | `batch` | a row for each append: its entries, its place in the chain, its records |
//! | `trim` | one row: the end of the trimmed entries |
//! | `snapshot` | a row for each finished snapshot |
//! | `chunk` | the content of snapshots, in pieces; an attempt is all chunks that one writer writes |
//!
//! Names are written without their schema, because each session sets its search path.

/// The version of the tables, which is in `head`.
pub(crate) const FORMAT: u32 = 1;

/// Creates the tables, if they are not there. It is one transaction. The number of its lock is arbitrary.
///
/// Records are not compressed, because they are many small ones with few repetitions. Most of each page of the head is
/// left free for the next versions of its row, so that an append need not touch an index. Freed space at the end of a
/// table is kept for later rows, because returning it to the file system would lock appends out.
pub(crate) const CREATE: &str = "
    SELECT pg_advisory_xact_lock(7955916711213392739);
    CREATE TABLE IF NOT EXISTS head (
        one smallint PRIMARY KEY CHECK (one = 1),
        format integer NOT NULL,
        last bigint NOT NULL,
        checksum bigint NOT NULL,
        record_bytes bigint NOT NULL,
        batch_id bytea NOT NULL,
        acknowledged bigint NOT NULL,
        moved_to text
    ) WITH (fillfactor = 10, vacuum_truncate = off);
    CREATE TABLE IF NOT EXISTS batch (
        first bigint PRIMARY KEY,
        last bigint NOT NULL,
        previous bigint NOT NULL,
        checksum bigint NOT NULL,
        record_bytes bigint NOT NULL,
        id bytea NOT NULL,
        appended_at bigint NOT NULL,
        records bytea NOT NULL
    ) WITH (vacuum_truncate = off);
    ALTER TABLE batch ALTER COLUMN records SET STORAGE EXTERNAL;
    CREATE TABLE IF NOT EXISTS trim (
        one smallint PRIMARY KEY CHECK (one = 1),
        last bigint NOT NULL,
        checksum bigint NOT NULL,
        record_bytes bigint NOT NULL
    );
    CREATE TABLE IF NOT EXISTS snapshot (
        sequence bigint PRIMARY KEY,
        attempt bytea NOT NULL,
        chunks bigint NOT NULL,
        bytes bigint NOT NULL,
        checksum bigint NOT NULL
    );
    CREATE TABLE IF NOT EXISTS chunk (
        sequence bigint NOT NULL,
        attempt bytea NOT NULL,
        number bigint NOT NULL,
        checksum bigint NOT NULL,
        content bytea NOT NULL,
        PRIMARY KEY (sequence, attempt, number)
    ) WITH (vacuum_truncate = off);
    ALTER TABLE chunk ALTER COLUMN content SET STORAGE EXTERNAL;
    INSERT INTO head VALUES (1, 1, 0, 0, 0, decode('00', 'hex'), 0, NULL) ON CONFLICT DO NOTHING;
    INSERT INTO trim VALUES (1, 0, 0, 0) ON CONFLICT DO NOTHING";

/// Whether there is a schema, how many tables it has, and whether one of them is a head.
pub(crate) const FIND_SCHEMA: &str = "
    SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
        (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')),
        EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = $1 AND c.relname = 'head' AND c.relkind = 'r')";

/// The head, the end of the trimmed entries, and the batch that holds the entry $1 or is the last one before it.
pub(crate) const READ_HEAD: &str = "
    SELECT h.format, h.last, h.checksum, h.record_bytes, h.batch_id, h.acknowledged, h.moved_to,
        t.last, t.checksum, t.record_bytes, b.last, b.checksum
    FROM head h CROSS JOIN trim t LEFT JOIN LATERAL
        (SELECT last, checksum FROM batch WHERE first <= $1 ORDER BY first DESC LIMIT 1) b ON true";

/// Reads the last entry, to find out whether there are new ones.
pub(crate) const READ_LAST: &str = "SELECT last FROM head";

/// Writes a message to the server's log and nothing else. When that write is acknowledged, every commit that was
/// visible before it is on the standbys. The message touches no table, so concurrent ones do not wait for each other.
pub(crate) const CONFIRM: &str = "
    SELECT pg_logical_emit_message(true, 'placewright', '')::text,
        current_setting('synchronous_standby_names')";

/// Appends a batch, if the head is the one that its writer knows, and the server has a synchronous standby, or need not
/// have one.
pub(crate) const APPEND: &str = "
    WITH moved AS (
        UPDATE head SET last = $2, checksum = $4, record_bytes = $5, batch_id = $6, acknowledged = $9
        WHERE last = $1::bigint - 1 AND batch_id = $10 AND moved_to IS NULL
            AND ($11::boolean OR current_setting('synchronous_standby_names') <> '')
        RETURNING 1
    ), inserted AS (
        INSERT INTO batch (first, last, previous, checksum, record_bytes, id, appended_at, records)
        SELECT $1, $2, $3::bigint, $4, $5, $6, $7::bigint, $8::bytea FROM moved
    )
    SELECT EXISTS (SELECT FROM moved), current_setting('synchronous_standby_names')";

/// Records that the entries up to $1 were acknowledged. The commit does not wait for a disk.
pub(crate) const ACKNOWLEDGE: &str = "
    UPDATE head SET acknowledged = $1 WHERE last = $1 AND acknowledged < $1
        AND set_config('synchronous_commit', 'off', true) = 'off'";

/// Seals the store, if the head is the one that its writer knows.
pub(crate) const SEAL: &str = "
    UPDATE head SET moved_to = $3 WHERE last = $1 AND batch_id = $2 AND moved_to IS NULL";

/// Lets an empty store begin after the entry $1.
pub(crate) const BEGIN: &str = "
    WITH begun AS (UPDATE head SET last = $1 WHERE last = 0 RETURNING last)
    UPDATE trim SET last = begun.last FROM begun WHERE trim.last = 0";

/// The id of a batch, and the end of the trimmed entries.
pub(crate) const READ_BATCH_ID: &str =
    "SELECT (SELECT id FROM batch WHERE first = $1), last FROM trim";

/// Batches whose first entry is from $1 to $2, at most $3.
pub(crate) const READ_BATCHES: &str = "
    SELECT first, last, previous, checksum, record_bytes, records FROM batch
    WHERE first >= $1 AND first <= $2 ORDER BY first LIMIT $3";

/// The first entry of the last batch that begins at $1 or before.
pub(crate) const FIND_BATCH: &str =
    "SELECT first FROM batch WHERE first <= $1 ORDER BY first DESC LIMIT 1";

/// The end of the last batch that starts at $1 or before, and when it was appended.
pub(crate) const FIND_TIME: &str =
    "SELECT last, appended_at FROM batch WHERE first <= $1 ORDER BY first DESC LIMIT 1";

/// The end of the last batch that begins before $1.
pub(crate) const READ_END_BEFORE: &str = "
    SELECT last, checksum, record_bytes FROM batch WHERE first < $1 ORDER BY first DESC LIMIT 1";

/// Of the oldest $2 batches, removes those that end before $1, and moves the end of the trimmed entries to the end of
/// the last removed batch.
pub(crate) const TRIM: &str = "
    WITH oldest AS (SELECT first, last, checksum, record_bytes FROM batch ORDER BY first LIMIT $2),
    newest AS (SELECT * FROM oldest WHERE last < $1 ORDER BY first DESC LIMIT 1),
    moved AS (
        UPDATE trim SET last = n.last, checksum = n.checksum, record_bytes = n.record_bytes
        FROM newest n WHERE trim.last < n.last RETURNING n.first
    )
    DELETE FROM batch USING moved WHERE batch.first <= moved.first";

/// The values from which the statistics of a store are computed: the ends of the log and of the trimmed entries, the
/// number of batches, and the size of their table on disk.
pub(crate) const STATS: &str = "
    SELECT h.last, h.record_bytes, t.last, t.record_bytes, (SELECT count(*) FROM batch),
        pg_total_relation_size('batch'::regclass)
    FROM head h CROSS JOIN trim t";

/// The first entry of the first batch that does not follow the batch before it, if there is such a batch.
pub(crate) const FIND_GAP: &str = "
    SELECT first FROM (SELECT first, last, lag(last) OVER (ORDER BY first) AS before FROM batch) ordered
    WHERE last < first OR first <> before + 1 ORDER BY first LIMIT 1";

/// The snapshots, the newest first.
pub(crate) const LIST_SNAPSHOTS: &str =
    "SELECT sequence, attempt, chunks, bytes, checksum FROM snapshot ORDER BY sequence DESC";

/// The snapshot at one entry, if there is one.
pub(crate) const FIND_SNAPSHOT: &str =
    "SELECT sequence, attempt, chunks, bytes, checksum FROM snapshot WHERE sequence = $1";

/// A snapshot that does not have all of its chunks.
pub(crate) const FIND_INCOMPLETE: &str = "
    SELECT s.sequence FROM snapshot s WHERE s.chunks <>
        (SELECT count(*) FROM chunk c WHERE c.sequence = s.sequence AND c.attempt = s.attempt)
    LIMIT 1";

/// Writes a chunk. May be repeated if it is not known whether the chunk was written.
pub(crate) const WRITE_CHUNK: &str = "
    INSERT INTO chunk (sequence, attempt, number, checksum, content) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT DO NOTHING";

/// Chunks of one attempt, from the number $3 on and before $4.
pub(crate) const READ_CHUNKS: &str = "
    SELECT number, checksum, content FROM chunk
    WHERE sequence = $1 AND attempt = $2 AND number >= $3 AND number < $4 ORDER BY number";

/// Keeps others from finishing and removing snapshots until the transaction ends. It does not keep anybody from
/// reading.
pub(crate) const LOCK_SNAPSHOTS: &str = "LOCK TABLE snapshot IN SHARE ROW EXCLUSIVE MODE";

/// Makes a snapshot visible, if its first chunk has not been removed.
pub(crate) const FINISH_SNAPSHOT: &str = "
    INSERT INTO snapshot (sequence, attempt, chunks, bytes, checksum)
    SELECT $1::bigint, $2::bytea, $3::bigint, $4::bigint, $5::bigint WHERE $3::bigint = 0 OR EXISTS
        (SELECT FROM chunk WHERE sequence = $1 AND attempt = $2 AND number = 0)
    ON CONFLICT (sequence) DO UPDATE SET attempt = excluded.attempt, chunks = excluded.chunks,
        bytes = excluded.bytes, checksum = excluded.checksum";

/// Removes all but the newest $1 snapshots.
pub(crate) const DROP_SNAPSHOTS: &str = "
    DELETE FROM snapshot WHERE sequence NOT IN
        (SELECT sequence FROM snapshot ORDER BY sequence DESC LIMIT $1)";

/// Removes at most $1 chunks that belong to no snapshot, except those that were written for a snapshot newer than all
/// others. The first chunk of an attempt is removed first: without it the attempt cannot be finished any more.
pub(crate) const DROP_CHUNKS: &str = "
    DELETE FROM chunk WHERE ctid = ANY (ARRAY(
        SELECT c.ctid FROM chunk c
        WHERE c.sequence <= (SELECT max(sequence) FROM snapshot) AND NOT EXISTS
            (SELECT FROM snapshot s WHERE s.sequence = c.sequence AND s.attempt = c.attempt)
        ORDER BY c.number LIMIT $1))";

/// Removes the chunks of one attempt, whose writer has ended without finishing the snapshot.
pub(crate) const DROP_ATTEMPT: &str = "DELETE FROM chunk WHERE sequence = $1 AND attempt = $2";
