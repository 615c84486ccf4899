//! Captures log lines in memory, for tests of their format.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

/// The captured lines; clones share them.
#[derive(Clone, Default)]
pub(super) struct CapturedLines(Arc<Mutex<Vec<u8>>>);

impl CapturedLines {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for CapturedLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for CapturedLines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
