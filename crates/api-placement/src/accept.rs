//! The `Accept` header, from which the content type of an error response is chosen.
//!
//! The rules are those of RFC 9110, section 12.5.1. As in the reference, everything is acceptable to a
//! client whose header cannot be parsed.

/// A parsed `Accept` header.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Accept {
    /// Not a valid header: everything is acceptable, and the first offered type is preferred.
    Invalid,
    /// The media ranges in the order of the header.
    Ranges(Vec<Range>),
}

/// One media range with its weight (`q`) in thousandths.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Range {
    media_type: String,
    /// Whether the range has parameters besides its weight.
    has_parameters: bool,
    weight: u16,
}

impl Accept {
    /// Parses the header of a request. A missing or empty header, and a lone `*/*`, count as JSON.
    pub(crate) fn parse(header: Option<&str>) -> Self {
        match header {
            None | Some("" | "*/*" | "application/json") => Self::json(),
            Some(text) => parse_ranges(text).map_or(Self::Invalid, Self::Ranges),
        }
    }

    fn json() -> Self {
        Self::Ranges(vec![Range {
            media_type: "application/json".to_owned(),
            has_parameters: false,
            weight: 1000,
        }])
    }

    /// The offered type with the highest weight; of types with equal weights, the first one. `None` if none is
    /// acceptable.
    pub(crate) fn best<'a>(&self, offers: &[&'a str]) -> Option<&'a str> {
        let Self::Ranges(ranges) = self else {
            return offers.first().copied();
        };
        let mut best: Option<(&str, u16)> = None;
        for offer in offers {
            let weight = weight_of(offer, ranges);
            if weight > best.map_or(0, |(_, weight)| weight) {
                best = Some((offer, weight));
            }
        }
        best.map(|(offer, _)| offer)
    }

    /// Whether the client accepts a type.
    pub(crate) fn accepts(&self, offer: &str) -> bool {
        self.best(&[offer]).is_some()
    }
}

/// The weight of the most specific range that matches the offer; 0 if no range matches.
fn weight_of(offer: &str, ranges: &[Range]) -> u16 {
    let type_part = offer.split('/').next().unwrap_or(offer);
    let (mut best_specificity, mut best_weight) = (0, 0);
    for range in ranges {
        let specificity = if range.media_type == offer {
            if range.has_parameters {
                // Such a range matches only offers with the same parameters, and no offer has parameters.
                continue;
            }
            3
        } else if range
            .media_type
            .strip_suffix("/*")
            .is_some_and(|range_type| range_type == type_part)
        {
            2
        } else if range.media_type == "*/*" {
            1
        } else {
            continue;
        };
        if specificity > best_specificity {
            (best_specificity, best_weight) = (specificity, range.weight);
        }
    }
    best_weight
}

/// The media ranges of a header; none if it is malformed.
fn parse_ranges(header: &str) -> Option<Vec<Range>> {
    let mut scanner = Scanner(header);
    let mut ranges = Vec::new();
    loop {
        scanner.skip_spaces();
        if scanner.0.is_empty() {
            return Some(ranges);
        }
        if scanner.skip_char(',') {
            continue;
        }
        ranges.push(scanner.parse_range()?);
        scanner.skip_spaces();
        if !scanner.0.is_empty() && !scanner.skip_char(',') {
            return None;
        }
    }
}

/// The rest of a header that is being parsed.
struct Scanner<'a>(&'a str);

impl<'a> Scanner<'a> {
    fn skip_spaces(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    /// Skips this character; false if another one comes next.
    fn skip_char(&mut self, wanted: char) -> bool {
        match self.0.strip_prefix(wanted) {
            Some(remaining) => {
                self.0 = remaining;
                true
            }
            None => false,
        }
    }

    /// The token that comes next, if one does.
    fn parse_token(&mut self) -> Option<&'a str> {
        let end = self
            .0
            .find(|character| !is_token(character))
            .unwrap_or(self.0.len());
        let (token, remaining) = self.0.split_at(end);
        self.0 = remaining;
        (!token.is_empty()).then_some(token)
    }

    /// Skips a text in quotes; none if its closing quote is missing.
    fn skip_quoted(&mut self) -> Option<()> {
        let mut escaped = false;
        for (index, character) in self.0.char_indices().skip(1) {
            match character {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    self.0 = &self.0[index + 1..];
                    return Some(());
                }
                _ => {}
            }
        }
        None
    }

    /// The media range that comes next; none if it is malformed.
    fn parse_range(&mut self) -> Option<Range> {
        let type_part = self.parse_token()?;
        let subtype = self.skip_char('/').then(|| self.parse_token())??;
        let mut range = Range {
            media_type: format!("{type_part}/{subtype}").to_ascii_lowercase(),
            has_parameters: false,
            weight: 1000,
        };
        let mut has_weight = false;
        loop {
            let before = self.0;
            self.skip_spaces();
            if !self.skip_char(';') {
                self.0 = before;
                return Some(range);
            }
            self.skip_spaces();
            let name = self.parse_token()?;
            if !has_weight && name.eq_ignore_ascii_case("q") {
                range.weight = self
                    .skip_char('=')
                    .then(|| parse_weight(self.parse_token()?))??;
                has_weight = true;
                continue;
            }
            // Parameters after the weight extend the header, and are not parameters of the media type.
            range.has_parameters |= !has_weight;
            let has_value = self.skip_char('=');
            if has_value && self.0.starts_with('"') {
                self.skip_quoted()?;
            } else if has_value {
                self.parse_token()?;
            } else if !has_weight {
                // Only parameters after the weight may have no value.
                return None;
            }
        }
    }
}

fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}

/// Parses a weight, `0` to `1` with at most three digits after the dot, in thousandths; none for any other text.
fn parse_weight(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths: u16 = format!("{fraction:0<3}").parse().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_range_decides_and_the_heaviest_offer_wins() {
        let offers = ["text/html", "application/json"];
        for (header, best_offer, accepts_json) in [
            (None, Some("application/json"), true),
            (Some(""), Some("application/json"), true),
            (Some("*/*"), Some("application/json"), true),
            (Some("application/json"), Some("application/json"), true),
            (Some("text/html"), Some("text/html"), false),
            (Some("text/plain"), None, false),
            (Some("TEXT/HTML"), Some("text/html"), false),
            (Some("*/*;q=0.8"), Some("text/html"), true),
            (
                Some("text/html,application/xml;q=0.9,*/*;q=0.8"),
                Some("text/html"),
                true,
            ),
            (
                Some("text/html,application/xml;q=0.9"),
                Some("text/html"),
                false,
            ),
            (
                Some("application/*;q=0.3, text/html;q=0.2"),
                Some("application/json"),
                true,
            ),
            (Some("application/json;q=0, */*"), Some("text/html"), false),
            (Some("application/json;charset=utf-8"), None, false),
            (
                Some("application/json; q=0.5; ext"),
                Some("application/json"),
                true,
            ),
            (Some(", ,application/json"), Some("application/json"), true),
            (Some("bogus"), Some("text/html"), true),
            (Some("application/json;q=2"), Some("text/html"), true),
            (Some("application/json text/html"), Some("text/html"), true),
        ] {
            let accept = Accept::parse(header);
            assert_eq!(accept.best(&offers), best_offer, "{header:?}");
            assert_eq!(
                accept.accepts("application/json"),
                accepts_json,
                "{header:?}"
            );
        }
    }
}
