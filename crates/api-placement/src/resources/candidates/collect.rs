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
    CandidateQuery, CandidateSearch, Candidates, ClassId, ProviderId, ProviderUuids, State,
};
use uuid::Uuid;

use crate::candidate_texts::{self, CacheKey, CandidateCaches, Encoder};
use crate::microversion::Microversion;

/// The steps of the search in one slice; a step takes about 10 ns.
const STEPS_PER_SLICE: usize = 200_000;

/// A response with more candidates than this is not written under the lock.
const SMALL_CANDIDATES_MAX: usize = 2_000;
/// A response with more amounts and mapped providers than this is not written under the lock.
const SMALL_SIZE_MAX: usize = 20_000;
/// A response with more summaries than this is not written under the lock.
const SMALL_SUMMARIES_MAX: usize = 4_000;

/// The summaries that are collected in one slice.
const SUMMARIES_PER_SLICE: usize = 2_000;

/// The approximate bytes of a candidate in a response, without its amounts and mappings.
const CANDIDATE_BYTES: usize = 44;
/// The approximate bytes of an amount in a response, with the UUID of its provider.
const AMOUNT_BYTES: usize = 80;
/// The approximate bytes of a group in the mappings of a candidate, without its suffix and providers.
const GROUP_BYTES: usize = 8;
/// The bytes of a provider in the mappings of a candidate: its UUID, quotes, a comma and a space.
const MAPPED_PROVIDER_BYTES: usize = 40;
/// The bytes of the comma and the space before a summary.
const SEPARATOR_BYTES: usize = 2;

/// The advice to a client whose response is too large.
pub(super) const FEWER_CANDIDATES_ADVICE: &str = "Ask for fewer candidates with limit=.";

/// A query for candidates, with the data that the search and the writing of the response need.
pub(super) struct SearchRequest<'a> {
    pub(super) query: &'a CandidateQuery,
    pub(super) version: Microversion,
    /// The key under which the response is cached; none if it may not be cached.
    pub(super) cache_key: Option<CacheKey<'a>>,
    pub(super) caches: &'a CandidateCaches,
    pub(super) bytes_max: usize,
}

impl SearchRequest<'_> {
    /// The approximate size of the candidates in the response, in bytes.
    fn candidate_bytes(&self, candidates: &Candidates) -> usize {
        let (amounts, mapped_providers) = candidates.size();
        let mut bytes = candidates.len() * CANDIDATE_BYTES + amounts * AMOUNT_BYTES;
        if self.version.since(34) {
            let groups = self.query.groups.iter();
            let name_bytes: usize = groups.map(|group| group.suffix.len() + GROUP_BYTES).sum();
            bytes += candidates.len() * name_bytes + mapped_providers * MAPPED_PROVIDER_BYTES;
        }
        bytes
    }

    /// Rejects a response whose candidates alone are too large.
    fn check_size(&self, candidates: &Candidates) -> ApiResult<()> {
        if self.candidate_bytes(candidates) <= self.bytes_max {
            return Ok(());
        }
        Err(ApiError::bad_request(format!(
            "The answer would have more bytes than placement.answer_bytes_max allows, {}. \
             {FEWER_CANDIDATES_ADVICE}",
            self.bytes_max
        )))
    }
}

/// A written response, or the collected data of a large one.
pub(super) enum CollectResult {
    Written(Bytes),
    Large(Box<LargeResponse>),
}

/// The state of the collection between two slices.
pub(super) struct Collector {
    /// The search, until it is complete.
    search: Option<CandidateSearch>,
    is_first_slice: bool,
    /// The data of a large response, once the search is complete.
    large: Option<Box<LargeResponse>>,
}

impl Collector {
    pub(super) fn new(query: &CandidateQuery) -> Self {
        Self {
            search: Some(CandidateSearch::new(query)),
            is_first_slice: true,
            large: None,
        }
    }

