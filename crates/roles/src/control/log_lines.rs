//! Formats the beginning of a log line without colours, as tracing's full format does, but faster, as each
//! request logs a line: date and second are formatted only when the second changes.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes time, level and target, then the fields. Lines in colour, within spans, and from the
/// `log` crate are delegated to the default format.
#[derive(Debug, Default)]
pub(super) struct LogLines {
    default_format: Format<Full>,
}

impl<S, N> FormatEvent<S, N> for LogLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let target = event.metadata().target();
        if writer.has_ansi_escapes() || target == "log" || context.event_scope().is_some() {
            return self.default_format.format_event(context, writer, event);
        }
        write_now(&mut writer)?;
        writer.write_str(match *event.metadata().level() {
            Level::ERROR => " ERROR ",
            Level::WARN => "  WARN ",
            Level::INFO => "  INFO ",
            Level::DEBUG => " DEBUG ",
            Level::TRACE => " TRACE ",
        })?;
        writer.write_str(target)?;
        writer.write_str(": ")?;
        context.format_fields(writer.by_ref(), event)?;
        writer.write_char('\n')
    }
}

thread_local! {
    static LATEST_SECOND: RefCell<FormattedSecond> = const { RefCell::new(FormattedSecond { number: None, text: String::new() }) };
}

/// The second of this thread's latest line, formatted up to the dot of its fraction.
struct FormattedSecond {
    /// The second, counted from 1970; `None` before the thread's first line.
    number: Option<u64>,
    text: String,
}

/// Writes the present time in UTC: `2026-11-21T20:36:16.123456Z`.
fn write_now(writer: &mut Writer<'_>) -> fmt::Result {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let mut fraction = *b".000000Z";
    let mut remaining = now.subsec_micros();
    for digit in fraction[1..7].iter_mut().rev() {
        *digit = b'0' + (remaining % 10) as u8;
        remaining /= 10;
    }
    LATEST_SECOND.with_borrow_mut(|second| {
        if second.number != Some(now.as_secs()) {
            second.number = Some(now.as_secs());
            second.text.clear();
            let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
            write!(second.text, "{}", time.strftime("%Y-%m-%dT%H:%M:%S"))?;
        }
        writer.write_str(&second.text)
    })?;
    writer.write_str(std::str::from_utf8(&fraction).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::log_capture::CapturedLines;
    use super::*;

    /// Logs a line of each level, one of them with another target, and a line within a span.
    fn lines<E>(format: E, is_coloured: bool) -> Vec<String>
    where
        E: FormatEvent<
                tracing_subscriber::Registry,
                tracing_subscriber::fmt::format::DefaultFields,
            > + Send
            + Sync
            + 'static,
    {
        let lines = CapturedLines::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_ansi(is_coloured)
            .event_format(format)
            .with_writer(lines.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!("one");
            tracing::warn!(number = 2, "two");
            tracing::info!(target: "elsewhere", "three");
            tracing::debug!("four");
            tracing::trace!("five");
            let _within = tracing::info_span!("span", field = 1).entered();
            tracing::info!("six");
        });
        lines.text().lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_equal_those_of_the_default_format() {
        for is_coloured in [false, true] {
            let our_lines = lines(LogLines::default(), is_coloured);
            let default_lines = lines(Format::default(), is_coloured);
            assert_eq!(our_lines.len(), 6, "{our_lines:?}");
            for (our_line, default_line) in our_lines.iter().zip(&default_lines) {
                let begins_with_time = |text: &str| {
                    let text = text.trim_start_matches("\u{1b}[2m");
                    // As in 2026-11-21T20:36:16.123456Z.
                    text.get(..27)
                        .is_some_and(|time| time.parse::<jiff::Timestamp>().is_ok())
                };
                assert!(
                    begins_with_time(our_line) && begins_with_time(default_line),
                    "{our_line}\n{default_line}"
                );
                let after_time = |line: &str| {
                    line.split_once('Z')
                        .map(|(_, remaining)| remaining.to_owned())
                };
                assert_eq!(after_time(our_line), after_time(default_line));
            }
        }
    }

    #[test]
    fn the_time_is_now() {
        let mut text = String::new();
        let before = jiff::Timestamp::now();
        write_now(&mut Writer::new(&mut text)).unwrap();
        let after = jiff::Timestamp::now();
        let time: jiff::Timestamp = text.parse().unwrap();
        let rounding = jiff::SignedDuration::from_micros(1);
        assert!(
            before - rounding <= time && time <= after + rounding,
            "{text}"
        );
    }
}
