//! The log: what services offer events to, and the thread that writes them.

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::SystemTime;

use parking_lot::Mutex;
use placewright_tasks::{Task, pass, spawn_thread};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::event::Event;
use crate::line;
use crate::queue::EventQueue;
use crate::sink::{Destination, OpenError, Sink, count};

/// The options of the log.
#[derive(Clone, Debug)]
pub struct AuditLogOptions {
    /// Where lines go.
    pub destination: Destination,
    /// The most memory of events that wait for the thread. Further ones are left out.
    pub queue_bytes_max: usize,
}

/// What is counted of the log.
#[derive(Clone, Debug, Default)]
pub struct AuditLogMetrics {
    written: Counter,
    left_out: Counter,
}

impl AuditLogMetrics {
    /// Registers the metrics.
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

/// A log of who did what. Clones are the same log.
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
            // Its panic has ended the process, or is in the log.
            let _ = thread.join();
        }
    }
}

impl AuditLog {
    /// Opens the log and starts its thread; none if it is off.
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
            fails: false,
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

    /// Offers an event. It never waits; an event for which there is no room is counted.
    pub fn offer(&self, event: Event) {
        if !self.shared.queue.offer(event) {
            self.shared.metrics.left_out.inc();
        }
    }

    /// Has the file opened again, after a rotation.
    pub fn reopen(&self) {
        self.shared.queue.reopen();
    }

    /// Writes what waits, and ends. What is offered later is left out.
    pub fn close(&self) {
        self.shared.close();
    }
}

static OF_PROCESS: OnceLock<AuditLog> = OnceLock::new();

/// Makes a log that of the whole process, for what belongs to no service: the calls that gRPC
/// servers refuse. The first one stays.
pub fn set_for_process(log: &AuditLog) {
    let _ = OF_PROCESS.set(log.clone());
}

/// The log of the process, if it has one.
#[must_use]
pub fn for_process() -> Option<&'static AuditLog> {
    OF_PROCESS.get()
}

/// The most bytes of lines that are written at a time.
const WRITE_BYTES: usize = 256 << 10;

/// The thread that makes lines and writes them.
struct Writer {
    queue: Arc<EventQueue>,
    metrics: AuditLogMetrics,
    sink: Sink,
    /// Lines that are missing, and of which no line tells yet.
    left_out: u64,
    /// Whether the last write failed.
    fails: bool,
}

impl Writer {
    fn run(mut self) {
        let mut lines = Vec::with_capacity(WRITE_BYTES);
        let mut spare = Vec::new();
        loop {
            let mut taken = self.queue.take(std::mem::take(&mut spare));
            pass(Task::AuditLog);
            let is_idle = taken.events.is_empty() && taken.left_out == 0;
            if taken.reopen
                && let Err(error) = self.sink.reopen()
            {
                tracing::error!(%error, "cannot open the audit log again; the old one goes on");
            }
            for event in taken.events.drain(..) {
                line::write(&event, &mut lines);
                if lines.len() >= WRITE_BYTES {
                    self.write(&mut lines);
                }
            }
            self.write(&mut lines);
            self.left_out += taken.left_out;
            if self.left_out > 0 {
                self.write(&mut lines);
            }
            if taken.closed {
                let _ = self.sink.sync();
                return;
            }
            spare = taken.events;
            if !is_idle {
                self.queue.gather();
            }
        }
    }

    /// Writes lines, after one that tells how many are missing before them.
    fn write(&mut self, lines: &mut Vec<u8>) {
        if self.left_out > 0 {
            let mut notice = Vec::new();
            line::write_left_out(self.left_out, SystemTime::now(), &mut notice);
            match self.sink.write(&notice) {
                Ok(()) => self.left_out = 0,
                Err((_, error)) => {
                    self.lose(count(lines), &error);
                    return lines.clear();
                }
            }
        }
        if lines.is_empty() {
            return;
        }
        let lost = match self.sink.write(lines) {
            Ok(()) => {
                self.fails = false;
                0
            }
            Err((lost, error)) => {
                self.lose(lost, &error);
                lost
            }
        };
        self.metrics
            .written
            .inc_by(count(lines).saturating_sub(lost));
        lines.clear();
    }

    /// Counts lines that cannot be written.
    fn lose(&mut self, lost: u64, error: &io::Error) {
        self.left_out += lost;
        self.metrics.left_out.inc_by(lost);
        if !self.fails {
            tracing::error!(%error, "the audit log cannot be written");
        }
        self.fails = true;
    }
}
