//! `placewright journal export`: the changes as JSON lines, in the form of the change stream.
//!
//! The lines contain the names of resource classes and traits, which are not in each entry, but only in a loaded state.
//! So this process loads the state, and asks a service in the same process for its change stream.

use std::io::{self, BufWriter, Write};

use anyhow::{Context as _, bail};
use http_body_util::BodyExt as _;
use placewright_control::ControlMachine;
use placewright_engine::{Engine, Options};
use placewright_http::Body;
use placewright_journal::{Journal as _, SqliteJournal};
use placewright_roles::in_process;

/// Prints the entries from `from` to `to`, as far as they exist. Without `from` the output begins with the first
/// entry that is held.
///
/// # Errors
///
/// The store cannot be read, `from` is no longer held, or standard output cannot be written.
pub(super) fn run(mut journal: SqliteJournal, from: Option<u64>, to: u64) -> anyhow::Result<()> {
    let first_held = journal.first_held()?;
    let from = from.unwrap_or(first_held);
    if from < first_held {
        bail!("entry {from} is no longer held: the first held entry is {first_held}");
    }
    // The store is only read, so no snapshot is written to it.
    let options = Options {
        snapshot_entries: u64::MAX,
        snapshot_bytes: u64::MAX,
        ..Options::default()
    };
    let engine = Engine::<ControlMachine>::open(journal, options, ())?;
    let last = to.min(engine.durable_sequence());
    if from > last {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let service = in_process::service(engine)?;
    let result = runtime.block_on(async {
        let uri = format!("/placewright/v1/changes?after={}", from - 1);
        let response = in_process::get(&service, &uri).await?;
        print_until(response.into_body(), last).await
    });
    match result {
        // The reader of the lines (such as `head`) may stop early.
        Err(error) if is_broken_pipe(&error) => Ok(()),
        result => result,
    }
}

/// Prints the data of each event of a stream of server-sent events, up to the event with the number `last`.
async fn print_until(mut stream: Body, last: u64) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut received = Vec::new();
    let mut sequence = 0;
    while let Some(frame) = stream.frame().await {
        received.extend_from_slice(&frame?.into_data().unwrap_or_default());
        let mut start = 0;
        while let Some(length) = received[start..].iter().position(|byte| *byte == b'\n') {
            let line = &received[start..start + length];
            start += length + 1;
            if let Some(id) = line.strip_prefix(b"id: ") {
                sequence = std::str::from_utf8(id)?
                    .parse()
                    .context("an event's number")?;
            } else if line.starts_with(b"event: error") {
                bail!("the journal cannot be read after entry {sequence}");
            } else if let Some(data) = line.strip_prefix(b"data: ") {
                out.write_all(data)?;
                out.write_all(b"\n")?;
                if sequence >= last {
                    return Ok(out.flush()?);
                }
            }
        }
        received.drain(..start);
    }
    bail!("the journal ended after entry {sequence}, before entry {last}")
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
