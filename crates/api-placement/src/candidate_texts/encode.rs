//! Writes a large response piece by piece from what was collected before.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use placewright_http::json::Writer;
use placewright_placement::{
    CandidateQuery, CandidateView, Candidates, ClassId, FoundProviders, ProviderId,
};
use uuid::Uuid;

use super::answer::CandidateTemplate;
use super::names::Names;
use crate::microversion::Microversion;

/// The approximate size of a piece.
const PIECE_BYTES: usize = 64 << 10;

/// The part of the response that is written next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Candidates(usize),
    Summaries(usize),
    Nothing,
}

/// A large response that is being written.
#[derive(Debug)]
pub(crate) struct Encoder {
    query: CandidateQuery,
    version: Microversion,
    found: Candidates,
    names: Copied,
    gone: HashSet<ProviderId>,
    summaries: Vec<Bytes>,
    template: CandidateTemplate,
    writer: Writer,
    part: Part,
}

/// Names that were copied from the state, for use without its lock.
#[derive(Debug)]
struct Copied {
    providers: FoundProviders,
    classes: HashMap<ClassId, Box<str>>,
}

impl Names for Copied {
    fn uuid(&self, provider: ProviderId) -> Option<Uuid> {
        self.providers.uuid(provider)
    }

    fn class(&self, class: ClassId) -> &str {
        self.classes.get(&class).map_or("", |name| name)
    }
}

impl Encoder {
    pub(crate) fn new(
        query: CandidateQuery,
        version: Microversion,
        found: Candidates,
        providers: FoundProviders,
        classes: HashMap<ClassId, Box<str>>,
        gone: HashSet<ProviderId>,
        summaries: Vec<Bytes>,
    ) -> Self {
        let mut writer = Writer::with_capacity(2 * PIECE_BYTES);
        writer.open_object();
        writer.key("allocation_requests");
        writer.open_array();
        Self {
            query,
            version,
            found,
            names: Copied { providers, classes },
            gone,
            summaries,
            template: CandidateTemplate::default(),
            writer,
            part: Part::Candidates(0),
        }
    }

    /// Writes the next piece; none at the end.
    pub(crate) fn piece(&mut self) -> Option<Vec<u8>> {
        if self.part == Part::Nothing {
            return None;
        }
        while self.part != Part::Nothing && self.writer.written().len() < PIECE_BYTES {
            self.go_on();
        }
        Some(self.writer.take())
    }

    fn go_on(&mut self) {
        let writer = &mut self.writer;
        match self.part {
            Part::Candidates(next) => {
                if let Some(candidate) = self.found.get(next) {
                    if self.gone.is_empty() || !names_any(&candidate, &self.gone) {
                        let (query, version) = (&self.query, self.version);
                        (self.template).write(writer, &self.names, query, &candidate, version);
                    }
                    self.part = Part::Candidates(next + 1);
                    return;
                }
                writer.close_array();
                writer.key("provider_summaries");
                writer.open_object();
                self.found = Candidates::default();
                self.part = Part::Summaries(0);
            }
            Part::Summaries(next) => {
                if let Some(summary) = self.summaries.get_mut(next) {
                    writer.raw(&std::mem::take(summary));
                    self.part = Part::Summaries(next + 1);
                    return;
                }
                writer.close_object();
                writer.close_object();
                self.part = Part::Nothing;
            }
            Part::Nothing => {}
        }
    }
}

fn names_any(candidate: &CandidateView<'_>, gone: &HashSet<ProviderId>) -> bool {
    let amounts = candidate.allocations().iter();
    let mapped = candidate.mappings().flatten();
    amounts
        .map(|held| &held.provider)
        .chain(mapped)
        .any(|id| gone.contains(id))
}
