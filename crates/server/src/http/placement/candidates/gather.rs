//! Gathering candidates and summaries in slices.
//!
//! Most answers are small: they are searched and written in the first slice, under one lock. A large
//! one is searched in slices between which the state may change, then the summaries are gathered in the
//! same way, and what was gathered is written when nobody waits for the state any more. A candidate of
//! which a provider is gone by then is left out.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use placewright_placement::{
    CandidateQuery, CandidateSearch, Candidates, ClassId, FoundProviders, ProviderId, State,
};
use uuid::Uuid;

use super::answer;
use super::encode::Encoder;
use super::kept::Kept;
use crate::http::error::{ApiError, ApiResult};
use crate::http::json::Writer;
use crate::http::microversion::Microversion;

/// One slice of the search, in steps of about 10 ns.
const STEPS: usize = 200_000;

/// An answer of more candidates, amounts and groups, or summaries is not written under the lock.
const CANDIDATES_SMALL: usize = 2_000;
const SIZE_SMALL: usize = 20_000;
const SUMMARIES_SMALL: usize = 4_000;

/// So many providers' summaries are gathered before others have their turn.
const SUMMARIES_OF_SLICE: usize = 2_000;

/// What somebody can do whose answer is too large.
pub(super) const LIMIT: &str = "Ask for fewer candidates with limit=.";

/// What is asked.
pub(super) struct Question<'a> {
    pub(super) query: &'a CandidateQuery,
    pub(super) version: Microversion,
    /// What kept answers are found by, if this one may be kept.
    pub(super) asked: Option<(Microversion, &'a str)>,
    pub(super) kept: &'a Kept,
    pub(super) bytes_max: usize,
}

impl Question<'_> {
    /// About how many bytes the candidates will take in the answer.
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

    /// Refuses what is too large already.
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

/// An answer, or what one is written from.
pub(super) enum Found {
    Whole(Bytes),
    Large(Box<Large>),
}

/// What was gathered so far.
pub(super) struct Gathered {
    search: Option<CandidateSearch>,
    is_first: bool,
    large: Option<Box<Large>>,
}

impl Gathered {
    pub(super) fn new(query: &CandidateQuery) -> Self {
        Self {
            search: Some(CandidateSearch::new(query)),
            is_first: true,
            large: None,
        }
    }

    /// One slice; the answer once that is all.
    pub(super) fn go_on(
        &mut self,
        state: &State,
        question: &Question<'_>,
    ) -> Option<ApiResult<Found>> {
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
            return Some(Ok(Found::Whole(answer)));
        }
        let search = self.search.as_mut()?;
        let is_over = match search.go_on(state, STEPS) {
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
                return Some(Ok(Found::Whole(whole(state, question, &found))));
            }
            search = CandidateSearch::new(question.query);
            // It is in the midst of a wide tree, so the search itself was short.
            if let Err(refusal) = search.go_on(state, usize::MAX) {
                return Some(Err(super::refused(&refusal)));
            }
        }
        search.note_providers(state);
        let (found, providers) = search.into_found();
        let mut large = Box::new(Large::new(found, providers));
        let is_over = large.go_on(state, question);
        self.large = Some(large);
        is_over.then(|| self.finish()).flatten()
    }

    fn finish(&mut self) -> Option<ApiResult<Found>> {
        self.large.take().map(|large| Ok(Found::Large(large)))
    }
}

fn is_small(found: &Candidates) -> bool {
    let (amounts, mapped) = found.size();
    found.len() <= CANDIDATES_SMALL && amounts + mapped <= SIZE_SMALL
}

/// The answer, written under the lock, and kept for whoever asks the same.
fn whole(state: &State, question: &Question<'_>, found: &Candidates) -> Bytes {
    let kept = question.kept;
    let answer = answer::write(
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

/// A large answer before it is written.
#[derive(Debug)]
pub(super) struct Large {
    found: Candidates,
    providers: FoundProviders,
    /// The candidate that comes next.
    next: usize,
    /// The providers that are told about, by number.
    told: HashMap<ProviderId, Uuid>,
    /// Those of them whose summaries are not gathered yet.
    pending: Vec<ProviderId>,
    /// Their summaries.
    summaries: Vec<(ProviderId, Bytes)>,
    /// Providers of candidates that are there no more.
    gone: HashSet<ProviderId>,
    classes: HashMap<ClassId, Box<str>>,
    candidate_bytes: usize,
    summary_bytes: usize,
    /// What of the summaries nobody else keeps.
    own_bytes: usize,
}

impl Large {
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

    /// About how many bytes the answer has.
    pub(super) fn bytes(&self) -> usize {
        self.candidate_bytes + self.summary_bytes
    }

    /// About how many bytes it holds until it is written.
    pub(super) fn held(&self) -> usize {
        let of_provider = size_of::<(ProviderId, Uuid)>();
        self.found.bytes()
            + self.providers.len() * of_provider
            + self.summaries.len() * size_of::<(ProviderId, Bytes)>()
            + self.own_bytes
    }

    /// Gathers summaries. True once that is all.
    fn go_on(&mut self, state: &State, question: &Question<'_>) -> bool {
        if self.next == 0 {
            self.candidate_bytes = question.bytes(&self.found);
            let classes = answer::requested_classes(state, question.query).into_iter();
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

    fn gather(&mut self, state: &State, question: &Question<'_>, members: &[ProviderId]) {
        let (texts, own) = if question.version.since(29) {
            question.kept.summaries.gather(state, members)
        } else {
            let requested = (!question.version.since(27))
                .then(|| answer::requested_classes(state, question.query));
            let text = |id: &ProviderId| {
                let mut writer = Writer::with_capacity(512);
                let (requested, version) = (requested.as_deref(), question.version);
                answer::write_summary(&mut writer, state, *id, requested, version);
                Bytes::from(writer.finish())
            };
            let texts: Vec<Bytes> = members.iter().map(text).collect();
            let own = texts.iter().map(Bytes::len).sum();
            (texts, own)
        };
        self.own_bytes += own;
        self.summary_bytes += texts.iter().map(|text| text.len() + 2).sum::<usize>();
        // The text of a member of a large tree that is gone by now is empty.
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

/// Looks after a candidate's provider: who has to be told about because of it. False when it is there
/// no more.
fn look(
    state: &State,
    providers: &FoundProviders,
    id: ProviderId,
    question: &Question<'_>,
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
