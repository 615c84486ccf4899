//! The preparation of a request for searches: translation, pre-filters and target.

use placewright_placement::CandidateQuery;
use thiserror::Error;

use crate::error::BadRequest;
use crate::request::RequestSpec;
use crate::translate::prefilter::{
    self, Environment, Prefilter, PrefilterOptions, PrefilterRefusal,
};
use crate::translate::target::{self, TargetRefusal};
use crate::translate::{self, TranslateOptions, Translation};

/// The options of the preparation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrepareOptions {
    /// The options of the translation.
    pub translate: TranslateOptions,
    /// The switches of the pre-filters.
    pub prefilter: PrefilterOptions,
}

/// A request after translation and pre-filters, ready for searches.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The query that is searched first.
    pub query: CandidateQuery,
    /// The query that is tried if the first finds nothing; see [`TranslateOptions::pcpu_fallback`].
    pub fallback: Option<CandidateQuery>,
    /// The translated request, and the rules that no query can express.
    pub translation: Translation,
    /// The pre-filters that applied, in the order in which they ran.
    pub prefilters: Vec<Prefilter>,
    /// The class of the request; `None` if results for it are not cached.
    pub class: Option<RequestClass>,
}

/// A request class: the requests that are equal except for the instance, the members of the server group and the
/// topology rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestClass {
    /// The number of the class, unique within a scheduler.
    pub number: u64,
    /// A hash that all requests of the class have.
    pub(crate) hash: u64,
    /// Whether a request of the class came before. For the first one, which most likely is a
    /// one-off, only results are cached that the claim after the search can use.
    pub is_repeated: bool,
}

/// The reason why a request cannot be prepared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrepareRefusal {
    /// The request contradicts itself.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
    /// The host or node that the request names does not exist.
    #[error("no such host - host: {} node: {}", host.as_deref().unwrap_or("any"), node.as_deref().unwrap_or("any"))]
    NoSuchHost {
        /// The host that was named.
        host: Option<String>,
        /// The node that was named.
        node: Option<String>,
    },
    /// A pre-filter refuses the request.
    #[error(transparent)]
    Prefilter(PrefilterRefusal),
}

impl From<PrefilterRefusal> for PrepareRefusal {
    fn from(refusal: PrefilterRefusal) -> Self {
        match refusal {
            PrefilterRefusal::BadRequest(error) => Self::BadRequest(error),
            PrefilterRefusal::NoTenantAggregate { .. }
            | PrefilterRefusal::NoSuchZone { .. }
            | PrefilterRefusal::NoSegmentAggregate { .. } => Self::Prefilter(refusal),
        }
    }
}

impl From<TargetRefusal> for PrepareRefusal {
    fn from(refusal: TargetRefusal) -> Self {
        match refusal {
            TargetRefusal::BadRequest(error) => Self::BadRequest(error),
            TargetRefusal::NoSuchHost { host, node } => Self::NoSuchHost { host, node },
        }
    }
}

/// Translates a request, runs the pre-filters, and restricts the queries to the hosts that it
/// names.
///
/// # Errors
///
/// [`PrepareRefusal`] if the request is invalid, names an unknown host, or is refused by a
/// pre-filter. Warnings are in the translation.
pub fn prepare(
    spec: &RequestSpec,
    options: &PrepareOptions,
    environment: &dyn Environment,
) -> Result<Prepared, PrepareRefusal> {
    let mut translation = translate::translate(spec, &options.translate)?;
    let added = prefilter::apply(spec, &translation, &options.prefilter, environment)?;
    added.add_to(&mut translation);
    let requests = [
        Some(&mut translation.request),
        translation.fallback.as_mut(),
    ];
    for request in requests.into_iter().flatten() {
        target::apply(request, spec, |target| environment.compute_nodes(target))?;
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