    /// Runs one slice. Returns the result once it is complete, none before.
    pub(super) fn run_slice(
        &mut self,
        state: &State,
        request: &SearchRequest<'_>,
    ) -> Option<ApiResult<CollectResult>> {
        if let Some(large) = &mut self.large {
            return large
                .run_slice(state, request)
                .then(|| self.finish())
                .flatten();
        }
        let is_first_slice = std::mem::replace(&mut self.is_first_slice, false);
        if is_first_slice
            && let Some(key) = request.cache_key
            && let Some(response) = request.caches.responses.get(state, key)
        {
            return Some(Ok(CollectResult::Written(response)));
        }
        let search = self.search.as_mut()?;
        let is_complete = match search.run_slice(state, STEPS_PER_SLICE) {
            Ok(is_complete) => is_complete,
            Err(refusal) => return Some(Err(super::refusal_error(&refusal))),
        };
        if let Some(candidates) = search.found()
            && let Err(error) = request.check_size(candidates)
        {
            return Some(Err(error));
        }
        if !is_complete {
            return None;
        }
        let mut search = self.search.take()?;
        // If no provider can serve the query, `found` returns none.
        if is_first_slice && search.found().is_none_or(is_small) {
            let candidates = search.finish(state);
            if candidates.summaries().len() <= SMALL_SUMMARIES_MAX {
                return Some(Ok(CollectResult::Written(write_and_cache(
                    state,
                    request,
                    &candidates,
                ))));
            }
            search = CandidateSearch::new(request.query);
            // `finish` consumed the search. It began within this slice, so it is short enough to repeat.
            if let Err(refusal) = search.run_slice(state, usize::MAX) {
                return Some(Err(super::refusal_error(&refusal)));
            }
        }
        search.record_uuids(state);
        let (candidates, providers) = search.into_found();
        let mut large = Box::new(LargeResponse::new(candidates, providers));
        let is_complete = large.run_slice(state, request);
        self.large = Some(large);
        is_complete.then(|| self.finish()).flatten()
    }

    /// The result with the collected data of a large response, once that is complete.
    fn finish(&mut self) -> Option<ApiResult<CollectResult>> {
        self.large
            .take()
            .map(|large| Ok(CollectResult::Large(large)))
    }
}

fn is_small(candidates: &Candidates) -> bool {
    let (amounts, mapped_providers) = candidates.size();
    candidates.len() <= SMALL_CANDIDATES_MAX && amounts + mapped_providers <= SMALL_SIZE_MAX
}

/// Writes the response, under the state's lock, and caches it.
fn write_and_cache(state: &State, request: &SearchRequest<'_>, candidates: &Candidates) -> Bytes {
    let caches = request.caches;
    let response = candidate_texts::write(
        state,
        request.query,
        candidates,
        request.version,
        &caches.summaries,
    );
    if let Some(key) = request.cache_key {
        caches.responses.put(state, key, response.clone());
    }
    response
}

/// The collected data of a large response.
#[derive(Debug)]
pub(super) struct LargeResponse {
    candidates: Candidates,
    providers: ProviderUuids,
    /// The index of the next candidate to examine.
    next_candidate: usize,
    /// The UUIDs of the providers with a summary in the response.
    summarized: HashMap<ProviderId, Uuid>,
    /// Providers whose summaries are still to be collected.
    pending_summaries: Vec<ProviderId>,
    /// The summaries that were collected, as JSON.
    summaries: Vec<(ProviderId, Bytes)>,
    /// Providers that were deleted since the search found candidates with them.
    deleted_providers: HashSet<ProviderId>,
    classes: HashMap<ClassId, Box<str>>,
    /// The approximate size of the candidates in the response, in bytes.
    candidate_bytes: usize,
    /// The size of the summaries that were collected so far, in bytes.
    summary_bytes: usize,
    /// The bytes of the summaries that were not in the cache, and occupy memory because of this response.
    uncached_bytes: usize,
}

impl LargeResponse {
    fn new(candidates: Candidates, providers: ProviderUuids) -> Self {
        Self {
            candidates,
            providers,
            next_candidate: 0,
            summarized: HashMap::new(),
            pending_summaries: Vec::new(),
            summaries: Vec::new(),
            deleted_providers: HashSet::new(),
            classes: HashMap::new(),
            candidate_bytes: 0,
            summary_bytes: 0,
            uncached_bytes: 0,
        }
    }

