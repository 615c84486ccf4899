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

/// How often a search is restarted because names changed meanwhile. After that it runs in one
/// slice.
const ANEW_MAX: u32 = 8;

/// A resumable search for candidates: each slice runs on the state as it is then.
///
/// Each candidate was feasible when it was found. While nothing changes, the result equals that of
/// [`find_candidates`](super::find_candidates).
pub struct CandidateSearch {
    query: CandidateQuery,
    under_way: Option<InProgress>,
    /// How often the search was started.
    begun: u32,
    /// UUIDs of the providers that candidates name, when there are several slices: a slot may be
    /// reused by another provider later.
    providers: Map<ProviderId, Uuid>,
    /// How many allocations and mapped providers of the answer were already noted.
    noted: (usize, usize),
}

struct InProgress {
    form: Arc<CompiledQuery>,
    run: Enumeration,
    /// The positions in the tree change log (changes of any tree, changes of names) at the last
    /// slice.
    position: u64,
    structure: u64,
}

impl CandidateSearch {
    /// A search that was not started yet.
    #[must_use]
    pub fn new(query: &CandidateQuery) -> Self {
        Self {
            query: query.clone(),
            under_way: None,
            begun: 0,
            providers: Map::default(),
            noted: (0, 0),
        }
    }

    /// Continues for about `steps` steps of 10 ns. True when there is nothing more to find.
    ///
    /// # Errors
    ///
    /// As [`find_candidates`](super::find_candidates).
    pub fn go_on(&mut self, state: &State, steps: usize) -> Result<bool, QueryRefusal> {
        let log = state.touched();
        let (position, structure) = (log.position(), log.structure());
        if let Some(under_way) = &self.under_way {
            let names_tree = || under_way.form.kinds.iter().any(|kind| kind.tree.is_some());
            let is_other = under_way.structure != structure
                || (under_way.position != position && names_tree());
            if is_other {
                self.under_way = None;
                self.providers.clear();
                self.noted = (0, 0);
            }
        }
        let Some(under_way) = &mut self.under_way else {
            return self.begin(state, steps);
        };
        let plan = Plan {
            state,
            form: Arc::clone(&under_way.form),
        };
        if under_way.position != position {
            under_way.position = position;
            let Some(anchors) = RootSelection::new(&plan, false) else {
                return Ok(true);
            };
            under_way.run.renew(&plan, anchors);
        }
        let is_over = under_way.run.go_on(&plan, steps);
        self.note_providers(state);
        Ok(is_over)
    }

    fn begin(&mut self, state: &State, steps: usize) -> Result<bool, QueryRefusal> {
        let Some(plan) = prepare(state, &self.query)? else {
            return Ok(true);
        };
        let Some(anchors) = RootSelection::new(&plan, false) else {
            return Ok(true);
        };
        let options = &self.query.options;
        let ceiling = options.max_candidates;
        let mut run = Enumeration::new(&plan, anchors, self.query.limit, ceiling, options);
        self.begun += 1;
        let steps = if self.begun > ANEW_MAX {
            usize::MAX
        } else {
            steps
        };
        let is_over = run.go_on(&plan, steps);
        self.under_way = Some(InProgress {
            form: Arc::clone(&plan.form),
            run,
            position: state.touched().position(),
            structure: state.touched().structure(),
        });
        if !is_over {
            self.note_providers(state);
        }
        Ok(is_over)
    }

    /// Remembers the UUIDs of the providers that the candidates name. Call it in the slice that
    /// found them, because slots may be reused later.
    pub fn note_providers(&mut self, state: &State) {
        let Some(under_way) = &self.under_way else {
            return;
        };
        let found = under_way.run.found();
        for id in found.named_since(self.noted) {
            if !self.providers.contains_key(&id)
                && let Some(provider) = state.provider(id)
            {
                self.providers.insert(id, provider.uuid);
            }
        }
        self.noted = found.size();
    }

    /// The candidates found so far; `None` before the first slice, and if no provider can serve
    /// the query.
    #[must_use]
    pub fn found(&self) -> Option<&Candidates> {
        Some(self.under_way.as_ref()?.run.found())
    }

    /// The candidates with provider summaries, if the first slice found all of them; otherwise
    /// without.
    #[must_use]
    pub fn finish(self, state: &State) -> Candidates {
        let Some(InProgress { form, run, .. }) = self.under_way else {
            return Candidates::new(self.query.groups.len());
        };
        run.finish(&Plan { state, form })
    }

    /// The candidates without summaries, and the UUIDs of their providers as far as they were
    /// noted.
    #[must_use]
    pub fn into_found(self) -> (Candidates, FoundProviders) {
        let found = match self.under_way {
            Some(under_way) => under_way.run.into_found(),
            None => Candidates::new(self.query.groups.len()),
        };
        (found, FoundProviders(self.providers))
    }
}

/// UUIDs of the providers that candidates name by slot.
#[derive(Debug, Default)]
pub struct FoundProviders(Map<ProviderId, Uuid>);

impl FoundProviders {
    /// The UUID of a provider that a candidate names.
    #[must_use]
    pub fn uuid(&self, id: ProviderId) -> Option<Uuid> {
        self.0.get(&id).copied()
    }

    /// The number of providers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
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
            .field("begun", &self.begun)
            .finish_non_exhaustive()
    }
}
