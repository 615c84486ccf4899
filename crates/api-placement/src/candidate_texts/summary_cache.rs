//! A cache of provider summaries as JSON: they are most of a response, and most of the work of
//! writing it.
//!
//! A claim changes a few hosts, and the summaries of all others stay valid. The state's log of
//! changed trees tells which ones to write again.

use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use placewright_http::json::Writer;
use placewright_placement::tree_changes::TreeChangeLog;
use placewright_placement::{ProviderId, State};

use super::summary::write_summary;
use crate::microversion::Microversion;

/// The most bytes of all cached summaries: about 100,000 providers.
const BYTES_MAX: usize = 48 << 20;

/// The cache of summaries, in the form since microversion 1.29.
///
/// Callers hold the state's lock while they use it, so that it cannot be behind or ahead of the
/// state that another caller uses at the same time.
#[derive(Debug, Default)]
pub(crate) struct SummaryCache(RwLock<CachedSummaries>);

/// The cached summaries, and which trees have changed since they were written.
#[derive(Debug, Default)]
struct CachedSummaries {
    /// The position up to which the log of changed trees was followed.
    position: u64,
    structure: u64,
    /// By the number of a root: the position at which its tree was last changed.
    touched: Vec<u64>,
    /// The cached texts by the number of the provider.
    texts: Vec<Option<CachedSummary>>,
    bytes: usize,
}

/// The cached summary of one provider.
#[derive(Debug)]
struct CachedSummary {
    root: ProviderId,
    /// The position of the log at which it was written.
    position: u64,
    /// The key and value as they appear in the object of all summaries.
    json: Bytes,
}

impl SummaryCache {
    /// Writes the summaries of these providers as members of the open object.
    pub(crate) fn write(&self, writer: &mut Writer, state: &State, providers: &[ProviderId]) {
        let mut new = Vec::new();
        let texts = self.at(state.tree_changes());
        for provider in providers {
            if let Some(text) = texts.get(*provider) {
                writer.raw(text);
            } else {
                let start = writer.next_at();
                write_summary(writer, state, *provider, None, Microversion::MAX);
                new.push((*provider, start..writer.written().len()));
            }
        }
        drop(texts);
        if !new.is_empty() {
            let written = writer.written();
            let new = new.into_iter();
            let new = new
                .filter_map(|(id, place)| Some((id, Bytes::copy_from_slice(written.get(place)?))));
            self.0.write().keep(state, new);
        }
    }

    /// The summaries of these providers for use without the state's lock, and how many of their
    /// bytes are not shared with the cache.
    pub(crate) fn gather(&self, state: &State, providers: &[ProviderId]) -> (Vec<Bytes>, usize) {
        let mut new = Vec::new();
        let mut all = Vec::with_capacity(providers.len());
        let mut bytes = 0;
        let texts = self.at(state.tree_changes());
        for provider in providers {
            if let Some(text) = texts.get(*provider) {
                all.push(text.clone());
                continue;
            }
            let mut writer = Writer::with_capacity(512);
            write_summary(&mut writer, state, *provider, None, Microversion::MAX);
            let text = Bytes::from(writer.finish());
            bytes += text.len();
            new.push((*provider, text.clone()));
            all.push(text);
        }
        drop(texts);
        if !new.is_empty() {
            self.0.write().keep(state, new.into_iter());
        }
        (all, bytes)
    }

    /// The cache, brought up to date with the state of this log.
    fn at(&self, log: &TreeChangeLog) -> RwLockReadGuard<'_, CachedSummaries> {
        let texts = self.0.read();
        if texts.is_at(log) {
            return texts;
        }
        drop(texts);
        let mut texts = self.0.write();
        texts.follow(log);
        RwLockWriteGuard::downgrade(texts)
    }
}

impl CachedSummaries {
    fn is_at(&self, log: &TreeChangeLog) -> bool {
        self.position == log.position() && self.structure == log.structure()
    }

    /// Applies the log of changed trees; if it does not reach back far enough, the cache is
    /// cleared.
    fn follow(&mut self, log: &TreeChangeLog) {
        match log.since(self.position) {
            Some(roots) if self.structure == log.structure() => {
                for touch in roots {
                    let place = touch.root.0 as usize;
                    if self.touched.len() <= place {
                        self.touched.resize(place + 1, 0);
                    }
                    self.touched[place] = log.position();
                }
            }
            _ => *self = Self::default(),
        }
        self.position = log.position();
        self.structure = log.structure();
    }

    fn get(&self, provider: ProviderId) -> Option<&Bytes> {
        let text = self.texts.get(provider.0 as usize)?.as_ref()?;
        let touched = self.touched.get(text.root.0 as usize);
        (touched.is_none_or(|position| *position <= text.position)).then_some(&text.json)
    }

    /// Caches summaries of this state.
    fn keep(&mut self, state: &State, new: impl Iterator<Item = (ProviderId, Bytes)>) {
        for (id, json) in new {
            let Some(provider) = state.provider(id) else {
                continue;
            };
            let slot = id.0 as usize;
            if self.texts.len() <= slot {
                self.texts.resize_with(slot + 1, || None);
            }
            self.bytes -= self.texts[slot].take().map_or(0, |old| old.json.len());
            if self.bytes + json.len() > BYTES_MAX {
                continue;
            }
            self.bytes += json.len();
            self.texts[slot] = Some(CachedSummary {
                root: provider.root,
                position: state.tree_changes().position(),
                json,
            });
        }
    }
}
