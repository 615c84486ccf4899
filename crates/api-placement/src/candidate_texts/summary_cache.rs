//! A cache of provider summaries as JSON. The summaries are most of a response, and writing them is most of the work.
//!
//! A claim changes a few hosts, and the summaries of all other hosts stay valid. The state's tree change log says which
//! summaries are outdated.

use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use placewright_http::json::Writer;
use placewright_placement::tree_changes::TreeChangeLog;
use placewright_placement::{ProviderId, State};

use super::summary::write_summary;
use crate::microversion::Microversion;

/// The most bytes of all cached summaries: about 100,000 providers.
const BYTES_MAX: usize = 48 << 20;

/// The cache of summaries, as they are written from microversion 1.29 on.
///
/// Callers hold the state's lock while they use the cache. So the states of two callers at the same time are
/// equal, and the cache is neither behind nor ahead of either.
#[derive(Debug, Default)]
pub(crate) struct SummaryCache(RwLock<CachedSummaries>);

/// The cached summaries, and which trees have changed since they were written.
#[derive(Debug, Default)]
struct CachedSummaries {
    /// The position of the tree change log up to which its changes were applied.
    position: u64,
    /// The counter of structural changes of the log when its changes were applied last.
    structure: u64,
    /// For each root, by its slot: a position of the log that is not before the last change of its tree.
    changed_at: Vec<u64>,
    /// The cached summaries, by the provider's slot.
    summaries: Vec<Option<CachedSummary>>,
    /// The size of all cached summaries together.
    bytes: usize,
}

/// The cached summary of one provider.
#[derive(Debug)]
struct CachedSummary {
    /// The root of the provider's tree.
    root: ProviderId,
    /// The position of the tree change log when the summary was written.
    position: u64,
    /// The key and value as they appear in the object of all summaries.
    json: Bytes,
}

impl SummaryCache {
    /// Writes the summaries of these providers as members of the open object.
    pub(crate) fn write(&self, writer: &mut Writer, state: &State, providers: &[ProviderId]) {
        let mut written_summaries = Vec::new();
        let cache = self.catch_up_and_read(state.tree_changes());
        for provider in providers {
            if let Some(text) = cache.get(*provider) {
                writer.raw(text);
            } else {
                let start = writer.next_offset();
                // All classes are shown, in the form that is the same from microversion 1.29 on.
                write_summary(writer, state, *provider, None, Microversion::MAX);
                written_summaries.push((*provider, start..writer.written().len()));
            }
        }
        drop(cache);
        if !written_summaries.is_empty() {
            let written = writer.written();
            let written_summaries = written_summaries.into_iter();
            let written_summaries = written_summaries
                .filter_map(|(id, range)| Some((id, Bytes::copy_from_slice(written.get(range)?))));
            self.0.write().store(state, written_summaries);
        }
    }

    /// Copies the summaries of these providers, for use without the state's lock. Also returns how many bytes of them
    /// were not in the cache before.
    pub(crate) fn collect(&self, state: &State, providers: &[ProviderId]) -> (Vec<Bytes>, usize) {
        let mut written_summaries = Vec::new();
        let mut summaries = Vec::with_capacity(providers.len());
        let mut bytes = 0;
        let cache = self.catch_up_and_read(state.tree_changes());
        for provider in providers {
            if let Some(text) = cache.get(*provider) {
                summaries.push(text.clone());
                continue;
            }
            let mut writer = Writer::with_capacity(512);
            // As in `write`.
            write_summary(&mut writer, state, *provider, None, Microversion::MAX);
            let text = Bytes::from(writer.finish());
            bytes += text.len();
            written_summaries.push((*provider, text.clone()));
            summaries.push(text);
        }
        drop(cache);
        if !written_summaries.is_empty() {
            self.0.write().store(state, written_summaries.into_iter());
        }
        (summaries, bytes)
    }

    /// Applies the changes in this log to the cache, unless they were applied before, and gives read access to it.
    fn catch_up_and_read(&self, log: &TreeChangeLog) -> RwLockReadGuard<'_, CachedSummaries> {
        let cache = self.0.read();
        if cache.is_current(log) {
            return cache;
        }
        drop(cache);
        let mut cache = self.0.write();
        cache.catch_up(log);
        RwLockWriteGuard::downgrade(cache)
    }
}

impl CachedSummaries {
    fn is_current(&self, log: &TreeChangeLog) -> bool {
        self.position == log.position() && self.structure == log.structure_version()
    }

    /// Applies the tree change log; if the log does not reach back far enough, the cache is
    /// cleared.
    fn catch_up(&mut self, log: &TreeChangeLog) {
        match log.since(self.position) {
            Some(changes) if self.structure == log.structure_version() => {
                for change in changes {
                    let slot = change.root.0 as usize;
                    if self.changed_at.len() <= slot {
                        self.changed_at.resize(slot + 1, 0);
                    }
                    self.changed_at[slot] = log.position();
                }
            }
            _ => *self = Self::default(),
        }
        self.position = log.position();
        self.structure = log.structure_version();
    }

    /// The summary of a provider, unless its tree changed since the summary was written.
    fn get(&self, provider: ProviderId) -> Option<&Bytes> {
        let summary = self.summaries.get(provider.0 as usize)?.as_ref()?;
        let changed_at = self.changed_at.get(summary.root.0 as usize);
        (changed_at.is_none_or(|position| *position <= summary.position)).then_some(&summary.json)
    }

    /// Caches summaries of this state.
    fn store(
        &mut self,
        state: &State,
        written_summaries: impl Iterator<Item = (ProviderId, Bytes)>,
    ) {
        for (id, json) in written_summaries {
            let Some(provider) = state.provider(id) else {
                continue;
            };
            let slot = id.0 as usize;
            if self.summaries.len() <= slot {
                self.summaries.resize_with(slot + 1, || None);
            }
            self.bytes -= self.summaries[slot].take().map_or(0, |old| old.json.len());
            if self.bytes + json.len() > BYTES_MAX {
                continue;
            }
            self.bytes += json.len();
            self.summaries[slot] = Some(CachedSummary {
                root: provider.root,
                position: state.tree_changes().position(),
                json,
            });
        }
    }
}
