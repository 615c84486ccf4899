//! A parser for oslo.policy's rule language.
//!
//! Some mistakes (a check without a colon, unbalanced brackets) make oslo.policy log a line and allow
//! nobody. Here they are errors, so that they are found when the program starts.

use crate::policy::check::{Check, RuleSource};
use crate::policy::error::SyntaxError;
use crate::policy::template::Template;

/// The maximum nesting of brackets and `not`. The rules of real policies have about five.
const DEPTH_MAX: usize = 64;

/// Parses a rule in either form.
pub(crate) fn parse(source: &RuleSource) -> Result<Check, SyntaxError> {
    match source {
        RuleSource::Text(text) => parse_text(text),
        RuleSource::Lists(lists) => parse_lists(lists),
    }
}

/// Parses the language: `and`, `or`, `not`, brackets, checks. An empty text allows everybody.
pub(crate) fn parse_text(text: &str) -> Result<Check, SyntaxError> {
    if text.is_empty() {
        return Ok(Check::True);
    }
    let mut parser = Parser {
        tokens: tokens(text),
        next_token: 0,
        end_column: text.chars().count() + 1,
    };
    let check = parser.parse_or(0)?;
    match parser.peek() {
        None => Ok(check),
        Some(Token {
            column,
            kind: TokenKind::Close,
        }) => Err(SyntaxError::new(*column, "this ) closes nothing")),
        Some(token) => Err(SyntaxError::new(
            token.column,
            "expected \"and\" or \"or\" before this",
        )),
    }
}

/// Parses the list form, in which each text is one check without brackets or operators.
fn parse_lists(lists: &[Vec<String>]) -> Result<Check, SyntaxError> {
    if lists.is_empty() {
        return Ok(Check::True);
    }
    let mut alternatives = Vec::new();
    for list in lists.iter().filter(|list| !list.is_empty()) {
        let mut checks = Vec::new();
        for text in list {
            checks.push(parse_check(text, 1).map_err(|error| {
                SyntaxError::new(
                    error.column,
                    format!("in the list's {text:?}: {}", error.message),
                )
            })?);
        }
        alternatives.push(sole_or_group(checks, Check::All));
    }
    Ok(if alternatives.is_empty() {
        Check::False
    } else {
        sole_or_group(alternatives, Check::Any)
    })
}

/// The only check, or else the group of all checks.
fn sole_or_group(mut checks: Vec<Check>, group: impl FnOnce(Vec<Check>) -> Check) -> Check {
    if checks.len() == 1 {
        checks.swap_remove(0)
    } else {
        group(checks)
    }
}

struct Token<'t> {
    column: usize,
    kind: TokenKind<'t>,
}

enum TokenKind<'t> {
    /// `(` at the beginning of a word.
    Open,
    /// `)` at the end of a word.
    Close,
    And,
    Or,
    Not,
    /// A word in quotes, which is an error.
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
        let without_open = word.trim_start_matches('(');
        let open_count = word.len() - without_open.len();
        let check = without_open.trim_end_matches(')');
        let close_count = without_open.len() - check.len();
        tokens.extend((0..open_count).map(|n| Token {
            column: start + n,
            kind: TokenKind::Open,
        }));
        let check_column = start + open_count;
        if !check.is_empty() {
            let kind = match check.to_lowercase().as_str() {
                "and" => TokenKind::And,
                "or" => TokenKind::Or,
                "not" => TokenKind::Not,
                _ if is_quoted(without_open) => TokenKind::Quoted,
                _ => TokenKind::Check(check),
            };
            tokens.push(Token {
                column: check_column,
                kind,
            });
        }
        let close_column = check_column + check.chars().count();
        tokens.extend((0..close_count).map(|n| Token {
            column: close_column + n,
            kind: TokenKind::Close,
        }));
    }
    tokens
}

/// Whether a whole word is in quotes. oslo.policy does not parse such a word as a check.
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
    /// The index of the token to parse next.
    next_token: usize,
    /// The column after the text.
    end_column: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&Token<'t>> {
        self.tokens.get(self.next_token)
    }

    fn parse_or(&mut self, depth: usize) -> Result<Check, SyntaxError> {
        let mut checks = vec![self.parse_and(depth)?];
        while matches!(
            self.peek(),
            Some(Token {
                kind: TokenKind::Or,
                ..
            })
        ) {
            self.next_token += 1;
            checks.push(self.parse_and(depth)?);
        }
        Ok(sole_or_group(checks, Check::Any))
    }

    fn parse_and(&mut self, depth: usize) -> Result<Check, SyntaxError> {
        let mut checks = vec![self.parse_operand(depth)?];
        while matches!(
            self.peek(),
            Some(Token {
                kind: TokenKind::And,
                ..
            })
        ) {
            self.next_token += 1;
            checks.push(self.parse_operand(depth)?);
        }
        Ok(sole_or_group(checks, Check::All))
    }

    fn parse_operand(&mut self, depth: usize) -> Result<Check, SyntaxError> {
        let Some(token) = self.tokens.get(self.next_token) else {
            return Err(SyntaxError::new(
                self.end_column,
                "a check is missing at the end",
            ));
        };
        let column = token.column;
        if depth > DEPTH_MAX {
            return Err(SyntaxError::new(
                column,
                "too many brackets inside each other",
            ));
        }
        self.next_token += 1;
        match token.kind {
            TokenKind::Check(text) => parse_check(text, column),
            TokenKind::Not => Ok(Check::Not(Box::new(self.parse_operand(depth + 1)?))),
            TokenKind::Open => {
                let check = self.parse_or(depth + 1)?;
                match self.peek() {
                    Some(Token {
                        kind: TokenKind::Close,
                        ..
                    }) => {
                        self.next_token += 1;
                        Ok(check)
                    }
                    Some(token) => Err(SyntaxError::new(
                        token.column,
                        "expected \"and\", \"or\" or ) before this",
                    )),
                    None => Err(SyntaxError::new(column, "this ( is not closed")),
                }
            }
            TokenKind::Quoted => Err(SyntaxError::new(
                column,
                "a check cannot be in quotes from end to end",
            )),
            TokenKind::And | TokenKind::Or | TokenKind::Close => {
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
    let Some((kind, value)) = text.split_once(':') else {
        return Err(SyntaxError::new(
            column,
            format!("{text:?} is no check: write kind:value, as role:admin, or @ or !"),
        ));
    };
    let value_column = column + kind.chars().count() + 1;
    match kind {
        "rule" if value.is_empty() => {
            Err(SyntaxError::new(value_column, "a rule's name is missing"))
        }
        "rule" => Ok(Check::Rule(value.into())),
        "role" => Ok(Check::Role(Template::parse(value, value_column)?)),
        "http" | "https" => Err(SyntaxError::new(
            column,
            format!("{kind}: asks another server, which is not supported"),
        )),
        _ => {
            let template = Template::parse(value, value_column)?;
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
        let unquoted = kind
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(unquoted) = unquoted.filter(|unquoted| !unquoted.contains([quote, '\\'])) {
            return Some(unquoted.into());
        }
    }
    let digits = kind.strip_prefix(['+', '-']).unwrap_or(kind);
    let is_zero = digits.bytes().all(|byte| byte == b'0');
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // As in Python, 007 is invalid, 00 is 0, and there is no -0.
    if !is_number || (digits.starts_with('0') && !is_zero) {
        return None;
    }
    Some(if is_zero {
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
