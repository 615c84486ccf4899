//! Collects candidates and summaries in slices.
//!
//! Most responses are small: the search and the writing take place in the first slice, under one
//! lock. For a large response the search runs in slices between which the state may change, the
//! summaries are collected in the same way, and the response is written without a lock. A candidate
//! with a provider that was deleted meanwhile is left out.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult};
use placewright_placement::{
    CandidateQuery, CandidateSearch, Candidates, ClassId, FoundProviders, ProviderId, State,
};
use uuid::Uuid;

use crate::candidate_texts::{self, CandidateCaches, Encoder};
use crate::microversion::Microversion;

/// The length of one slice of the search, in steps of about 10 ns.
const STEPS: usize = 200_000;

/// A response with more candidates, or with more amounts, groups or summaries than the next two
/// limits, is not written under the lock.
const CANDIDATES_SMALL: usize = 2_000;
const SIZE_SMALL: usize = 20_000;
const SUMMARIES_SMALL: usize = 4_000;

/// The summaries that are collected in one slice.
const SUMMARIES_OF_SLICE: usize = 2_000;

/// The advice to a client whose response is too large.
pub(super) const LIMIT: &str = "Ask for fewer candidates with limit=.";

/// The query, and what the search for it needs.
pub(super) struct SearchRequest<'a> {
    pub(super) query: &'a CandidateQuery,
    pub(super) version: Microversion,
    /// The key of the cached response, if this one may be cached.
    pub(super) asked: Option<(Microversion, &'a str)>,
    pub(super) kept: &'a CandidateCaches,
    pub(super) bytes_max: usize,
}

impl SearchRequest<'_> {
    /// The approximate size of the candidates in the response, in bytes.
    fn bytes(&self, found: &Candidates) -> usize {
        let (amounts, mapped) = found.size();
        let mut bytes = found.len() * 44 + amounts * 80;
        if self.version.since(34) {
            let groups = self.query.groups.iter();
            let names: usize = groups.map(|group| group.suffix.len() + 8).sum();
            bytes += found.len() * names + mapped * 40;
        }
        bytes
    }

    /// Rejects a response that is too large already.
    fn check(&self, found: &Candidates) -> ApiResult<()> {
        if self.bytes(found) <= self.bytes_max {
            return Ok(());
        }
        Err(ApiError::bad_request(format!(
            "The answer would have more bytes than placement.answer_bytes_max allows, {}. {LIMIT}",
            self.bytes_max
        )))
    }
}

/// A written response, or the collected data of a large one.
pub(super) enum CollectResult {
    Whole(Bytes),
    Large(Box<LargeResponse>),
}

/// The state of the collection between two slices.
pub(super) struct Collector {
    search: Option<CandidateSearch>,
    is_first: bool,
    large: Option<Box<LargeResponse>>,
}

impl Collector {
    pub(super) fn new(query: &CandidateQuery) -> Self {
        Self {
            search: Some(CandidateSearch::new(query)),
            is_first: true,
            large: None,
        }
    }

    /// Runs one slice. Returns the result once it is complete.
    pub(super) fn go_on(
        &mut self,
        state: &State,
        question: &SearchRequest<'_>,
    ) -> Option<ApiResult<CollectResult>> {
        if let Some(large) = &mut self.large {
            return large
                .go_on(state, question)
                .then(|| self.finish())
                .flatten();
        }
        let is_first = std::mem::replace(&mut self.is_first, false);
        if is_first
            && let Some(asked) = question.asked
            && let Some(answer) = question.kept.answers.get(state, asked)
        {
            return Some(Ok(CollectResult::Whole(answer)));
        }
        let search = self.search.as_mut()?;
        let is_over = match search.run_slice(state, STEPS) {
            Ok(is_over) => is_over,
            Err(refusal) => return Some(Err(super::refused(&refusal))),
        };
        if let Some(found) = search.found()
            && let Err(refused) = question.check(found)
        {
            return Some(Err(refused));
        }
        if !is_over {
            return None;
        }
        let mut search = self.search.take()?;
        if is_first && search.found().is_none_or(is_small) {
            let found = search.finish(state);
            if found.summaries().len() <= SUMMARIES_SMALL {
                return Some(Ok(CollectResult::Whole(whole(state, question, &found))));
            }
            search = CandidateSearch::new(question.query);
            // The search is in the midst of a wide tree, so what it repeats is short.
            if let Err(refusal) = search.run_slice(state, usize::MAX) {
                return Some(Err(super::refused(&refusal)));
            }
        }
        search.record_uuids(state);
        let (found, providers) = search.into_found();
        let mut large = Box::new(LargeResponse::new(found, providers));
        let is_over = large.go_on(state, question);
        self.large = Some(large);
        is_over.then(|| self.finish()).flatten()
    }

    fn finish(&mut self) -> Option<ApiResult<CollectResult>> {
        self.large
            .take()
            .map(|large| Ok(CollectResult::Large(large)))
    }
}

fn is_small(found: &Candidates) -> bool {
    let (amounts, mapped) = found.size();
    found.len() <= CANDIDATES_SMALL && amounts + mapped <= SIZE_SMALL
}

/// Writes the response under the lock, and caches it.
fn whole(state: &State, question: &SearchRequest<'_>, found: &Candidates) -> Bytes {
    let kept = question.kept;
    let answer = candidate_texts::write(
        state,
        question.query,
        found,
        question.version,
        &kept.summaries,
    );
    if let Some(asked) = question.asked {
        kept.answers.put(state, asked, answer.clone());
    }
    answer
}

