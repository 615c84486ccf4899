//! Options of the Placement API.

/// Options of the Placement API, besides those that all REST services share.
#[derive(Debug, Clone)]
pub struct PlacementOptions {
    /// The most readers of the change stream; a further one gets 503.
    pub followers_max: usize,
    /// The project of consumers that were written without a project (microversions below 1.8).
    pub incomplete_consumer_project_id: String,
    /// The user of consumers that were written without a user (microversions below 1.8).
    pub incomplete_consumer_user_id: String,
    /// How `GET /allocation_candidates` selects candidates.
    pub candidates: CandidateOptions,
    /// The most entries that one request may change: allocated amounts, inventories, traits or
    /// aggregates.
    pub entries_max: usize,
    /// The most request groups of one query for candidates.
    pub groups_max: usize,
}

/// How `GET /allocation_candidates` selects among the candidates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidateOptions {
    /// Whether a response that `limit` truncates has a random sample of the candidates.
    pub randomize: bool,
    /// The most candidates that one search generates; unlimited if absent.
    pub candidates_max: Option<u64>,
    /// Whether the search takes one candidate of each root provider in turn, instead of all of one
    /// root first.
    pub breadth_first: bool,
}

impl Default for PlacementOptions {
    fn default() -> Self {
        Self {
            followers_max: 256,
            incomplete_consumer_project_id: Self::NOBODY.to_owned(),
            incomplete_consumer_user_id: Self::NOBODY.to_owned(),
            candidates: CandidateOptions::default(),
            entries_max: 10_000,
            groups_max: 128,
        }
    }
}

impl PlacementOptions {
    /// The project and user of consumers whose owner is not known.
    pub const NOBODY: &'static str = "00000000-0000-0000-0000-000000000000";
}
