//! The options of traces.

use super::kinds::OptionType;
use super::spec::section;

section! {
    /// Traces for OpenTelemetry: spans of the requests of all APIs, and for new servers also of the ranking, the claim,
    /// the build in the cell and on the host (docs/operations.md, "Traces"). Every role sends its own.
    traces: TraceOptions {
        /// The address of a collector that takes OTLP over HTTP, http://127.0.0.1:4318 for example; `/v1/traces` is
        /// appended. Not set: no traces are recorded.
        otlp_url: Option<CollectorUrl> = "";
        /// The share of the requests that are recorded of those whose caller sends no `traceparent`, from 0 to 1. With
        /// a `traceparent`, its caller decides.
        share: Share = "1";
        /// The name of the service, by which the collector finds the spans.
        service: String = "placewright";
    }
}

/// The address of a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorUrl(pub String);

impl OptionType for Option<CollectorUrl> {
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(None);
        }
        is_collector(text).then(|| Some(CollectorUrl(text.to_owned())))
    }

    fn describe_allowed() -> String {
        "an address that begins with http:// or https://, without a user, a query or a fragment"
            .to_owned()
    }
}

/// Whether this is an address to which spans can be sent: a URL of HTTP or HTTPS with a host. A query or a fragment is
/// refused, because `/v1/traces` is appended to the address; a user or password is refused, because the log shows the
/// address.
fn is_collector(url: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '?' | '#' | '@');
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    // `reqwest::Url` ignores a third slash. Here it more likely means that the host was forgotten.
    let has_host = !url.contains(":///");
    is_http && has_host && url.chars().all(is_plain) && reqwest::Url::parse(url).is_ok()
}

/// A share, from nothing to all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(pub f64);

impl OptionType for Share {
    fn parse(text: &str) -> Option<Self> {
        let share: f64 = text.parse().ok()?;
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    fn describe_allowed() -> String {
        "a number from 0 to 1, as a text: \"0.1\"".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_shares_are_checked() {
        let url = |text| Option::<CollectorUrl>::parse(text).is_some();
        for good in [
            "",
            "http://127.0.0.1:4318",
            "http://[::1]:4318",
            "https://otel.example/base",
        ] {
            assert!(url(good), "{good}");
        }
        for bad in [
            "otel:4318",
            "http://",
            "http:///a",
            "http://:4318",
            "http://a:99999",
            "http://a:port",
            "http://[::1",
            "http://a/?token=b",
            "http://a b",
            "http://u:p@a",
            "ftp://a",
        ] {
            assert!(!url(bad), "{bad}");
        }
        assert_eq!(Share::parse("0.25"), Some(Share(0.25)));
        for bad in ["-0.1", "1.1", "NaN", "all"] {
            assert_eq!(Share::parse(bad), None, "{bad}");
        }
    }
}
