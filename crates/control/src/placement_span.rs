//! The tracing spans of the placement of builds: one of the ranking, then one of the claim, and again both if other
//! claims were faster.

use placewright_conductor::SpecBody;
use placewright_records::server::traceparent;
use placewright_spans::{Kind, OpenSpan, SpanContext, tracer};

/// The span of what is done for a placement now; nothing if no trace of its request is recorded.
#[derive(Debug, Default)]
pub(crate) struct PlacementSpan(Option<Open>);

#[derive(Debug)]
struct Open {
    /// The span of the API request.
    request: SpanContext,
    span: OpenSpan,
}

impl PlacementSpan {
    /// Begins the ranking for builds whose specifications have this body. Nothing is read unless traces are recorded.
    pub(crate) fn begin_ranking(body: &SpecBody, instance_count: usize) -> Self {
        if tracer().is_none() {
            return Self(None);
        }
        let request = traceparent(body).and_then(|text| SpanContext::parse(&text));
        Self(request.map(|request| {
            let mut span = OpenSpan::below(request, Kind::Consumer, "rank hosts");
            span.add("placewright.instances", instance_count);
            Open { request, span }
        }))
    }

    /// Ends the ranking, and begins the claim, which names this number of hosts.
    pub(crate) fn begin_claim(&mut self, host_count: usize) {
        self.step("claim hosts", |ranking| {
            ranking.add("placewright.hosts", host_count);
        });
    }

    /// Ends the claim, and begins the ranking for the instances that got no host.
    pub(crate) fn rank_again(&mut self, claimed_count: usize, lost_count: usize) {
        self.step("rank hosts", |claim| {
            add_counts(claim, claimed_count, lost_count);
        });
    }

    /// Ends the claim, after which nothing follows.
    pub(crate) fn end_claim(&mut self, claimed_count: usize, lost_count: usize) {
        self.end(|claim| add_counts(claim, claimed_count, lost_count));
    }

    /// Ends the present span with a failure.
    pub(crate) fn fail(&mut self, why: &'static str) {
        self.end(|span| span.fail(why));
    }

    fn step(&mut self, next: &'static str, add_facts: impl FnOnce(&mut OpenSpan)) {
        let request = self.0.as_ref().map(|open| open.request);
        self.end(add_facts);
        self.0 = request.map(|request| Open {
            request,
            span: OpenSpan::below(request, Kind::Consumer, next),
        });
    }

    fn end(&mut self, add_facts: impl FnOnce(&mut OpenSpan)) {
        if let (Some(mut open), Some(tracer)) = (self.0.take(), tracer()) {
            add_facts(&mut open.span);
            open.span.end(tracer);
        }
    }
}

fn add_counts(claim: &mut OpenSpan, claimed_count: usize, lost_count: usize) {
    claim.add("placewright.claimed", claimed_count);
    claim.add("placewright.lost", lost_count);
}
