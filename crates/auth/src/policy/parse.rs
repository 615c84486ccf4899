//! A parser for oslo.policy's rule language.
//!
//! What oslo.policy treats as "nobody" with a log line (a check without a colon, unbalanced
//! brackets) is an error here, so that the mistake is found at the start.

use crate::policy::check::{Check, Source};
use crate::policy::error::SyntaxError;
use crate::policy::template::Template;

/// The maximum nesting of brackets and `not`. Real rules have a handful.
const DEPTH_MAX: usize = 64;

/// Parses a rule in either form.
pub(crate) fn parse(source: &Source) -> Result<Check, SyntaxError> {
    match source {
        Source::Text(text) => parse_text(text),
        Source::Lists(lists) => parse_lists(lists),
    }
}

/// Parses the language: `and`, `or`, `not`, brackets, checks. An empty text allows everybody.
pub(crate) fn parse_text(text: &str) -> Result<Check, SyntaxError> {
    if text.is_empty() {
        return Ok(Check::True);
    }
    let mut parser = Parser {
        tokens: tokens(text),
        next: 0,
        end: text.chars().count() + 1,
    };
    let check = parser.any(0)?;
    match parser.peek() {
        None => Ok(check),
        Some(Token {
            column,
            kind: Kind::Close,
        }) => Err(SyntaxError::new(*column, "this ) closes nothing")),
        Some(token) => Err(SyntaxError::new(
            token.column,
            "expected \"and\" or \"or\" before this",
        )),
    }
}

/// Parses the old form, in which each text is one check without brackets or operators.
fn parse_lists(lists: &[Vec<String>]) -> Result<Check, SyntaxError> {
    if lists.is_empty() {
        return Ok(Check::True);
    }
    let mut any = Vec::new();
    for list in lists.iter().filter(|list| !list.is_empty()) {
        let mut all = Vec::new();
        for text in list {
            all.push(parse_check(text, 1).map_err(|error| {
                SyntaxError::new(
                    error.column,
                    format!("in the list's {text:?}: {}", error.message),
                )
            })?);
        }
        any.push(single_or(all, Check::All));
    }
    Ok(if any.is_empty() {
        Check::False
    } else {
        single_or(any, Check::Any)
    })
}

fn single_or(mut checks: Vec<Check>, group: impl FnOnce(Vec<Check>) -> Check) -> Check {
    if checks.len() == 1 {
        checks.swap_remove(0)
    } else {
        group(checks)
    }
}

struct Token<'t> {
    column: usize,
    kind: Kind<'t>,
}

enum Kind<'t> {
    Open,
    Close,
    And,
    Or,
    Not,
    Quoted,
    Check(&'t str),
}

/// Splits a text at its spaces. Brackets are recognised only at the ends of a word, so that
/// `%(name)s` stays whole.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut column = 1;
    for word in text.split(is_space) {
        let start = column;
        column += word.chars().count() + 1;
        let inner = word.trim_start_matches('(');
        let opened = word.len() - inner.len();
        let check = inner.trim_end_matches(')');
        let closed = inner.len() - check.len();
        tokens.extend((0..opened).map(|n| Token {
            column: start + n,
            kind: Kind::Open,
        }));
        let at = start + opened;
        if !check.is_empty() {
            let kind = match check.to_lowercase().as_str() {
                "and" => Kind::And,
                "or" => Kind::Or,
                "not" => Kind::Not,
                _ if is_quoted(inner) => Kind::Quoted,
                _ => Kind::Check(check),
            };
            tokens.push(Token { column: at, kind });
        }
        let at = at + check.chars().count();
        tokens.extend((0..closed).map(|n| Token {
            column: at + n,
            kind: Kind::Close,
        }));
    }
    tokens
}

/// Whether a word as a whole is quoted, which oslo.policy treats as a text and not as a check.
fn is_quoted(word: &str) -> bool {
    word.len() >= 2
        && ['\'', '"']
            .iter()
            .any(|&quote| word.starts_with(quote) && word.ends_with(quote))
}

