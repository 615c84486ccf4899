//! A request made ready for the search: translated, pre-filtered and pointed.

use placewright_placement::CandidateQuery;
use thiserror::Error;

use crate::error::BadRequest;
use crate::prefilter::{self, Prefilter, PrefilterOptions, PrefilterRefusal, Surroundings};
use crate::request::RequestSpec;
use crate::translate::target::{self, TargetRefusal};
use crate::translate::{self, TranslateOptions, Translation};

/// How requests are made ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrepareOptions {
    /// How they are translated.
    pub translate: TranslateOptions,
    /// Which pre-filters run.
    pub prefilter: PrefilterOptions,
}

/// A request that can be searched for.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The query.
    pub query: CandidateQuery,
    /// The query for when the first finds nothing; see [`TranslateOptions::pcpu_fallback`].
    pub fallback: Option<CandidateQuery>,
    /// What the queries were made of, and the rules that no query can say.
    pub translation: Translation,
    /// The pre-filters that had something to look at, in the order in which they ran.
    pub prefilters: Vec<Prefilter>,
    /// The class of the request, if such requests are kept in mind.
    pub class: Option<Class>,
}

/// This request and all that are equal to it but for who is in the server group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// A number that stands for it.
    pub number: u64,
    /// Whether such a request came before. Of one that did not, and most likely will not again, no
    /// more is kept than what the claim that follows can use.
    pub is_known: bool,
}

/// Why a request is not searched for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrepareRefusal {
    /// The request contradicts itself.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
    /// The host that it names does not exist.
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
    surroundings: &dyn Surroundings,
) -> Result<Prepared, PrepareRefusal> {
    let mut translation = translate::translate(spec, &options.translate)?;
    let additions = prefilter::apply(spec, &translation, &options.prefilter, surroundings)?;
    additions.add_to(&mut translation);
    let forms = [
        Some(&mut translation.request),
        translation.fallback.as_mut(),
    ];
    for request in forms.into_iter().flatten() {
        target::point(request, spec, |target| surroundings.compute_nodes(target))?;
    }
    let query = translation.request.to_candidate_query()?;
    translation.rules.extend(translation.request.host_rule());
    let fallback = translation.fallback.as_ref();
    let fallback = fallback.map(translate::resource_request::ResourceRequest::to_candidate_query);
    Ok(Prepared {
        query,
        fallback: fallback.transpose()?,
        translation,
        prefilters: additions.applied,
        class: None,
    })
}
