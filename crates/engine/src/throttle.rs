//! Makes background work interruptible, and limits its share of a core.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The clock is read after this many bytes.
const STRIDE_BYTES: usize = 1 << 20;
/// The longest pause, however long a piece of work was delayed.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The longest time until a stop is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The error of work that was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted by the shutdown")]
pub(crate) struct Stopped;

/// Throttles background work and tells it when to stop.
pub(crate) struct Throttle {
    stop: Arc<AtomicBool>,
    /// The ratio of pause to work.
    rest: f64,
    worked_since: Instant,
}

impl Throttle {
    /// Limits work to the share `duty` (0 to 1) of a core, until `stop` is set.
    pub(crate) fn new(stop: Arc<AtomicBool>, duty: f64) -> Self {
        let rest = 1.0 / duty.clamp(0.01, 1.0) - 1.0;
        Self {
            stop,
            rest,
            worked_since: Instant::now(),
        }
    }

    /// A throttle that neither pauses nor stops.
    pub(crate) fn open() -> Self {
        Self::new(Arc::default(), 1.0)
    }

    /// Called between pieces of work: pauses as required by the share, and fails once a stop is
    /// requested.
    pub(crate) fn pass(&mut self) -> Result<(), Stopped> {
        let rest = self.worked_since.elapsed().mul_f64(self.rest);
        let until = Instant::now() + rest.min(PAUSE_MAX);
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.worked_since = Instant::now();
                return Ok(());
            }
            thread::sleep(left.min(LOOK_EVERY));
        }
    }
}

/// Wraps a reader or writer and passes the throttle as bytes are transferred.
pub(crate) struct Throttled<'a, T> {
    inner: T,
    throttle: &'a mut Throttle,
    since_pass: usize,
}

impl<'a, T> Throttled<'a, T> {
    pub(crate) fn new(inner: T, throttle: &'a mut Throttle) -> Self {
        Self {
            inner,
            throttle,
            since_pass: 0,
        }
    }

    fn count(&mut self, bytes: usize) -> io::Result<()> {
        self.since_pass += bytes;
        if self.since_pass >= STRIDE_BYTES {
            self.since_pass = 0;
            self.throttle.pass().map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl<T: Read> Read for Throttled<'_, T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let taken = self.inner.read(bytes)?;
        self.count(taken)?;
        Ok(taken)
    }
}

impl<T: Write> Write for Throttled<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.inner.write(bytes)?;
        self.count(taken)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
