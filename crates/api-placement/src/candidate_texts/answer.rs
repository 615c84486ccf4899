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

/// The approximate bytes of a candidate in a response, from which the buffer's capacity is estimated.
const CANDIDATE_BYTES: usize = 320;
/// The approximate bytes of a summary in a response.
const SUMMARY_BYTES: usize = 512;

/// Writes the response. Summaries are taken from the cache if it has them.
pub(crate) fn write(
    state: &State,
    query: &CandidateQuery,
    candidates: &Candidates,
    version: Microversion,
    summary_cache: &SummaryCache,
) -> Bytes {
    let capacity =
        64 + candidates.len() * CANDIDATE_BYTES + candidates.summaries().len() * SUMMARY_BYTES;
    let mut writer = Writer::with_capacity(capacity);
    writer.open_object();
    writer.key("allocation_requests");
    writer.open_array();
    let mut template = CandidateTemplate::default();
    for candidate in candidates.iter() {
        template.write(&mut writer, state, query, &candidate, version);
    }
    writer.close_array();
    writer.key("provider_summaries");
    writer.open_object();
    if version.since(29) {
        summary_cache.write(&mut writer, state, candidates.summaries());
    } else {
        let requested = (!version.since(27)).then(|| requested_classes(state, query));
        for provider in candidates.summaries() {
            write_summary(&mut writer, state, *provider, requested.as_deref(), version);
        }
    }
    writer.close_object();
    writer.close_object();
    writer.finish().into()
}

/// The provider that serves all groups of a candidate, if one provider does.
fn sole_provider(candidate: &CandidateView<'_>) -> Option<ProviderId> {
    let (first, others) = candidate.allocations().split_first()?;
    let provider = first.provider;
    let is_sole = others
        .iter()
        .all(|allocation| allocation.provider == provider)
        && candidate.mappings().all(|mapped| mapped == [provider]);
    is_sole.then_some(provider)
}

/// The text of the last candidate with a single provider, used as a template: another such candidate
/// with the same amounts differs only in the provider's UUID.
#[derive(Debug, Default)]
pub(crate) struct CandidateTemplate {
    text: Vec<u8>,
    /// The offsets of UUIDs in the text, each after the opening quote.
    uuid_offsets: Vec<usize>,
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
        let provider = sole_provider(candidate);
        if let Some(text) =
            provider.and_then(|provider| self.fill(names, provider, candidate.allocations()))
        {
            writer.raw(text);
            return;
        }
        let start = writer.next_offset();
        let mut uuid_offsets = Vec::new();
        write_candidate(writer, names, query, candidate, version, &mut uuid_offsets);
        if provider.is_some() {
            let text = &writer.written()[start..];
            self.set_template(text, start, uuid_offsets, candidate.allocations());
        }
    }

    /// Makes the text of a candidate the template. The text starts at `start` in the response, and
    /// `uuid_offsets` are offsets in the response.
    fn set_template(
        &mut self,
        text: &[u8],
        start: usize,
        uuid_offsets: Vec<usize>,
        allocations: &[Allocation],
    ) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.uuid_offsets.clear();
        self.uuid_offsets
            .extend(uuid_offsets.iter().map(|offset| offset - start));
        self.amounts.clear();
        self.amounts.extend(
            allocations
                .iter()
                .map(|allocation| (allocation.class, allocation.amount)),
        );
    }

    /// The text of a candidate with this single provider, if its amounts are those of the template.
    fn fill(
        &mut self,
        names: &impl Names,
        provider: ProviderId,
        allocations: &[Allocation],
    ) -> Option<&[u8]> {
        let has_same_amounts = allocations.len() == self.amounts.len()
            && (allocations.iter().zip(&self.amounts))
                .all(|(allocation, amount)| (allocation.class, allocation.amount) == *amount);
        if !has_same_amounts {
            return None;
        }
        let mut uuid = [0; Hyphenated::LENGTH];
        names.uuid(provider)?.hyphenated().encode_lower(&mut uuid);
        for offset in &self.uuid_offsets {
            self.text
                .get_mut(*offset..offset + uuid.len())?
                .copy_from_slice(&uuid);
        }
        Some(&self.text)
    }
}

/// Writes a candidate, and appends to `uuid_offsets` the offsets of its UUIDs in the response, each after
/// the opening quote.
fn write_candidate(
    writer: &mut Writer,
    names: &impl Names,
    query: &CandidateQuery,
    candidate: &CandidateView<'_>,
    version: Microversion,
    uuid_offsets: &mut Vec<usize>,
) {
    writer.open_object();
    writer.key("allocations");
    if version.since(12) {
        write_allocations(writer, names, candidate.allocations(), uuid_offsets);
    } else {
        write_allocation_list(writer, names, candidate.allocations(), uuid_offsets);
    }
    if version.since(34) {
        writer.key("mappings");
        writer.open_object();
        for (group, providers) in query.groups.iter().zip(candidate.mappings()) {
            writer.key(&group.suffix);
            writer.open_array();
            for provider in providers {
                uuid_offsets.push(writer.next_offset() + 1);
                write_uuid(writer, names, *provider);
            }
            writer.close_array();
        }
        writer.close_object();
    }
    writer.close_object();
}

/// The resource classes that any group of the query requests.
pub(crate) fn requested_classes(state: &State, query: &CandidateQuery) -> Vec<ClassId> {
    let resources = query.groups.iter().flat_map(|group| &group.resources);
    resources
        .filter_map(|(name, _)| state.class_id(name))
        .collect()
}

/// The amounts grouped by provider; the search returns them in that order.
fn by_provider(allocations: &[Allocation]) -> impl Iterator<Item = &[Allocation]> {
    allocations.chunk_by(|previous, next| previous.provider == next.provider)
}

fn write_resources(writer: &mut Writer, names: &impl Names, allocations: &[Allocation]) {
    writer.key("resources");
    writer.open_object();
    for allocation in allocations {
        writer.plain_key(names.class(allocation.class));
        writer.integer(allocation.amount);
    }
    writer.close_object();
}

fn write_allocations(
    writer: &mut Writer,
    names: &impl Names,
    allocations: &[Allocation],
    uuid_offsets: &mut Vec<usize>,
) {
    writer.open_object();
    for provider_allocations in by_provider(allocations) {
        let Some(uuid) = names.uuid(provider_allocations[0].provider) else {
            continue;
        };
        uuid_offsets.push(writer.next_offset() + 1);
        writer.plain_key(uuid.hyphenated().encode_lower(&mut [0; 36]));
        writer.open_object();
        write_resources(writer, names, provider_allocations);
        writer.close_object();
    }
    writer.close_object();
}

/// Writes allocations as a list, which is their form before microversion 1.12.
fn write_allocation_list(
    writer: &mut Writer,
    names: &impl Names,
    allocations: &[Allocation],
    uuid_offsets: &mut Vec<usize>,
) {
    writer.open_array();
    for provider_allocations in by_provider(allocations) {
        writer.open_object();
        writer.key("resource_provider");
        writer.open_object();
        writer.key("uuid");
        uuid_offsets.push(writer.next_offset() + 1);
        write_uuid(writer, names, provider_allocations[0].provider);
        writer.close_object();
        write_resources(writer, names, provider_allocations);
        writer.close_object();
    }
    writer.close_array();
}
