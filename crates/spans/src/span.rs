//! A span: a piece of work for a request, with its times and facts.

use std::time::SystemTime;

use crate::context::SpanContext;

/// The kind of a span (OpenTelemetry's `SpanKind`), with its number in OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Work within a role.
    Internal = 1,
    /// A request that a client sent.
    Server = 2,
    /// Work that was left for later by its parent.
    Consumer = 5,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text, in UTF-8.
    Text(String),
    /// A whole number, with its sign.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// A piece of work that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The trace, and the id of the span.
    pub context: SpanContext,
    /// The id of the parent; none for the first span of a trace.
    pub parent: Option<u64>,
    /// What was done, in a few constant words: ids are attributes.
    pub name: String,
    /// Whether it is work within a role, a client's request, or work that its parent left for later.
    pub kind: Kind,
    /// When it began, by the clock of its machine.
    pub start: SystemTime,
    /// When it ended, never before it began.
    pub end: SystemTime,
    /// Facts about it, by the names that operators search for.
    pub attributes: Vec<(&'static str, Value)>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// A piece of work under way.
#[derive(Clone, Debug)]
pub struct OpenSpan(Span);

impl OpenSpan {
    /// Begins a span now.
    #[must_use]
    pub fn begin(
        context: SpanContext,
        parent: Option<u64>,
        kind: Kind,
        name: impl Into<String>,
    ) -> Self {
        let start = SystemTime::now();
        Self(Span {
            context,
            parent,
            name: name.into(),
            kind,
            start,
            end: start,
            attributes: Vec::new(),
            error: None,
        })
    }

    /// Begins a span with a random id, as a child of another span.
    #[must_use]
    pub fn below(parent: SpanContext, kind: Kind, name: &'static str) -> Self {
        Self::begin(parent.sibling(), Some(parent.span), kind, name)
    }

    /// The span as the parent of others.
    #[must_use]
    pub fn context(&self) -> SpanContext {
        self.0.context
    }

    /// Appends the part of the name that is known only later.
    pub fn extend_name(&mut self, end: &str) {
        self.0.name.push_str(end);
    }

    /// Adds a fact to its attributes.
    pub fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.attributes.push((name, value.into()));
    }

    /// Records that the work failed, and why.
    pub fn fail(&mut self, why: impl Into<String>) {
        self.0.error = Some(why.into());
    }

    /// The span, which ends now.
    pub(crate) fn ended(mut self) -> Span {
        // A clock that was set back makes no span that ends before it begins.
        self.0.end = SystemTime::now().max(self.0.start);
        self.0
    }
}
