//! The log to which services offer events, and the thread that writes them.

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::SystemTime;

use parking_lot::Mutex;
use placewright_tasks::{Task, injection_point, spawn_thread};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::event::Event;
use crate::line;
use crate::queue::EventQueue;
use crate::sink::{Destination, OpenError, Sink, count_lines};

/// The options of the log.
#[derive(Clone, Debug)]
pub struct AuditLogOptions {
    /// Where lines are written.
    pub destination: Destination,
    /// The most memory of queued events; events beyond it are left out.
    pub queue_bytes_max: usize,
}

/// The metrics of the log.
#[derive(Clone, Debug, Default)]
pub struct AuditLogMetrics {
    written: Counter,
    left_out: Counter,
}

impl AuditLogMetrics {
    /// Creates the metrics at zero and registers them as `placewright_audit_log_*`.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("placewright");
        registry.register(
            "audit_log_lines",
            "Lines written to the audit log",
            metrics.written.clone(),
        );
        registry.register(
            "audit_log_left_out",
            "Lines that the audit log does not have, because there was no room or they could not be written",
            metrics.left_out.clone(),
        );
        metrics
    }
}

/// The audit log. Clones share one log.
#[derive(Clone, Debug)]
pub struct AuditLog {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queue: Arc<EventQueue>,
    metrics: AuditLogMetrics,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn close(&self) {
        self.queue.close();
        if let Some(thread) = self.thread.lock().take() {
            // An error means that the thread panicked, which was logged or has ended the process.
            let _ = thread.join();
        }
    }
}

impl AuditLog {
    /// Opens the log and starts its thread; `None` if the destination is [`Destination::Off`].
    ///
    /// # Errors
    ///
    /// The destination cannot be opened, or the system gives no thread.
    pub fn start(
        options: &AuditLogOptions,
        metrics: AuditLogMetrics,
    ) -> Result<Option<Self>, OpenError> {
        let Some(sink) = Sink::open(&options.destination)? else {
            return Ok(None);
        };
        let queue = Arc::new(EventQueue::new(options.queue_bytes_max));
        let writer = Writer {
            queue: Arc::clone(&queue),
            metrics: metrics.clone(),
            sink,
            left_out: 0,
            is_failing: false,
        };
        let thread = spawn_thread(Task::AuditLog, move || writer.run());
        let thread = thread.map_err(OpenError::NoThread)?;
        let shared = Shared {
            queue,
            metrics,
            thread: Mutex::new(Some(thread)),
        };
        Ok(Some(Self {
            shared: Arc::new(shared),
        }))
    }

    /// Queues an event, without waiting. If the queue has no space for it, it is left out and counted.
    pub fn offer(&self, event: Event) {
        if !self.shared.queue.offer(event) {
            self.shared.metrics.left_out.inc();
        }
    }

    /// Makes the thread open the file or the socket again, after a rotation.
    pub fn reopen(&self) {
        self.shared.queue.request_reopen();
    }

    /// Writes the queued events and ends the thread. Events that are offered later are left out.
    pub fn close(&self) {
        self.shared.close();
    }
}

static PROCESS_LOG: OnceLock<AuditLog> = OnceLock::new();

/// Sets the log of the whole process, for events without a service: the calls that gRPC servers
/// refuse. Only the first call has an effect.
pub fn set_process_log(log: &AuditLog) {
    // An error means that a log was set before, which stays.
    let _ = PROCESS_LOG.set(log.clone());
}

/// The log of the process, if it has one.
#[must_use]
pub fn process_log() -> Option<&'static AuditLog> {
    PROCESS_LOG.get()
}

/// Lines are written once they have this many bytes together.
const WRITE_BYTES: usize = 256 << 10;

/// The state of the thread that formats lines and writes them.
struct Writer {
    queue: Arc<EventQueue>,
    metrics: AuditLogMetrics,
    sink: Sink,
    /// The number of missing lines that no line of the log reports yet.
    left_out: u64,
    /// Whether the last write failed.
    is_failing: bool,
}

impl Writer {
    fn run(mut self) {
        let mut lines = Vec::with_capacity(WRITE_BYTES);
        // The list of the previous batch, empty by now: the queue collects the next events in it, without a new
        // allocation.
        let mut recycled = Vec::new();
        loop {
            let mut batch = self.queue.take_batch(std::mem::take(&mut recycled));
            // Test builds can inject a panic here.
            injection_point(Task::AuditLog);
            let has_taken_events = !batch.events.is_empty() || batch.left_out > 0;
            if batch.is_reopen_requested
                && let Err(error) = self.sink.reopen()
            {
                tracing::error!(%error, "cannot open the audit log again; the old one goes on");
            }
            for event in batch.events.drain(..) {
                line::write(&event, &mut lines);
                if lines.len() >= WRITE_BYTES {
                    self.write(&mut lines);
                }
            }
            self.write(&mut lines);
            // The events that the queue left out came after those of the batch, so their notice comes after its lines.
            self.left_out += batch.left_out;
            if self.left_out > 0 {
                self.write(&mut lines);
            }
            if batch.is_closed {
                // After an error the lines are written, but not durable. The log is closed in any case.
                let _ = self.sink.sync();
                return;
            }
            recycled = batch.events;
            // `take_batch` waits for the first event; this waits for events that come right after the first.
            if has_taken_events {
                self.queue.wait_for_more();
            }
        }
    }

    /// Writes lines, after a line with the number of lines that are missing before them.
    fn write(&mut self, lines: &mut Vec<u8>) {
        if self.left_out > 0 {
            let mut notice = Vec::new();
            line::write_left_out(self.left_out, SystemTime::now(), &mut notice);
            match self.sink.write(&notice) {
                Ok(()) => self.left_out = 0,
                Err((_, error)) => {
                    // Without the notice, these lines would hide that others are missing before them.
                    self.count_lost(count_lines(lines), &error);
                    return lines.clear();
                }
            }
        }
        if lines.is_empty() {
            return;
        }
        let lost = match self.sink.write(lines) {
            Ok(()) => {
                self.is_failing = false;
                0
            }
            Err((lost, error)) => {
                self.count_lost(lost, &error);
                lost
            }
        };
        self.metrics
            .written
            .inc_by(count_lines(lines).saturating_sub(lost));
        lines.clear();
    }

    /// Counts lines that could not be written.
    fn count_lost(&mut self, lost: u64, error: &io::Error) {
        self.left_out += lost;
        self.metrics.left_out.inc_by(lost);
        if !self.is_failing {
            tracing::error!(%error, "the audit log cannot be written");
        }
        self.is_failing = true;
    }
}
