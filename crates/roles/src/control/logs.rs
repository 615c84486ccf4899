//! The destination and the format of log lines.
//!
//! Lines are collected in memory and written by a thread of their own, many at a time, so that
//! neither a slow reader of the log nor a line for every request delays requests.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use placewright_tasks::Task;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::log_fields::LogFields;
use super::log_lines::LogLines;
use crate::config::ConfigErrors;
use crate::options::{LogFormat, LogOptions};

/// Makes all log lines from now on go to standard error: they are written by a thread of their own until the returned
/// [`Log`] is dropped, and then by the threads that log.
///
/// # Errors
///
/// The filter is not valid, or the system has no thread.
pub(crate) fn start(options: &LogOptions) -> anyhow::Result<Log> {
    let filter: Targets = options.filter.parse().map_err(|error| {
        ConfigErrors(vec![format!(
            "log.filter: {:?} is no filter ({error}); allowed: a level (error, warn, info, debug, \
             trace) and exceptions as in info,placewright_http=debug",
            options.filter
        )])
    })?;
    let log = Log::start(io::stderr())?;
    let queue = Arc::clone(&log.queue);
    let queue_at_panic = Arc::clone(&log.queue);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(most_verbose(&filter))
        .with_writer(move || LineWriter(Arc::clone(&queue)))
        .with_ansi(io::stderr().is_terminal());
    match options.format {
        LogFormat::Text => subscriber
            .fmt_fields(LogFields)
            .event_format(LogLines::default())
            .finish()
            .with(filter)
            .init(),
        LogFormat::Json => {
            let subscriber = subscriber.json().flatten_event(true);
            subscriber.finish().with(filter).init();
        }
    }
    placewright_tasks::install(move || queue_at_panic.flush());
    Ok(log)
}

/// The most verbose level that any part of the filter has. It bounds the subscriber, so events that are more verbose
/// cost only a comparison.
fn most_verbose(filter: &Targets) -> LevelFilter {
    let parts = filter.iter().map(|(_, level)| level);
    let levels = parts.chain(filter.default_level());
    levels.max().unwrap_or(LevelFilter::OFF)
}

/// The most bytes of lines that are queued.
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// While the queue is full, new lines are kept beside it, up to this many bytes; beyond that the oldest of them are
/// dropped and counted. So the last lines of a program are written even if the queue was full.
const NEWEST_BYTES_MAX: usize = 64 << 10;

/// The wait before the next attempt when the output accepts nothing.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Memory allocated in advance for lines, so that a server under load seldom waits for an allocation.
const INITIAL_BYTES: usize = 256 << 10;

/// How long lines are collected after a write, so that a server under load writes many at a time.
const BATCH_INTERVAL: Duration = Duration::from_millis(5);

/// How long a process whose task panicked waits for its last lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);
/// The interval at which that process checks whether the lines are written.
const FLUSH_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The thread that writes log lines. When this is dropped, the thread writes the queued lines and ends.
pub(crate) struct Log {
    queue: Arc<LogQueue>,
    thread: Option<JoinHandle<()>>,
}

/// The queue between the threads that log and the thread that writes.
struct LogQueue {
    queued: Mutex<QueuedLines>,
    wake: Condvar,
    /// The id of the thread that writes.
    writer: OnceLock<ThreadId>,
}

/// The lines that wait to be written.
struct QueuedLines {
    /// The queued lines, one after the other: at most [`QUEUE_BYTES_MAX`].
    bytes: Vec<u8>,
    /// The number of lines that were dropped after `bytes`.
    dropped: u64,
    /// The newest lines, which follow the dropped ones.
    newest: VecDeque<Vec<u8>>,
    /// The length of all lines in `newest` together.
    newest_bytes: usize,
    is_closed: bool,
    /// Whether lines that were taken from the queue are being written.
    is_writing: bool,
}

impl QueuedLines {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.newest.is_empty()
    }

    /// Queues a line. While the queue is full, only the newest lines are kept.
    fn push(&mut self, line: &[u8]) {
        if self.newest.is_empty() && self.bytes.len() + line.len() <= QUEUE_BYTES_MAX {
            self.bytes.extend_from_slice(line);
            return;
        }
        self.newest_bytes += line.len();
        self.newest.push_back(line.to_vec());
        // The newest line is kept, however long it is.
        while self.newest_bytes > NEWEST_BYTES_MAX && self.newest.len() > 1 {
            let oldest = self.newest.pop_front();
            self.newest_bytes -= oldest.map_or(0, |line| line.len());
            self.dropped += 1;
        }
    }
}

