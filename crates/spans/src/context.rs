//! The context of a trace, as W3C Trace Context writes it.

use std::fmt;
use std::future::Future;

use uuid::Uuid;

/// The bit of the flags that says that the caller records the trace.
const SAMPLED: u8 = 1;

/// The ids of a span and of its trace, by which child spans name their parent, and whether the trace is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The id of the trace; never 0.
    pub trace: u128,
    /// The id of the span; never 0.
    pub span: u64,
    /// Whether the trace is recorded.
    pub is_sampled: bool,
}

impl SpanContext {
    /// A span of a trace of its own, which is recorded.
    #[must_use]
    pub fn new_trace() -> Self {
        Self {
            // A UUID of version 4 is never 0.
            trace: Uuid::new_v4().as_u128(),
            span: random_span(),
            is_sampled: true,
        }
    }

    /// Another span of the same trace, with a random id.
    #[must_use]
    pub fn sibling(self) -> Self {
        Self {
            span: random_span(),
            ..self
        }
    }

    /// The span of the build of a server in its cell, below this span of the API request. Its id is derived from the
    /// trace and the server, so that the cell and the agents have the same one without telling each other.
    #[must_use]
    pub fn build_span_of(self, server: Uuid) -> Self {
        let mut hash = mix(self.span ^ low(self.trace));
        for part in [
            high(self.trace),
            high(server.as_u128()),
            low(server.as_u128()),
        ] {
            hash = mix(hash ^ part);
        }
        Self {
            span: hash.max(1),
            ..self
        }
    }

    /// Parses the header `traceparent`; `None` if it is not valid. Later versions of the format may append fields,
    /// which are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let version = hex(parts.next()?, 2)?;
        let (trace, span) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)?);
        let flags = hex(parts.next()?, 2)?;
        let is_longer = parts.next().is_some();
        let is_valid = version != 0xff && !(version == 0 && is_longer) && trace != 0 && span != 0;
        is_valid.then_some(Self {
            trace,
            span: u64::try_from(span).ok()?,
            is_sampled: u8::try_from(flags).ok()? & SAMPLED != 0,
        })
    }
}

/// The number that a text of `digits` hexadecimal digits stands for; `None` for another text. The letters have to be in
/// lower case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    let is_valid = text.len() == digits && text.bytes().all(is_digit);
    is_valid
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
}

impl fmt::Display for SpanContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(
            formatter,
            "00-{:032x}-{:016x}-{flags:02x}",
            self.trace, self.span
        )
    }
}

fn random_span() -> u64 {
    low(Uuid::new_v4().as_u128()).max(1)
}

#[allow(clippy::cast_possible_truncation, reason = "that half is wanted")]
fn low(number: u128) -> u64 {
    number as u64
}

fn high(number: u128) -> u64 {
    low(number >> 64)
}

/// Spreads the bits of a number (the finalizer of `SplitMix64`). It must never change, because processes of different
/// releases derive the same ids.
fn mix(number: u64) -> u64 {
    let mut hash = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

tokio::task_local! {
    static CURRENT: Option<SpanContext>;
}

/// Makes [`current`] return this context within a future.
pub fn with_context<F: Future>(
    context: Option<SpanContext>,
    future: F,
) -> impl Future<Output = F::Output> {
    CURRENT.scope(context, future)
}

/// The span of the request that the present task carries out; none if it is not recorded.
#[must_use]
pub fn current() -> Option<SpanContext> {
    CURRENT.try_with(|context| *context).ok().flatten()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn contexts_are_read_as_they_are_written() {
        let context = SpanContext::parse(HEADER).unwrap();
        assert_eq!(context.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(
            (context.span, context.is_sampled),
            (0x00f0_67aa_0ba9_02b7, true)
        );
        assert_eq!(context.to_string(), HEADER);
        let not_sampled = SpanContext::parse(&HEADER.replace("-01", "-00")).unwrap();
        assert!(!not_sampled.is_sampled);
        let later = SpanContext::parse(&format!("01{}-more", &HEADER[2..]));
        assert_eq!(later.map(|later| later.trace), Some(context.trace));
        let own = SpanContext::new_trace();
        assert_eq!(SpanContext::parse(&own.to_string()), Some(own));
    }

    #[test]
    fn what_is_no_context_is_none() {
        for text in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(SpanContext::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_span_of_a_build_is_the_same_for_every_role() {
        let context = SpanContext::parse(HEADER).unwrap();
        let build = context.build_span_of(Uuid::from_u128(7));
        // Every release has to derive the same, because roles of several releases work together.
        assert_eq!(
            build.to_string(),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-725eedbd6c46db76-01"
        );
        assert_ne!(build.span, context.build_span_of(Uuid::from_u128(8)).span);
        assert_ne!(
            build.span,
            context.sibling().build_span_of(Uuid::from_u128(7)).span
        );
    }
}
