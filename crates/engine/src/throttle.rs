//! Makes background work interruptible, and limits its share of a core.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// [`Throttled`] calls [`Throttle::pause`] whenever this many bytes were transferred.
const BYTES_PER_PAUSE: usize = 1 << 20;
/// The longest pause, however long the work before it took. So work that takes seconds without a pause exceeds its
/// share.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The interval between two checks for a stop during a pause.
const STOP_CHECK_EVERY: Duration = Duration::from_millis(10);

/// The error of work that was stopped, by the shutdown or because its time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Stopped;

/// Throttles background work, and ends it when the engine shuts down or its time is up.
pub(crate) struct Throttle {
    stop: Arc<AtomicBool>,
    /// The ratio of the time in pauses to the time at work.
    pause_ratio: f64,
    /// When the work began, or continued after the last pause.
    resumed_at: Instant,
    /// When the work has to end; `None` if it may take any time.
    end: Option<Instant>,
}

impl Throttle {
    /// Limits work to the share `duty` (0 to 1) of a core, until `stop` is set.
    pub(crate) fn new(stop: Arc<AtomicBool>, duty: f64) -> Self {
        let pause_ratio = 1.0 / duty.clamp(0.01, 1.0) - 1.0;
        Self {
            stop,
            pause_ratio,
            resumed_at: Instant::now(),
            end: None,
        }
    }

    /// Also ends the work at this time.
    pub(crate) fn with_end(self, end: Instant) -> Self {
        Self {
            end: Some(end),
            ..self
        }
    }

    /// A throttle that neither pauses nor stops.
    pub(crate) fn unlimited() -> Self {
        Self::new(Arc::default(), 1.0)
    }

    /// Pauses as long as the share requires after the work since the last pause; fails once a stop is
    /// requested. Called between pieces of work.
    pub(crate) fn pause(&mut self) -> Result<(), Stopped> {
        let pause = self.resumed_at.elapsed().mul_f64(self.pause_ratio);
        let until = Instant::now() + pause.min(PAUSE_MAX);
        loop {
            let is_over = self.end.is_some_and(|end| Instant::now() >= end);
            if is_over || self.stop.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            let remaining = until.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                self.resumed_at = Instant::now();
                return Ok(());
            }
            thread::sleep(remaining.min(STOP_CHECK_EVERY));
        }
    }
}

/// Wraps a reader or writer, and pauses as the throttle requires while bytes are transferred.
pub(crate) struct Throttled<'a, T> {
    inner: T,
    throttle: &'a mut Throttle,
    bytes_since_pause: usize,
}

impl<'a, T> Throttled<'a, T> {
    pub(crate) fn new(inner: T, throttle: &'a mut Throttle) -> Self {
        Self {
            inner,
            throttle,
            bytes_since_pause: 0,
        }
    }

    /// Counts bytes that were transferred, and pauses after enough of them.
    fn count(&mut self, bytes: usize) -> io::Result<()> {
        self.bytes_since_pause += bytes;
        if self.bytes_since_pause >= BYTES_PER_PAUSE {
            self.bytes_since_pause = 0;
            self.throttle.pause().map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl<T: Read> Read for Throttled<'_, T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.count(count)?;
        Ok(count)
    }
}

impl<T: Write> Write for Throttled<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.count(count)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
