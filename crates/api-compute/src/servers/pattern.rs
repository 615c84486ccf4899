//! Regular expressions in queries, bounded in size and work because clients write them.

use std::time::{Duration, Instant};

use placewright_http::{ApiError, ApiResult};
use regex::{Regex, RegexBuilder};

use crate::routed_request::RoutedRequest;

/// The most bytes of a compiled expression; the work for a text is at most proportional to it.
const COMPILED_BYTES_MAX: usize = 1 << 17;

/// The most bytes of the cache of an expression's automaton.
const CACHE_BYTES_MAX: usize = 1 << 18;

/// The deepest nesting of an expression.
const NESTED_MAX: u32 = 32;

/// The time after which a task yields to others.
const TURN: Duration = Duration::from_millis(2);

/// A compiled expression that is searched for in a text, ignoring case.
#[derive(Debug)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    /// Compiles the value of a query parameter.
    ///
    /// # Errors
    ///
    /// 400 if the expression is not valid, too long, or too large when compiled.
    pub(crate) fn read(call: &RoutedRequest<'_>, key: &str, text: &str) -> ApiResult<Self> {
        let (length, most) = (text.chars().count(), call.core.limits().pattern_chars_max);
        if length > most {
            let message =
                format!("it has {length} characters; compute.pattern_chars_max allows {most}");
            return Err(ApiError::field(key, message));
        }
        Self::compile(text).map_err(|error| {
            let message = match error {
                regex::Error::CompiledTooBig(most) => {
                    format!("as a regular expression it has more than {most} bytes")
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

    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// The time that one listing has spent on matching.
#[derive(Debug)]
pub(crate) struct MatchBudget {
    spent: Duration,
    most: Duration,
    turn: Duration,
    looked_at: usize,
}

impl MatchBudget {
    pub(crate) fn of(call: &RoutedRequest<'_>) -> Self {
        Self {
            spent: Duration::ZERO,
            most: call.core.limits().match_time_max,
            turn: Duration::ZERO,
            looked_at: 0,
        }
    }

    /// Keeps the items whose texts match, and yields to other tasks in between.
    ///
    /// # Errors
    ///
    /// 400 when matching took too long: a listing is complete or rejected.
    pub(crate) async fn keep<T>(
        &mut self,
        found: Vec<(T, Vec<String>)>,
        is_wanted: impl Fn(&[String]) -> bool,
    ) -> ApiResult<Vec<T>> {
        let mut kept = Vec::new();
        for (one, texts) in found {
            let began = Instant::now();
            let wanted = is_wanted(&texts);
            let took = began.elapsed();
            self.spent += took;
            self.turn += took;
            self.looked_at += 1;
            if wanted {
                kept.push(one);
            }
            if self.spent > self.most {
                return Err(ApiError::bad_request(format!(
                    "The regular expressions took more than {} ms for {} servers; \
                     compute.match_ms_max allows no more. Ask for more of a name, or for less at a \
                     time.",
                    self.most.as_millis(),
                    self.looked_at
                )));
            }
            if self.turn > TURN {
                self.turn = Duration::ZERO;
                tokio::task::yield_now().await;
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sane_expressions_compile_and_match() {
        for (text, found, not_found) in [
            ("web", "my-WEB-1", "db"),
            ("^web-[0-9]+$", "web-17", "web-17a"),
            (r"\w+\.example\.(com|org)", "a.example.org", "example"),
            (".*prod.*(db|cache).*", "eu-prod-db-1", "eu-test-db-1"),
            ("^[[:alpha:]]{1,20}$", "abc", "abc1"),
            ("größe", "GRÖSSE größe", "gross"),
        ] {
            let pattern = Pattern::compile(text).unwrap();
            assert!(pattern.is_in(found), "{text}");
            assert!(!pattern.is_in(not_found), "{text}");
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

    /// The most expensive expressions that compile, on names of the greatest length.
    #[test]
    fn one_match_takes_milliseconds_at_most() {
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
            let began = Instant::now();
            for _ in 0..10 {
                pattern.is_in(&name);
            }
            let took = began.elapsed() / 10;
            println!("{text}: {took:?}");
            assert!(took < Duration::from_millis(500), "{text}: {took:?}");
        }
    }
}