/// The collected data of a large response.
#[derive(Debug)]
pub(super) struct LargeResponse {
    found: Candidates,
    providers: FoundProviders,
    /// The index of the next candidate to examine.
    next: usize,
    /// The providers in the response, by number.
    told: HashMap<ProviderId, Uuid>,
    /// Providers whose summaries are still to be collected.
    pending: Vec<ProviderId>,
    /// The summaries that were collected, as JSON.
    summaries: Vec<(ProviderId, Bytes)>,
    /// Providers of candidates that were deleted meanwhile.
    gone: HashSet<ProviderId>,
    classes: HashMap<ClassId, Box<str>>,
    candidate_bytes: usize,
    summary_bytes: usize,
    /// The bytes of summaries that are not shared with the cache.
    own_bytes: usize,
}

impl LargeResponse {
    fn new(found: Candidates, providers: FoundProviders) -> Self {
        Self {
            found,
            providers,
            next: 0,
            told: HashMap::new(),
            pending: Vec::new(),
            summaries: Vec::new(),
            gone: HashSet::new(),
            classes: HashMap::new(),
            candidate_bytes: 0,
            summary_bytes: 0,
            own_bytes: 0,
        }
    }

    /// The approximate size of the response, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.candidate_bytes + self.summary_bytes
    }

    /// The approximate memory that it occupies until it is written, in bytes.
    pub(super) fn held(&self) -> usize {
        let of_provider = size_of::<(ProviderId, Uuid)>();
        self.found.bytes()
            + self.providers.len() * of_provider
            + self.summaries.len() * size_of::<(ProviderId, Bytes)>()
            + self.own_bytes
    }

    /// Collects summaries for one slice. True once that is complete.
    fn go_on(&mut self, state: &State, question: &SearchRequest<'_>) -> bool {
        if self.next == 0 {
            self.candidate_bytes = question.bytes(&self.found);
            let classes = candidate_texts::requested_classes(state, question.query).into_iter();
            self.classes = classes
                .map(|class| (class, state.class_name(class).into()))
                .collect();
        }
        while self.pending.len() < SUMMARIES_OF_SLICE
            && let Some(candidate) = self.found.get(self.next)
        {
            self.next += 1;
            let mut last = None;
            for held in candidate.allocations() {
                if last.replace(held.provider) != Some(held.provider) {
                    let (told, pending) = (&mut self.told, &mut self.pending);
                    if !look(
                        state,
                        &self.providers,
                        held.provider,
                        question,
                        told,
                        pending,
                    ) {
                        self.gone.insert(held.provider);
                    }
                }
            }
        }
        let rest = self.pending.len().saturating_sub(SUMMARIES_OF_SLICE);
        let members = self.pending.split_off(rest);
        self.gather(state, question, &members);
        let is_over = self.next >= self.found.len() && self.pending.is_empty();
        if is_over {
            self.summaries.sort_unstable_by_key(|(id, _)| *id);
            self.told = HashMap::new();
        }
        is_over
    }

    fn gather(&mut self, state: &State, question: &SearchRequest<'_>, members: &[ProviderId]) {
        let (texts, own) = if question.version.since(29) {
            question.kept.summaries.gather(state, members)
        } else {
            let requested = (!question.version.since(27))
                .then(|| candidate_texts::requested_classes(state, question.query));
            let text = |id: &ProviderId| {
                let mut writer = Writer::with_capacity(512);
                let (requested, version) = (requested.as_deref(), question.version);
                candidate_texts::write_summary(&mut writer, state, *id, requested, version);
                Bytes::from(writer.finish())
            };
            let texts: Vec<Bytes> = members.iter().map(text).collect();
            let own = texts.iter().map(Bytes::len).sum();
            (texts, own)
        };
        self.own_bytes += own;
        self.summary_bytes += texts.iter().map(|text| text.len() + 2).sum::<usize>();
        // The text of a provider that was deleted from a large tree meanwhile is empty.
        let texts = members.iter().copied().zip(texts);
        self.summaries
            .extend(texts.filter(|(_, text)| !text.is_empty()));
    }

    pub(super) fn encoder(self, query: CandidateQuery, version: Microversion) -> Encoder {
        let summaries = self.summaries.into_iter().map(|(_, text)| text).collect();
        Encoder::new(
            query,
            version,
            self.found,
            self.providers,
            self.classes,
            self.gone,
            summaries,
        )
    }
}

/// Adds the providers that a candidate's provider brings into the response. False if it was
/// deleted.
fn look(
    state: &State,
    providers: &FoundProviders,
    id: ProviderId,
    question: &SearchRequest<'_>,
    told: &mut HashMap<ProviderId, Uuid>,
    members: &mut Vec<ProviderId>,
) -> bool {
    let uuid = providers.uuid(id);
    if let Some(known) = told.get(&id) {
        return Some(*known) == uuid;
    }
    let provider = state.provider(id);
    let Some(provider) = provider.filter(|provider| Some(provider.uuid) == uuid) else {
        return false;
    };
    let is_alone = provider.root == id && provider.children.is_empty();
    if is_alone || !question.query.nested {
        told.insert(id, provider.uuid);
        members.push(id);
        return true;
    }
    for member in state.subtree(provider.root) {
        if let Some(provider) = state.provider(member)
            && told.insert(member, provider.uuid).is_none()
        {
            members.push(member);
        }
    }
    true
}
