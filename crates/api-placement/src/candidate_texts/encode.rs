//! Writes a large response in pieces, from candidates and summaries that were collected before.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use placewright_http::json::Writer;
use placewright_placement::{
    CandidateQuery, CandidateView, Candidates, ClassId, ProviderId, ProviderUuids,
};
use uuid::Uuid;

use super::answer::CandidateTemplate;
use super::names::Names;
use crate::microversion::Microversion;

/// The approximate size of a piece.
const PIECE_BYTES: usize = 64 << 10;

/// The part of the response that is written next; candidates and summaries by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Candidates(usize),
    Summaries(usize),
    End,
}

/// A large response that is being written.
#[derive(Debug)]
pub(crate) struct Encoder {
    query: CandidateQuery,
    version: Microversion,
    candidates: Candidates,
    names: CopiedNames,
    /// Providers that were deleted while the response was collected. Candidates that have one are left out.
    deleted_providers: HashSet<ProviderId>,
    summaries: Vec<Bytes>,
    template: CandidateTemplate,
    writer: Writer,
    /// The part that is written next.
    part: Part,
}

/// Names that were copied from the state, for use without its lock.
#[derive(Debug)]
struct CopiedNames {
    providers: ProviderUuids,
    classes: HashMap<ClassId, Box<str>>,
}

impl Names for CopiedNames {
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
        candidates: Candidates,
        providers: ProviderUuids,
        classes: HashMap<ClassId, Box<str>>,
        deleted_providers: HashSet<ProviderId>,
        summaries: Vec<Bytes>,
    ) -> Self {
        let mut writer = Writer::with_capacity(2 * PIECE_BYTES);
        writer.open_object();
        writer.key("allocation_requests");
        writer.open_array();
        Self {
            query,
            version,
            candidates,
            names: CopiedNames { providers, classes },
            deleted_providers,
            summaries,
            template: CandidateTemplate::default(),
            writer,
            part: Part::Candidates(0),
        }
    }

    /// Writes the next piece of the response; none after the last.
    pub(crate) fn next_piece(&mut self) -> Option<Vec<u8>> {
        if self.part == Part::End {
            return None;
        }
        while self.part != Part::End && self.writer.written().len() < PIECE_BYTES {
            self.write_next();
        }
        Some(self.writer.take())
    }

    fn write_next(&mut self) {
        let writer = &mut self.writer;
        match self.part {
            Part::Candidates(next) => {
                if let Some(candidate) = self.candidates.get(next) {
                    if self.deleted_providers.is_empty()
                        || !has_deleted_provider(&candidate, &self.deleted_providers)
                    {
                        let (query, version) = (&self.query, self.version);
                        (self.template).write(writer, &self.names, query, &candidate, version);
                    }
                    self.part = Part::Candidates(next + 1);
                    return;
                }
                writer.close_array();
                writer.key("provider_summaries");
                writer.open_object();
                self.candidates = Candidates::default();
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
                self.part = Part::End;
            }
            Part::End => {}
        }
    }
}

/// Whether a candidate has one of these deleted providers.
fn has_deleted_provider(
    candidate: &CandidateView<'_>,
    deleted_providers: &HashSet<ProviderId>,
) -> bool {
    let allocations = candidate.allocations().iter();
    let mapped_providers = candidate.mappings().flatten();
    allocations
        .map(|allocation| &allocation.provider)
        .chain(mapped_providers)
        .any(|id| deleted_providers.contains(id))
}
