//! Regular expressions in queries, bounded in size and work because clients write them.

use std::time::{Duration, Instant};

use placewright_http::{ApiError, ApiResult};
use regex::{Regex, RegexBuilder};

use crate::routed_request::RoutedRequest;

/// The maximum size of a compiled expression in bytes, which bounds the time of matching a text.
const COMPILED_BYTES_MAX: usize = 1 << 17;

/// The maximum size in bytes of the cache of an expression's automaton.
const CACHE_BYTES_MAX: usize = 1 << 18;

/// The maximum nesting of an expression.
const NESTED_MAX: u32 = 32;

/// The time of matching after which a task yields to other tasks.
const YIELD_AFTER: Duration = Duration::from_millis(2);

/// A compiled regular expression that is searched for in texts, ignoring case.
#[derive(Debug)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    /// Compiles the value of a query parameter.
    ///
    /// # Errors
    ///
    /// 400 if the expression is not valid, too long, or too large when compiled.
    pub(crate) fn parse(request: &RoutedRequest<'_>, key: &str, text: &str) -> ApiResult<Self> {
        let (length, chars_max) = (
            text.chars().count(),
            request.api_state.limits().pattern_chars_max,
        );
        if length > chars_max {
            let message =
                format!("it has {length} characters; compute.pattern_chars_max allows {chars_max}");
            return Err(ApiError::field(key, message));
        }
        Self::compile(text).map_err(|error| {
            let message = match error {
                regex::Error::CompiledTooBig(bytes_max) => {
                    format!("compiled, the regular expression is larger than {bytes_max} bytes")
                }
                _ => "it must be a regular expression".to_owned(),
            };
            ApiError::field(key, message)
        })
    }

    fn compile(text: &str) -> Result<Self, regex::Error> {
        let mut builder = RegexBuilder::new(text);
        builder
            .case_insensitive(true)
            .nest_limit(NESTED_MAX)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(CACHE_BYTES_MAX);
        builder.build().map(Self)
    }

    /// Whether the expression matches some part of a text.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// The time that one listing may spend on matching, and has spent.
#[derive(Debug)]
pub(crate) struct MatchBudget {
    spent: Duration,
    limit: Duration,
    /// The time spent since the task last yielded.
    spent_since_yield: Duration,
    /// The number of servers whose texts were matched.
    server_count: usize,
}

impl MatchBudget {
    pub(crate) fn new(request: &RoutedRequest<'_>) -> Self {
        Self {
            spent: Duration::ZERO,
            limit: request.api_state.limits().match_time_max,
            spent_since_yield: Duration::ZERO,
            server_count: 0,
        }
    }

    /// Returns the items whose texts match, and yields to other tasks from time to time.
    ///
    /// # Errors
    ///
    /// 400 when matching takes too long, because an incomplete listing would mislead.
    pub(crate) async fn retain<T>(
        &mut self,
        items: Vec<(T, Vec<String>)>,
        matches: impl Fn(&[String]) -> bool,
    ) -> ApiResult<Vec<T>> {
        let mut matching = Vec::new();
        for (item, texts) in items {
            let started_at = Instant::now();
            let is_match = matches(&texts);
            let elapsed = started_at.elapsed();
            self.spent += elapsed;
            self.spent_since_yield += elapsed;
            self.server_count += 1;
            if is_match {
                matching.push(item);
            }
            if self.spent > self.limit {
                return Err(ApiError::bad_request(format!(
                    "The regular expressions took more than {} ms for {} servers; \
                     compute.match_ms_max allows no more. Give a simpler expression.",
                    self.limit.as_millis(),
                    self.server_count
                )));
            }
            if self.spent_since_yield > YIELD_AFTER {
                self.spent_since_yield = Duration::ZERO;
                tokio::task::yield_now().await;
            }
        }
        Ok(matching)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sane_expressions_compile_and_match() {
        for (text, matching, not_matching) in [
            ("web", "my-WEB-1", "db"),
            ("^web-[0-9]+$", "web-17", "web-17a"),
            (r"\w+\.example\.(com|org)", "a.example.org", "example"),
            (".*prod.*(db|cache).*", "eu-prod-db-1", "eu-test-db-1"),
            ("^[[:alpha:]]{1,20}$", "abc", "abc1"),
            ("größe", "GRÖSSE größe", "gross"),
        ] {
            let pattern = Pattern::compile(text).unwrap();
            assert!(pattern.is_in(matching), "{text}");
            assert!(!pattern.is_in(not_matching), "{text}");
        }
    }

    #[test]
    fn large_expressions_are_refused_by_their_size() {
        for text in [
            r"\w{200}",
            "((a{100}){100}){100}",
            r"(\pL{50}){50}",
            "((((((((((((((((((((((((((((((((((a))))))))))))))))))))))))))))))))))",
        ] {
            assert!(Pattern::compile(text).is_err(), "{text}");
        }
    }

    /// Expressions that are expensive to match, on a name of the greatest length. Those that are too large to compile
    /// are skipped: clients cannot use them.
    #[test]
    fn one_match_takes_less_than_half_a_second() {
        let name = "abcdefgh".repeat(32);
        for text in [
            "([a-q][^u-z]{13}x|$)",
            "([a-q][^u-z]{40}x)",
            "(a|b|c|d|e|f|g|h)*(ab|cd|ef|gh)*x",
            "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)[xy]",
            "(a?){50}x",
        ] {
            let Ok(pattern) = Pattern::compile(text) else {
                continue;
            };
            let started_at = Instant::now();
            for _ in 0..10 {
                pattern.is_in(&name);
            }
            let elapsed = started_at.elapsed() / 10;
            println!("{text}: {elapsed:?}");
            assert!(elapsed < Duration::from_millis(500), "{text}: {elapsed:?}");
        }
    }
}
