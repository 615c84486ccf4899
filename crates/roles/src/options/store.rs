//! The options of the store of control.

use std::path::PathBuf;

use super::kinds::Number;
use super::spec::section;

section! {
    /// The store: where the journal is kept, and how often a snapshot of the state is made.
    store: StoreOptions {
        /// The store's directory, created when missing; one program at a time may use it. Not set means `placement` in
        /// systemd's `$STATE_DIRECTORY`, else in `placewright-data` in the working directory.
        path: Option<PathBuf> = "";
        /// The location of the journal, if it is not in `path`: `sqlite:DIRECTORY`,
        /// `etcd://HOST:PORT,HOST:PORT/PREFIX`, or `postgresql://HOST,HOST/DATABASE` (docs/operations.md). `path`
        /// then has only what belongs to this machine.
        url: Option<String> = "";
        /// Most bytes that the journal's file may grow to; -1 means as large as the disk allows. A write that would
        /// exceed this gets 503, reads go on.
        #[unit("bytes")]
        file_bytes_max: Number<-1, 9_223_372_036_854_775_807> = "-1";
        /// A snapshot of the state is made in the background after this many journal entries, or
        /// after `snapshot_bytes`. More often: a faster start. Less often: less writing.
        #[unit("entries")]
        snapshot_entries: Number<1, 9_223_372_036_854_775_807> = "1000000";
        /// A snapshot is made after this many bytes of journal entries, or after as many as the newest
        /// snapshot has, if these are more.
        #[unit("bytes")]
        snapshot_bytes: Number<4_096, 9_223_372_036_854_775_807> = "67108864";
        /// Snapshots kept, with all entries after the oldest of them, so that one damaged snapshot loses nothing.
        #[unit("snapshots")]
        snapshots_kept: Number<1, 1_000> = "2";
        /// How many of the newest entries readers of the change stream can always resume from.
        #[unit("entries")]
        retain_entries: Number<0, 9_223_372_036_854_775_807> = "100000";
        /// Memory for the newest entries, so that readers of the change stream seldom touch the disk. Cells use 16 MiB
        /// of it at most.
        #[unit("bytes")]
        recent_bytes: Number<0, 17_179_869_184> = "16777216";
        /// Most writes that may wait for their turn. A further one gets 503.
        #[unit("writes")]
        queue_commands_max: Number<1, 10_000_000> = "65536";
        /// Largest record that one write may make in the journal. A larger one gets 413 and changes nothing.
        #[unit("bytes")]
        record_bytes_max: Number<65_536, 536_870_912> = "16777216";
        /// Most writes in one append to the journal, so in one fsync.
        #[unit("writes")]
        batch_commands_max: Number<1, 1_000_000> = "4096";
    }
}
