//! Prepares a request for the search: translation, pre-filters and target.

use placewright_placement::CandidateQuery;
use thiserror::Error;

use crate::error::BadRequest;
use crate::request::RequestSpec;
use crate::translate::prefilter::{
    self, Environment, Prefilter, PrefilterOptions, PrefilterRefusal,
};
use crate::translate::target::{self, TargetRefusal};
use crate::translate::{self, TranslateOptions, Translation};

/// How requests are prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrepareOptions {
    /// The options of the translation.
    pub translate: TranslateOptions,
    /// The switches of the pre-filters.
    pub prefilter: PrefilterOptions,
}

/// A request that is ready for the search.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The query that is searched first.
    pub query: CandidateQuery,
    /// The query that is searched when the first has no candidates; see
    /// [`TranslateOptions::pcpu_fallback`].
    pub fallback: Option<CandidateQuery>,
    /// The translated request behind the queries, and the rules that no query can express.
    pub translation: Translation,
    /// The pre-filters that applied, in order of execution.
    pub prefilters: Vec<Prefilter>,
    /// The equivalence class of the request; `None` if results for it are not cached.
    pub class: Option<Class>,
}

/// An equivalence class of requests: those that are equal except for the members of the server
/// group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// The number of the class, unique within a scheduler.
    pub number: u64,
    /// A hash that all requests of the class have.
    pub(crate) hash: u64,
    /// Whether an equal request came before. For a first occurrence, which most likely is the
    /// last, nothing is kept beyond what the claim that follows can use.
    pub is_repeated: bool,
}

/// Why a request cannot be searched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrepareRefusal {
    /// The request contradicts itself.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
    /// The host or node that it names does not exist.
    #[error("no such host - host: {} node: {}", host.as_deref().unwrap_or("any"), node.as_deref().unwrap_or("any"))]
    NoSuchHost {
        /// The host that was named.
        host: Option<String>,
        /// The node that was named.
        node: Option<String>,
    },
    /// A pre-filter leaves no host.
    #[error(transparent)]
    Prefilter(PrefilterRefusal),
}

impl From<PrefilterRefusal> for PrepareRefusal {
    fn from(refusal: PrefilterRefusal) -> Self {
        match refusal {
            PrefilterRefusal::BadRequest(bad) => Self::BadRequest(bad),
            PrefilterRefusal::NoTenantAggregate { .. }
            | PrefilterRefusal::NoSuchZone { .. }
            | PrefilterRefusal::NoSegmentAggregate { .. } => Self::Prefilter(refusal),
        }
    }
}

impl From<TargetRefusal> for PrepareRefusal {
    fn from(refusal: TargetRefusal) -> Self {
        match refusal {
            TargetRefusal::BadRequest(bad) => Self::BadRequest(bad),
            TargetRefusal::NoSuchHost { host, node } => Self::NoSuchHost { host, node },
        }
    }
}

/// Translates a request, runs the pre-filters and points it at the hosts that it names.
///
/// # Errors
///
/// [`PrepareRefusal`]: the request is wrong, names a host that does not exist, or a pre-filter
/// leaves none. Warnings are in the translation.
pub fn prepare(
    spec: &RequestSpec,
    options: &PrepareOptions,
    environment: &dyn Environment,
) -> Result<Prepared, PrepareRefusal> {
    let mut translation = translate::translate(spec, &options.translate)?;
    let added = prefilter::apply(spec, &translation, &options.prefilter, environment)?;
    added.add_to(&mut translation);
    let forms = [
        Some(&mut translation.request),
        translation.fallback.as_mut(),
    ];
    for request in forms.into_iter().flatten() {
        target::point(request, spec, |target| environment.compute_nodes(target))?;
    }
    let query = translation.request.to_candidate_query()?;
    translation.rules.extend(translation.request.host_rule());
    let fallback = translation.fallback.as_ref();
    let fallback = fallback.map(translate::resource_request::ResourceRequest::to_candidate_query);
    Ok(Prepared {
        query,
        fallback: fallback.transpose()?,
        translation,
        prefilters: added.applied,
        class: None,
    })
}
