//! Formats the fields of a log line without colours, as [`DefaultVisitor`] does, but faster: each request
//! logs a line.

use std::error::Error;
use std::fmt::{self, Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::{RecordFields, VisitOutput as _};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};

/// Writes `name=value` with spaces between; texts are in quotation marks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LogFields;

impl<'writer> FormatFields<'writer> for LogFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut field_writer = FieldWriter {
            writer,
            buffered: String::with_capacity(BUFFER_BYTES),
            is_empty: true,
            result: Ok(()),
        };
        fields.record(&mut field_writer);
        field_writer.flush();
        field_writer.result
    }
}

/// The usual length of the fields of a request's line.
const BUFFER_BYTES: usize = 512;

/// Writes the fields of one line.
struct FieldWriter<'a> {
    writer: Writer<'a>,
    /// Fields that are not written yet. They are collected here because each write to the writer passes through several
    /// layers.
    buffered: String,
    /// Whether no field was written yet, so that the next one needs no space before it.
    is_empty: bool,
    /// The first error of the writer. After it, nothing more is written.
    result: fmt::Result,
}

impl FieldWriter<'_> {
    fn flush(&mut self) {
        if self.result.is_ok() && !self.buffered.is_empty() {
            self.result = self.writer.write_str(&self.buffered);
            self.buffered.clear();
        }
    }

    /// Writes a field with the default visitor.
    fn delegate(&mut self, record: impl FnOnce(&mut DefaultVisitor<'_>)) {
        self.flush();
        if self.result.is_ok() {
            let mut default_visitor = DefaultVisitor::new(self.writer.by_ref(), self.is_empty);
            record(&mut default_visitor);
            self.result = default_visitor.finish();
            self.is_empty = false;
        }
    }

    /// Whether the default visitor has to write a field: messages, because it escapes control characters,
    /// fields from the `log` crate, and all fields of coloured lines.
    fn needs_default_visitor(&self, field: &Field) -> bool {
        let name = field.name();
        self.writer.has_ansi_escapes() || name == "message" || name.starts_with("log.")
    }

    /// Writes the name of a field. Its value is to be appended to the returned text.
    fn begin_field(&mut self, field: &Field) -> &mut String {
        let name = field.name();
        if !std::mem::take(&mut self.is_empty) {
            self.buffered.push(' ');
        }
        self.buffered
            .push_str(name.strip_prefix("r#").unwrap_or(name));
        self.buffered.push('=');
        &mut self.buffered
    }
}

impl Visit for FieldWriter<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if self.needs_default_visitor(field) {
            return self.delegate(|default_visitor| default_visitor.record_str(field, value));
        }
        if is_plain(value) {
            let text = self.begin_field(field);
            text.push('"');
            text.push_str(value);
            text.push('"');
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if self.needs_default_visitor(field) {
            return self.delegate(|default_visitor| default_visitor.record_u64(field, value));
        }
        let mut digits = itoa::Buffer::new();
        self.begin_field(field).push_str(digits.format(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.delegate(|default_visitor| default_visitor.record_error(field, value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if self.needs_default_visitor(field) {
            return self.delegate(|default_visitor| default_visitor.record_debug(field, value));
        }
        let result = write!(self.begin_field(field), "{value:?}");
        if self.result.is_ok() {
            self.result = result;
        }
    }
}

/// Whether a text needs no escapes between quotation marks.
fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use std::io;

    use tracing_subscriber::fmt::format::DefaultFields;

    use super::super::log_capture::CapturedLines;
    use super::*;

    fn lines<F>(fields: F, is_coloured: bool) -> String
    where
        F: for<'w> FormatFields<'w> + Send + Sync + 'static,
    {
        let lines = CapturedLines::default();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(fields)
            .without_time()
            .with_ansi(is_coloured)
            .with_writer(lines.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let nothing: Option<&str> = None;
            let error = io::Error::other(io::Error::other("deep"));
            let error: &(dyn Error + 'static) = &error;
            tracing::info!("alone");
            tracing::info!(text = "plain", number = 7_u64, less = -7, yes = true, "all");
            tracing::info!(none = 0_u64, tens = 10_u16, all = u64::MAX, "numbers");
            tracing::info!(text = "a \"quoted\" \\ line\n\u{1b}[31m", r#type = "kept");
            tracing::info!(nothing, shown = %"as it is", seen = ?Some("x"), share = 0.5, "more");
            tracing::warn!(error, "message {}", "with \u{1b}[31m colour");
        });
        lines.text()
    }

    #[test]
    fn lines_equal_those_of_the_default_format() {
        for is_coloured in [false, true] {
            let default_lines = lines(DefaultFields::new(), is_coloured);
            assert_eq!(lines(LogFields, is_coloured), default_lines);
            assert_eq!(default_lines.lines().count(), 6, "{default_lines}");
        }
    }
}