/// Writes everything, and waits for an output that accepts nothing at the moment (a non-blocking
/// terminal or pipe).
fn write_all(out: &mut impl io::Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(RETRY_INTERVAL);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl LogQueue {
    fn new() -> Self {
        Self {
            queued: Mutex::new(QueuedLines {
                bytes: Vec::with_capacity(INITIAL_BYTES),
                dropped: 0,
                newest: VecDeque::new(),
                newest_bytes: 0,
                is_closed: false,
                is_writing: false,
            }),
            wake: Condvar::new(),
            writer: OnceLock::new(),
        }
    }

    /// Waits until everything is written, or for [`FLUSH_TIMEOUT`]. The thread that writes does not wait.
    fn flush(&self) {
        let end = Instant::now() + FLUSH_TIMEOUT;
        while Instant::now() < end && !self.is_writer() {
            let queued = self.lock();
            if queued.is_empty() && !queued.is_writing {
                return;
            }
            drop(queued);
            std::thread::sleep(FLUSH_CHECK_INTERVAL);
        }
    }

    /// Whether the calling thread is the one that writes. Its own lines, such as the one about its panic, are not
    /// queued, because nobody would write them.
    fn is_writer(&self) -> bool {
        self.writer.get() == Some(&std::thread::current().id())
    }

    fn lock(&self) -> MutexGuard<'_, QueuedLines> {
        // A panic while the lock was held cannot have left the queue inconsistent.
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until the queue is closed and empty.
    fn run(&self, mut out: impl io::Write) {
        let _ = self.writer.set(std::thread::current().id());
        let mut bytes = Vec::with_capacity(INITIAL_BYTES);
        loop {
            placewright_tasks::injection_point(Task::Log);
            let mut queued = self.lock();
            queued.is_writing = false;
            while queued.is_empty() && !queued.is_closed {
                queued = self
                    .wake
                    .wait(queued)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let is_closed = queued.is_closed;
            std::mem::swap(&mut queued.bytes, &mut bytes);
            let dropped = std::mem::take(&mut queued.dropped);
            let newest = std::mem::take(&mut queued.newest);
            queued.newest_bytes = 0;
            queued.is_writing = true;
            drop(queued);
            // A failure to write the log cannot be reported anywhere.
            let _ = write_all(&mut out, &bytes);
            bytes.clear();
            if dropped > 0 {
                let notice = format!(
                    "{dropped} log lines were lost: they came faster than they could be written\n"
                );
                let _ = write_all(&mut out, notice.as_bytes());
            }
            for line in newest {
                let _ = write_all(&mut out, &line);
            }
            if is_closed {
                return;
            }
            std::thread::sleep(BATCH_INTERVAL);
        }
    }
}

impl Log {
    fn start(out: impl io::Write + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(LogQueue::new());
        let thread = {
            let queue = Arc::clone(&queue);
            placewright_tasks::spawn_thread(Task::Log, move || queue.run(out))?
        };
        Ok(Self {
            queue,
            thread: Some(thread),
        })
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Queues each line that is written to it.
struct LineWriter(Arc<LogQueue>);

impl io::Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.is_writer() {
            return io::stderr().write(line);
        }
        let mut queued = self.0.lock();
        if queued.is_closed {
            // The thread that writes has ended, or is about to end.
            return io::stderr().write(line);
        }
        let was_empty = queued.is_empty();
        queued.push(line);
        drop(queued);
        if was_empty {
            self.0.wake.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// An output that blocks while its mutex is locked.
    struct SlowOutput(Arc<Mutex<Vec<u8>>>);

    impl io::Write for SlowOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// An output that accepts a few bytes, then nothing for a moment.
    struct HesitantOutput {
        written: Arc<Mutex<Vec<u8>>>,
        /// Whether the last call returned an error.
        has_blocked: bool,
    }

    impl io::Write for HesitantOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.has_blocked = !self.has_blocked;
            if self.has_blocked {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let accepted = bytes.len().min(7);
            let mut written = self.written.lock().unwrap();
            written.extend_from_slice(&bytes[..accepted]);
            Ok(accepted)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_output_that_accepts_nothing_at_times_gets_every_line() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let log = Log::start(HesitantOutput {
            written: Arc::clone(&written),
            has_blocked: false,
        })
        .unwrap();
        let mut writer = LineWriter(Arc::clone(&log.queue));
        let lines: String = (0..20).map(|number| format!("line {number}\n")).collect();
        for line in lines.split_inclusive('\n') {
            writer.write_all(line.as_bytes()).unwrap();
        }
        drop(log);
        assert_eq!(String::from_utf8_lossy(&written.lock().unwrap()), lines);
    }

    #[test]
    fn a_line_that_is_longer_than_the_queue_is_written_like_any_other() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let log = Log::start(SlowOutput(Arc::clone(&written))).unwrap();
        let mut writer = LineWriter(Arc::clone(&log.queue));
        let line = vec![b'x'; QUEUE_BYTES_MAX + 1];
        writer.write_all(&line).unwrap();
        log.queue.flush();
        assert_eq!(written.lock().unwrap().len(), line.len());
    }

    #[test]
    fn lines_are_written_in_order_and_a_slow_output_delays_no_thread() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let log = Log::start(SlowOutput(Arc::clone(&written))).unwrap();
        let mut writer = LineWriter(Arc::clone(&log.queue));
        let line = [b'x'; 1023];
        {
            let _blocks_output = written.lock().unwrap();
            writer.write_all(&[&line[..], b"0"].concat()).unwrap();
            // When the first line has left the queue, the thread waits for its output.
            while !log.queue.lock().bytes.is_empty() {
                std::thread::yield_now();
            }
            for _ in 1..3 * QUEUE_BYTES_MAX / 1024 {
                writer.write_all(&line).unwrap();
                writer.write_all(b"\n").unwrap();
            }
            writer.write_all(b"stopped\n").unwrap();
        }
        drop(log);
        let written = written.lock().unwrap();
        assert_eq!(written[1023], b'0');
        assert!(written.len() < 3 * QUEUE_BYTES_MAX);
        let end = &written[written.len() - 2 * NEWEST_BYTES_MAX..];
        let end = String::from_utf8_lossy(end);
        assert!(end.contains("log lines were lost"));
        assert!(end.ends_with("stopped\n"), "the last words are there");
    }
}