    /// The approximate size of the response, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.candidate_bytes + self.summary_bytes
    }

    /// The approximate memory that the collected data occupies until it is written, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let provider_bytes = size_of::<(ProviderId, Uuid)>();
        self.candidates.bytes()
            + self.providers.len() * provider_bytes
            + self.summaries.len() * size_of::<(ProviderId, Bytes)>()
            + self.uncached_bytes
    }

    /// Collects summaries for one slice. True once all are collected.
    fn run_slice(&mut self, state: &State, request: &SearchRequest<'_>) -> bool {
        if self.next_candidate == 0 {
            self.candidate_bytes = request.candidate_bytes(&self.candidates);
            let classes = candidate_texts::requested_classes(state, request.query).into_iter();
            self.classes = classes
                .map(|class| (class, state.class_name(class).into()))
                .collect();
        }
        while self.pending_summaries.len() < SUMMARIES_PER_SLICE
            && let Some(candidate) = self.candidates.get(self.next_candidate)
        {
            self.next_candidate += 1;
            // Since this version a group may have no resources. Its provider is in the mappings only.
            if request.version.since(36) {
                for provider in candidate.mappings().flatten() {
                    let recorded = self.providers.uuid(*provider);
                    let is_other = |uuid| recorded.is_some_and(|recorded| recorded != uuid);
                    let found = state.provider(*provider);
                    if found.is_none_or(|found| is_other(found.uuid)) {
                        self.deleted_providers.insert(*provider);
                    }
                }
            }
            let mut last_provider = None;
            for allocation in candidate.allocations() {
                if last_provider.replace(allocation.provider) != Some(allocation.provider) {
                    let (summarized, pending_summaries) =
                        (&mut self.summarized, &mut self.pending_summaries);
                    if !add_summarized_providers(
                        state,
                        &self.providers,
                        allocation.provider,
                        request,
                        summarized,
                        pending_summaries,
                    ) {
                        self.deleted_providers.insert(allocation.provider);
                    }
                }
            }
        }
        let remaining_len = self
            .pending_summaries
            .len()
            .saturating_sub(SUMMARIES_PER_SLICE);
        let providers = self.pending_summaries.split_off(remaining_len);
        self.collect_summaries(state, request, &providers);
        let is_complete =
            self.next_candidate >= self.candidates.len() && self.pending_summaries.is_empty();
        if is_complete {
            self.summaries.sort_unstable_by_key(|(id, _)| *id);
            self.summarized = HashMap::new();
        }
        is_complete
    }

    fn collect_summaries(
        &mut self,
        state: &State,
        request: &SearchRequest<'_>,
        providers: &[ProviderId],
    ) {
        let (texts, uncached_bytes) = if request.version.since(29) {
            request.caches.summaries.collect(state, providers)
        } else {
            let requested = (!request.version.since(27))
                .then(|| candidate_texts::requested_classes(state, request.query));
            let text = |id: &ProviderId| {
                let mut writer = Writer::with_capacity(512);
                let (requested, version) = (requested.as_deref(), request.version);
                candidate_texts::write_summary(&mut writer, state, *id, requested, version);
                Bytes::from(writer.finish())
            };
            let texts: Vec<Bytes> = providers.iter().map(text).collect();
            let uncached_bytes = texts.iter().map(Bytes::len).sum();
            (texts, uncached_bytes)
        };
        self.uncached_bytes += uncached_bytes;
        self.summary_bytes += texts
            .iter()
            .map(|text| text.len() + SEPARATOR_BYTES)
            .sum::<usize>();
        // The text is empty for a provider that was deleted since its tree was examined.
        let texts = providers.iter().copied().zip(texts);
        self.summaries
            .extend(texts.filter(|(_, text)| !text.is_empty()));
    }

    pub(super) fn into_encoder(self, query: CandidateQuery, version: Microversion) -> Encoder {
        let summaries = self.summaries.into_iter().map(|(_, text)| text).collect();
        Encoder::new(
            query,
            version,
            self.candidates,
            self.providers,
            self.classes,
            self.deleted_providers,
            summaries,
        )
    }
}

/// Adds the providers whose summaries a candidate with the provider `id` needs: from microversion 1.29
/// on all providers of its tree, in older ones only the provider itself. Returns false if the provider
/// was deleted. UUIDs are compared, because a new provider may have got the id of a deleted one.
fn add_summarized_providers(
    state: &State,
    providers: &ProviderUuids,
    id: ProviderId,
    request: &SearchRequest<'_>,
    summarized: &mut HashMap<ProviderId, Uuid>,
    pending_summaries: &mut Vec<ProviderId>,
) -> bool {
    let uuid = providers.uuid(id);
    if let Some(summarized_uuid) = summarized.get(&id) {
        return Some(*summarized_uuid) == uuid;
    }
    let provider = state.provider(id);
    let Some(provider) = provider.filter(|provider| Some(provider.uuid) == uuid) else {
        return false;
    };
    let is_sole_provider_of_tree = provider.root == id && provider.children.is_empty();
    if is_sole_provider_of_tree || !request.query.nested {
        summarized.insert(id, provider.uuid);
        pending_summaries.push(id);
        return true;
    }
    for member in state.subtree(provider.root) {
        if let Some(provider) = state.provider(member)
            && summarized.insert(member, provider.uuid).is_none()
        {
            pending_summaries.push(member);
        }
    }
    true
}