/// White space as matched by Python's `\s`.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    next: usize,
    end: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&Token<'t>> {
        self.tokens.get(self.next)
    }

    fn any(&mut self, depth: usize) -> Result<Check, SyntaxError> {
        let mut checks = vec![self.all(depth)?];
        while matches!(self.peek(), Some(Token { kind: Kind::Or, .. })) {
            self.next += 1;
            checks.push(self.all(depth)?);
        }
        Ok(single_or(checks, Check::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Check, SyntaxError> {
        let mut checks = vec![self.one(depth)?];
        while matches!(
            self.peek(),
            Some(Token {
                kind: Kind::And,
                ..
            })
        ) {
            self.next += 1;
            checks.push(self.one(depth)?);
        }
        Ok(single_or(checks, Check::All))
    }

    fn one(&mut self, depth: usize) -> Result<Check, SyntaxError> {
        let Some(token) = self.tokens.get(self.next) else {
            return Err(SyntaxError::new(self.end, "a check is missing at the end"));
        };
        let column = token.column;
        if depth > DEPTH_MAX {
            return Err(SyntaxError::new(
                column,
                "too many brackets inside each other",
            ));
        }
        self.next += 1;
        match token.kind {
            Kind::Check(text) => parse_check(text, column),
            Kind::Not => Ok(Check::Not(Box::new(self.one(depth + 1)?))),
            Kind::Open => {
                let check = self.any(depth + 1)?;
                match self.peek() {
                    Some(Token {
                        kind: Kind::Close, ..
                    }) => {
                        self.next += 1;
                        Ok(check)
                    }
                    Some(token) => Err(SyntaxError::new(
                        token.column,
                        "expected \"and\", \"or\" or ) before this",
                    )),
                    None => Err(SyntaxError::new(column, "this ( is not closed")),
                }
            }
            Kind::Quoted => Err(SyntaxError::new(
                column,
                "a check cannot be in quotes from end to end",
            )),
            Kind::And | Kind::Or | Kind::Close => {
                Err(SyntaxError::new(column, "expected a check before this"))
            }
        }
    }
}

/// Parses one check: `@`, `!` or `kind:match`.
fn parse_check(text: &str, column: usize) -> Result<Check, SyntaxError> {
    match text {
        "@" => return Ok(Check::True),
        "!" => return Ok(Check::False),
        _ => {}
    }
    let Some((kind, matched)) = text.split_once(':') else {
        return Err(SyntaxError::new(
            column,
            format!("{text:?} is no check: write kind:value, as role:admin, or @ or !"),
        ));
    };
    let value_column = column + kind.chars().count() + 1;
    match kind {
        "rule" if matched.is_empty() => {
            Err(SyntaxError::new(value_column, "a rule's name is missing"))
        }
        "rule" => Ok(Check::Rule(matched.into())),
        "role" => Ok(Check::Role(Template::parse(matched, value_column)?)),
        "http" | "https" => Err(SyntaxError::new(
            column,
            format!("{kind}: asks another server, which is not supported"),
        )),
        _ => {
            let template = Template::parse(matched, value_column)?;
            if let Some(literal) = literal(kind) {
                Ok(Check::Literal(literal, template))
            } else if is_path(kind) {
                Ok(Check::Credential(kind.into(), template))
            } else {
                Err(SyntaxError::new(
                    column,
                    format!("{kind:?} is neither a credential's name nor a literal"),
                ))
            }
        }
    }
}

/// The value of a Python literal: a quoted string, `True`, `False`, `None` or a whole number.
fn literal(kind: &str) -> Option<Box<str>> {
    if matches!(kind, "True" | "False" | "None") {
        return Some(kind.into());
    }
    for quote in ['\'', '"'] {
        let inner = kind
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner.filter(|inner| !inner.contains([quote, '\\'])) {
            return Some(inner.into());
        }
    }
    let digits = kind.strip_prefix(['+', '-']).unwrap_or(kind);
    let zero = digits.bytes().all(|byte| byte == b'0');
    let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // As in Python, 007 is invalid, 00 is 0, and there is no -0.
    if !number || (digits.starts_with('0') && !zero) {
        return None;
    }
    Some(if zero {
        "0".into()
    } else {
        kind.strip_prefix('+').unwrap_or(kind).into()
    })
}

/// Whether a text can name an attribute: words joined by dots.
fn is_path(kind: &str) -> bool {
    kind.split('.').all(|word| {
        let mut characters = word.chars();
        characters
            .next()
            .is_some_and(|first| first.is_alphabetic() || first == '_')
            && characters.all(|c| c.is_alphanumeric() || c == '_' || c == '-')
    })
}
