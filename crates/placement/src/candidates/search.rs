//! The search in slices, so that the state is not locked for as long as all of it takes.

use uuid::Uuid;

use super::Candidates;
use super::enumeration::Enumeration;
use super::plan::{CompiledQuery, Plan};
use super::prepare;
use super::query::{CandidateQuery, QueryRefusal};
use super::root_selection::RootSelection;
use crate::hash::Map;
use crate::ids::ProviderId;
use crate::state::State;
use std::sync::Arc;

/// How often a search in slices may be started. It has to start anew when the structure changes, and after this many
/// starts it runs in one slice.
const MAX_SLICED_STARTS: u32 = 8;

/// A resumable search for candidates: each slice runs on the state as it is then.
///
/// Each candidate was feasible when it was found. While nothing changes, the result equals that of
/// [`find_candidates`](super::find_candidates).
pub struct CandidateSearch {
    query: CandidateQuery,
    /// `None` before the first slice, after a restart, and if no provider can serve the query.
    in_progress: Option<InProgress>,
    /// How often the search was started.
    starts: u32,
    /// UUIDs of the providers that candidates name, when there are several slices: another provider
    /// may get the same slot later.
    uuids: Map<ProviderId, Uuid>,
    /// The [`Candidates::size`] up to which the UUIDs of providers are recorded: how many allocations,
    /// and how many mapped providers.
    recorded: (usize, usize),
}

/// The state of a search between two slices.
struct InProgress {
    compiled: Arc<CompiledQuery>,
    enumeration: Enumeration,
    /// The position in the tree change log at the last slice.
    position: u64,
    /// The version of the structure with which the query was compiled.
    structure_version: u64,
}

impl CandidateSearch {
    /// A search that is not started yet.
    #[must_use]
    pub fn new(query: &CandidateQuery) -> Self {
        Self {
            query: query.clone(),
            in_progress: None,
            starts: 0,
            uuids: Map::default(),
            recorded: (0, 0),
        }
    }

    /// Runs one slice of about `steps` steps of 10 ns. True when the search is finished.
    ///
    /// # Errors
    ///
    /// As [`find_candidates`](super::find_candidates).
    pub fn run_slice(&mut self, state: &State, steps: usize) -> Result<bool, QueryRefusal> {
        let log = state.tree_changes();
        let (position, structure_version) = (log.position(), log.structure_version());
        if let Some(in_progress) = &self.in_progress {
            // The members of a tree that the query names (`in_tree`) were looked up when it was
            // compiled, and may have changed since.
            let has_in_tree = || {
                in_progress
                    .compiled
                    .conditions
                    .iter()
                    .any(|condition| condition.tree.is_some())
            };
            let is_outdated = in_progress.structure_version != structure_version
                || (in_progress.position != position && has_in_tree());
            if is_outdated {
                self.restart();
            }
        }
        let Some(in_progress) = &mut self.in_progress else {
            return self.begin(state, steps);
        };
        let plan = Plan {
            state,
            compiled: Arc::clone(&in_progress.compiled),
        };
        if in_progress.position != position {
            in_progress.position = position;
            let Some(root_selection) = RootSelection::new(&plan) else {
                return Ok(true);
            };
            in_progress
                .enumeration
                .reselect_roots(&plan, root_selection);
        }
        let is_over = in_progress.enumeration.run_slice(&plan, steps);
        if !self.record_uuids(state) {
            self.restart();
            return Ok(false);
        }
        Ok(is_over)
    }

    /// Forgets all results, so that the next slice begins the search anew.
    fn restart(&mut self) {
        self.in_progress = None;
        self.uuids.clear();
        self.recorded = (0, 0);
    }

    /// Starts the search with its first slice. Returns whether the search is finished.
    fn begin(&mut self, state: &State, steps: usize) -> Result<bool, QueryRefusal> {
        let Some(plan) = prepare(state, &self.query)? else {
            return Ok(true);
        };
        let Some(root_selection) = RootSelection::new(&plan) else {
            return Ok(true);
        };
        let options = &self.query.options;
        let ceiling = options.max_candidates;
        let mut enumeration =
            Enumeration::new(&plan, root_selection, self.query.limit, ceiling, options);
        self.starts += 1;
        let steps = if self.starts > MAX_SLICED_STARTS {
            usize::MAX
        } else {
            steps
        };
        let is_over = enumeration.run_slice(&plan, steps);
        self.in_progress = Some(InProgress {
            compiled: Arc::clone(&plan.compiled),
            enumeration,
            position: state.tree_changes().position(),
            structure_version: state.tree_changes().structure_version(),
        });
        if !is_over {
            self.record_uuids(state);
        }
        Ok(is_over)
    }

    /// Records the UUIDs of the providers that the candidates name, because their slots may be reused later.
    /// [`Self::run_slice`] calls this after each slice, except if the search ends in its first slice. Then the caller
    /// has to call it, on the same state, before [`Self::into_found`].
    ///
    /// False if a slot was reused, so that candidates of earlier slices now name another provider by it.
    pub fn record_uuids(&mut self, state: &State) -> bool {
        let Some(in_progress) = &self.in_progress else {
            return true;
        };
        let found = in_progress.enumeration.found();
        let mut previous = None;
        for id in found.providers_since(self.recorded) {
            if previous.replace(id) == Some(id) {
                continue;
            }
            let Some(provider) = state.provider(id) else {
                return false;
            };
            if *self.uuids.entry(id).or_insert(provider.uuid) != provider.uuid {
                return false;
            }
        }
        self.recorded = found.size();
        true
    }

    /// The candidates found so far; `None` before the first slice, also of a search that has to start anew, and if no
    /// provider can serve the query.
    #[must_use]
    pub fn found(&self) -> Option<&Candidates> {
        Some(self.in_progress.as_ref()?.enumeration.found())
    }

    /// The candidates with provider summaries. Only for a search whose slices all ran on this state:
    /// otherwise slots may have been reused, and [`Self::into_found`] is the one to call.
    #[must_use]
    pub fn finish(self, state: &State) -> Candidates {
        let Some(InProgress {
            compiled,
            enumeration,
            ..
        }) = self.in_progress
        else {
            return Candidates::new(self.query.groups.len());
        };
        enumeration.finish(&Plan { state, compiled })
    }

    /// The candidates without summaries, and the UUIDs of their providers as far as they were
    /// recorded.
    #[must_use]
    pub fn into_found(self) -> (Candidates, ProviderUuids) {
        let found = match self.in_progress {
            Some(in_progress) => in_progress.enumeration.into_found(),
            None => Candidates::new(self.query.groups.len()),
        };
        (found, ProviderUuids(self.uuids))
    }
}

/// UUIDs of the providers that candidates name by slot.
#[derive(Debug, Default)]
pub struct ProviderUuids(Map<ProviderId, Uuid>);

impl ProviderUuids {
    /// The UUID of a provider that a candidate names; `None` if it was not recorded.
    #[must_use]
    pub fn uuid(&self, id: ProviderId) -> Option<Uuid> {
        self.0.get(&id).copied()
    }

    /// The number of providers that are recorded.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no provider is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for CandidateSearch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CandidateSearch")
            .field("query", &self.query)
            .field("starts", &self.starts)
            .finish_non_exhaustive()
    }
}
