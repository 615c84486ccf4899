//! The body of a response with candidates.

use bytes::Bytes;
use placewright_http::json::Writer;
use placewright_placement::{
    Allocation, CandidateQuery, CandidateView, Candidates, ClassId, ProviderId, State,
};
use uuid::fmt::Hyphenated;

use super::names::{Names, write_uuid};
use super::summary::write_summary;
use super::summary_cache::SummaryCache;
use crate::microversion::Microversion;

/// The approximate size of a candidate and of a summary in a response, for one allocation of
/// memory.
const CANDIDATE_BYTES: usize = 320;
const SUMMARY_BYTES: usize = 512;

/// Writes the response. Summaries are taken from the cache `texts` if it has them.
pub(crate) fn write(
    state: &State,
    query: &CandidateQuery,
    found: &Candidates,
    version: Microversion,
    texts: &SummaryCache,
) -> Bytes {
    let capacity = 64 + found.len() * CANDIDATE_BYTES + found.summaries().len() * SUMMARY_BYTES;
    let mut writer = Writer::with_capacity(capacity);
    writer.open_object();
    writer.key("allocation_requests");
    writer.open_array();
    let mut template = CandidateTemplate::default();
    for candidate in found.iter() {
        template.write(&mut writer, state, query, &candidate, version);
    }
    writer.close_array();
    writer.key("provider_summaries");
    writer.open_object();
    if version.since(29) {
        texts.write(&mut writer, state, found.summaries());
    } else {
        let requested = (!version.since(27)).then(|| requested_classes(state, query));
        for provider in found.summaries() {
            write_summary(&mut writer, state, *provider, requested.as_deref(), version);
        }
    }
    writer.close_object();
    writer.close_object();
    writer.finish().into()
}

/// The provider that serves all groups of a candidate, if it is a single one.
fn sole_host(candidate: &CandidateView<'_>) -> Option<ProviderId> {
    let (first, rest) = candidate.allocations().split_first()?;
    let host = first.provider;
    let alone = rest.iter().all(|held| held.provider == host)
        && candidate.mappings().all(|mapped| mapped == [host]);
    alone.then_some(host)
}

/// The text of a candidate with a single provider, used as a template: the next such candidate with
/// the same amounts differs only in the provider's UUID.
#[derive(Debug, Default)]
pub(crate) struct CandidateTemplate {
    text: Vec<u8>,
    /// The offsets of UUIDs in the text.
    places: Vec<usize>,
    amounts: Vec<(ClassId, u32)>,
}

impl CandidateTemplate {
    /// Writes a candidate, from the template if possible.
    pub(crate) fn write(
        &mut self,
        writer: &mut Writer,
        names: &impl Names,
        query: &CandidateQuery,
        candidate: &CandidateView<'_>,
        version: Microversion,
    ) {
        let host = sole_host(candidate);
        if let Some(text) = host.and_then(|host| self.fill(names, host, candidate.allocations())) {
            writer.raw(text);
            return;
        }
        let start = writer.next_at();
        let mut places = Vec::new();
        write_candidate(writer, names, query, candidate, version, &mut places);
        if host.is_some() {
            let text = &writer.written()[start..];
            self.cut(text, start, places, candidate.allocations());
        }
    }

    /// Makes the text of a candidate the template. It starts at `start` in the response, to which
    /// `places` refer.
    fn cut(&mut self, text: &[u8], start: usize, places: Vec<usize>, allocations: &[Allocation]) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.places.clear();
        self.places.extend(places.iter().map(|place| place - start));
        self.amounts.clear();
        self.amounts
            .extend(allocations.iter().map(|held| (held.class, held.amount)));
    }

    /// The text for another provider, if it has the same amounts.
    fn fill(
        &mut self,
        names: &impl Names,
        host: ProviderId,
        allocations: &[Allocation],
    ) -> Option<&[u8]> {
        let same = allocations.len() == self.amounts.len()
            && (allocations.iter().zip(&self.amounts))
                .all(|(held, amount)| (held.class, held.amount) == *amount);
        if !same {
            return None;
        }
        let mut uuid = [0; Hyphenated::LENGTH];
        names.uuid(host)?.hyphenated().encode_lower(&mut uuid);
        for place in &self.places {
            self.text
                .get_mut(*place..place + uuid.len())?
                .copy_from_slice(&uuid);
        }
        Some(&self.text)
    }
}

/// Writes a candidate, and notes the offsets of UUIDs in the response.
fn write_candidate(
    writer: &mut Writer,
    names: &impl Names,
    query: &CandidateQuery,
    candidate: &CandidateView<'_>,
    version: Microversion,
    places: &mut Vec<usize>,
) {
    writer.open_object();
    writer.key("allocations");
    if version.since(12) {
        write_allocations(writer, names, candidate.allocations(), places);
    } else {
        write_allocation_list(writer, names, candidate.allocations(), places);
    }
    if version.since(34) {
        writer.key("mappings");
        writer.open_object();
        for (group, providers) in query.groups.iter().zip(candidate.mappings()) {
            writer.key(&group.suffix);
            writer.open_array();
            for provider in providers {
                places.push(writer.next_at() + 1);
                write_uuid(writer, names, *provider);
            }
            writer.close_array();
        }
        writer.close_object();
    }
    writer.close_object();
}

pub(crate) fn requested_classes(state: &State, query: &CandidateQuery) -> Vec<ClassId> {
    let resources = query.groups.iter().flat_map(|group| &group.resources);
    resources
        .filter_map(|(name, _)| state.class_id(name))
        .collect()
}

/// The amounts grouped by provider; the search returns them in that order.
fn by_provider(allocations: &[Allocation]) -> impl Iterator<Item = &[Allocation]> {
    allocations.chunk_by(|one, next| one.provider == next.provider)
}

fn write_resources(writer: &mut Writer, names: &impl Names, allocations: &[Allocation]) {
    writer.key("resources");
    writer.open_object();
    for held in allocations {
        writer.plain_key(names.class(held.class));
        writer.integer(held.amount);
    }
    writer.close_object();
}

fn write_allocations(
    writer: &mut Writer,
    names: &impl Names,
    allocations: &[Allocation],
    places: &mut Vec<usize>,
) {
    writer.open_object();
    for of_provider in by_provider(allocations) {
        let Some(uuid) = names.uuid(of_provider[0].provider) else {
            continue;
        };
        places.push(writer.next_at() + 1);
        writer.plain_key(uuid.hyphenated().encode_lower(&mut [0; 36]));
        writer.open_object();
        write_resources(writer, names, of_provider);
        writer.close_object();
    }
    writer.close_object();
}

/// Writes the form before microversion 1.12.
fn write_allocation_list(
    writer: &mut Writer,
    names: &impl Names,
    allocations: &[Allocation],
    places: &mut Vec<usize>,
) {
    writer.open_array();
    for of_provider in by_provider(allocations) {
        writer.open_object();
        writer.key("resource_provider");
        writer.open_object();
        writer.key("uuid");
        places.push(writer.next_at() + 1);
        write_uuid(writer, names, of_provider[0].provider);
        writer.close_object();
        write_resources(writer, names, of_provider);
        writer.close_object();
    }
    writer.close_array();
}
