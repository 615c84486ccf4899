//! The configured filters and weighers, and their compilation for one request.
//!
//! ```
//! use placewright_scheduler::config::SchedulerConfig;
//! use placewright_scheduler::host_table::HostTable;
//! use placewright_scheduler::policy::Policy;
//! use placewright_scheduler::request::RequestSpec;
//!
//! let config = SchedulerConfig::default();
//! let hosts = HostTable::new(&config);
//! let policy = Policy::new(config).unwrap();
//! let request = RequestSpec::default();
//! let compiled = policy.compile(&request, &hosts, uuid::Uuid::nil()).unwrap();
//! assert!(!compiled.filters.passes(0), "there is no host in slot 0");
//! assert!(compiled.weighers.scores(&[]).is_empty());
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use placewright_placement::slot_set::SlotSet;
use uuid::Uuid;

use crate::config::{ConfigError, SchedulerConfig, Warning};
use crate::context::{self, CHECK_HINT, Context};
use crate::error::BadRequest;
use crate::expression::Expression;
use crate::filters::{COMPUTE_FILTER, Filter, METRICS_FILTER};
use crate::hosts::table::HostTable;
use crate::hosts::verdict::Verdict;
use crate::request::{Destination, RequestSpec};
use crate::weighers::{CompiledWeigher, CompiledWeighers, Weigher, metrics};

mod check;
mod enabled;

pub use check::check;
pub use enabled::{enabled_filters, enabled_weighers, load_expressions};

/// The name of the restriction to hosts that are up. It is for requests to which `ComputeFilter` does not apply,
/// because that filter is off or a host is forced.
pub const UP: &str = "up";

/// The configured filters and weighers.
#[derive(Clone, Debug)]
pub struct Policy {
    config: SchedulerConfig,
    filters: Vec<&'static Filter>,
    weighers: Vec<&'static Weigher>,
    expressions: Arc<[Expression]>,
    /// Whether hosts that lack a metric are excluded: `MetricsWeigher` is enabled, and its metrics are required.
    excludes_lacking_metrics: bool,
}

/// A filter compiled for one request.
#[derive(Debug)]
pub struct CompiledFilter<'a> {
    /// The name of the filter, or of the request's field that restricts the hosts.
    pub name: &'a str,
    /// As [`Filter::is_once_per_request`]; false if the verdict reads free amounts.
    pub is_once_per_request: bool,
    /// The hosts that pass this filter.
    pub verdict: Verdict<'a>,
}

/// When the filters of a kind are evaluated; see [`CompiledFilter::is_once_per_request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterKind {
    /// Evaluated for the request class; the verdicts are cached.
    ForClass,
    /// Evaluated in each search, for the single request.
    ForSingleRequest,
}

/// All filters compiled for one request.
#[derive(Debug)]
pub struct CompiledFilters<'a> {
    hosts: &'a HostTable,
    filters: Vec<CompiledFilter<'a>>,
}

/// Filters and weighers compiled for one request.
#[derive(Debug)]
pub struct CompiledPolicy<'a> {
    /// The filters, which determine the feasible hosts.
    pub filters: CompiledFilters<'a>,
    /// The weighers, which rank feasible hosts.
    pub weighers: CompiledWeighers<'a>,
}

impl Policy {
    /// The policy of a configuration.
    ///
    /// # Errors
    ///
    /// All errors of the configuration.
    pub fn new(config: SchedulerConfig) -> Result<Self, Vec<ConfigError>> {
        let (errors, _) = check(&config);
        if !errors.is_empty() {
            return Err(errors);
        }
        let filters = enabled_filters(&config).map_err(|error| vec![error])?;
        let weighers = enabled_weighers(&config).map_err(|error| vec![error])?;
        let weighs_metrics = weighers.iter().any(|weigher| weigher.name == metrics::NAME);
        Ok(Self {
            filters,
            expressions: load_expressions(&config)?.into(),
            excludes_lacking_metrics: weighs_metrics && config.metrics.required,
            weighers,
            config,
        })
    }

    /// The configuration that the policy was made from.
    #[must_use]
    pub fn config(&self) -> &SchedulerConfig {
        &self.config
    }

    /// Warnings about options, or metadata of aggregates, that have no effect.
    #[must_use]
    pub fn warnings(&self, hosts: &HostTable) -> Vec<Warning> {
        let (_, mut warnings) = check(&self.config);
        let malformed = hosts.aggregates().malformed_overrides();
        warnings.extend(malformed.map(|(aggregate, key, value)| Warning {
            option: key.to_owned(),
            text: format!(
                "aggregate {:?} says {value:?}, which is no finite number; the configured value counts",
                aggregate.name
            ),
        }));
        warnings
    }

    /// Compiles filters and weighers for a request and one of its instances.
    ///
    /// The result depends on the request, the configuration, and the present state of the hosts.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] if the request has a value that a filter or weigher cannot interpret.
    pub fn compile<'a>(
        &'a self,
        request: &'a RequestSpec,
        hosts: &'a HostTable,
        instance: Uuid,
    ) -> Result<CompiledPolicy<'a>, BadRequest> {
        let context = Context {
            config: &self.config,
            hosts,
            request,
            instance,
        };
        let mut weighers = Vec::with_capacity(self.weighers.len());
        for weigher in &self.weighers {
            weighers.extend(CompiledWeigher::new(weigher, &context)?);
        }
        let expressions = self.expressions.iter();
        let compiled = expressions.filter_map(|expression| expression.weigher(&context));
        weighers.extend(compiled.filter(|weigher| !weigher.has_no_effect()));
        Ok(CompiledPolicy {
            filters: self.compile_filters(&context)?,
            weighers: CompiledWeighers::new(hosts, weighers),
        })
    }

    fn compile_filters<'a>(
        &'a self,
        context: &Context<'a>,
    ) -> Result<CompiledFilters<'a>, BadRequest> {
        let mut filters = restrictions(context);
        let is_rebuild = context::is_rebuild(context.request);
        let is_check = !context.request.hints(CHECK_HINT).is_empty();
        // A forced host skips the filters, unless the request is only a check.
        let uses_filters = is_check || !context.request.is_forced();
        let uses_compute_filter = uses_filters
            && self
                .filters
                .iter()
                .any(|filter| filter.name == COMPUTE_FILTER);
        if !is_rebuild && !uses_compute_filter {
            filters.push(CompiledFilter {
                name: UP,
                is_once_per_request: true,
                verdict: Verdict::Within(Cow::Borrowed(context.hosts.up())),
            });
        }
        let applicable = self
            .filters
            .iter()
            .filter(|filter| !is_rebuild || filter.runs_on_rebuild);
        for filter in applicable.filter(|_| uses_filters) {
            let verdict = (filter.compile)(context)?;
            filters.push(CompiledFilter {
                name: filter.name,
                is_once_per_request: filter.is_once_per_request && !verdict.reads_amounts(),
                verdict,
            });
        }
        // A rebuild leaves the instance on its host, so expressions do not apply to it.
        for expression in self
            .expressions
            .iter()
            .filter(|_| uses_filters && !is_rebuild)
        {
            if let Some(verdict) = expression.filter(context) {
                filters.push(CompiledFilter {
                    name: expression.name(),
                    is_once_per_request: false,
                    verdict,
                });
            }
        }
        if self.excludes_lacking_metrics {
            let lacking_hosts = context.hosts.lacking_metrics();
            filters.push(CompiledFilter {
                name: metrics::NAME,
                is_once_per_request: false,
                verdict: Verdict::AllBut(Cow::Borrowed(lacking_hosts)),
            });
        }
        filters.retain(|filter| !matches!(filter.verdict, Verdict::All));
        Ok(CompiledFilters {
            hosts: context.hosts,
            filters,
        })
    }
}

/// The request's own restrictions to hosts, nodes and cells, as filters.
fn restrictions<'a>(context: &Context<'a>) -> Vec<CompiledFilter<'a>> {
    let (request, hosts) = (context.request, context.hosts);
    let mut restrictions = Vec::new();
    let mut add = |name, verdict| {
        restrictions.push(CompiledFilter {
            name,
            is_once_per_request: true,
            verdict,
        });
    };
    if let Some(destination) = &request.requested_destination
        && (destination.host.is_some() || destination.node.is_some())
    {
        add(
            "requested_destination",
            nodes_of_destination(hosts, destination),
        );
    }
    if let Some(destination) = &request.requested_destination
        && let Some(cell) = destination.cell
        && !destination.allow_cross_cell_move
    {
        let cell_hosts = hosts.of_cell(cell).map(Cow::Borrowed);
        let verdict = cell_hosts.map_or(Verdict::None, Verdict::Within);
        add("requested_destination.cell", verdict);
    }
    let nodes_ignoring_case = |names: &'a [String]| {
        let names = names.iter();
        names.flat_map(|name| hosts.nodes_ignoring_case(name).iter().copied())
    };
    if !request.ignore_hosts.is_empty() {
        add(
            "ignore_hosts",
            Verdict::all_but(nodes_ignoring_case(&request.ignore_hosts)),
        );
    }
    if !request.force_hosts.is_empty() {
        add(
            "force_hosts",
            Verdict::only(nodes_ignoring_case(&request.force_hosts)),
        );
    }
    if !request.force_nodes.is_empty() {
        let forced = hosts.slots().iter().filter(|slot| {
            let state = hosts.get(*slot);
            state.is_some_and(|state| request.force_nodes.contains(&state.names.node))
        });
        add("force_nodes", Verdict::only(forced));
    }
    restrictions
}

/// The verdict by which only those nodes pass that a destination names, by service host, node or both.
fn nodes_of_destination<'a>(hosts: &'a HostTable, destination: &Destination) -> Verdict<'a> {
    let has_node_name = |slot: &u32| {
        let Some(node) = &destination.node else {
            return true;
        };
        let state = hosts.get(*slot);
        state.is_some_and(|state| state.names.node == *node)
    };
    match &destination.host {
        Some(host) => Verdict::only(hosts.nodes_of(host).filter(has_node_name)),
        None => Verdict::only(hosts.slots().iter().filter(has_node_name)),
    }
}

impl<'a> CompiledFilters<'a> {
    /// The filters that may exclude hosts, in order: the restrictions of the request, the configured filters, the
    /// expressions, and the metrics that `MetricsWeigher` requires.
    #[must_use]
    pub fn filters(&self) -> &[CompiledFilter<'a>] {
        &self.filters
    }

    /// The mask of the hosts among the 64 slots from `64 * word` on that may pass the filters of a
    /// kind. If [`Self::needs_predicate`] is true, a host of the mask passes only if
    /// [`Self::passes_predicates`] is true as well.
    #[must_use]
    #[inline]
    pub fn word(&self, word: usize, kind: FilterKind) -> u64 {
        let slots = self.hosts.slots().word(word);
        let filters = self.filters_of_kind(kind);
        filters.fold(slots, |mask, filter| mask & filter.verdict.word(word))
    }

    fn filters_of_kind(&self, kind: FilterKind) -> impl Iterator<Item = &CompiledFilter<'a>> {
        let is_once_per_request = kind == FilterKind::ForClass;
        let filters = self.filters.iter();
        filters.filter(move |filter| filter.is_once_per_request == is_once_per_request)
    }

    /// Whether one of the filters of a kind needs a predicate in addition to the masks.
    #[must_use]
    pub fn needs_predicate(&self, kind: FilterKind) -> bool {
        self.filters_of_kind(kind)
            .any(|filter| filter.verdict.needs_predicate())
    }

    /// Whether a slot has a host that passes all filters.
    #[must_use]
    pub fn passes(&self, slot: u32) -> bool {
        self.hosts.slots().contains(slot)
            && self
                .filters
                .iter()
                .all(|filter| filter.verdict.passes(slot))
    }

    /// Whether a host that is in the mask of [`Self::word`] passes the predicates of the same kind.
    #[must_use]
    pub fn passes_predicates(&self, slot: u32, kind: FilterKind) -> bool {
        let mut filters = self
            .filters_of_kind(kind)
            .filter(|filter| filter.verdict.needs_predicate());
        filters.all(|filter| filter.verdict.passes(slot))
    }

    /// Whether a further instance on some host can change a filter's verdict on any host. Filters that read the metrics
    /// of hosts do not count: they are not cached by request class, but a further instance changes a metric only once
    /// the host's agent reports it.
    #[must_use]
    pub fn may_change_with_instances(&self) -> bool {
        let mut filters = self.filters_of_kind(FilterKind::ForSingleRequest);
        filters.any(|filter| ![metrics::NAME, METRICS_FILTER].contains(&filter.name))
    }

    /// The shortest list of hosts to which a filter restricts the request; no host outside of the list
    /// passes. `None` if no filter lists hosts.
    #[must_use]
    pub fn listed_hosts(&self) -> Option<&SlotSet> {
        let sets = self
            .filters
            .iter()
            .filter_map(|filter| match &filter.verdict {
                // A borrowed set belongs to the host table, such as that of all usable hosts; it is no short list.
                Verdict::Within(Cow::Owned(set)) => Some(set),
                _ => None,
            });
        sets.min_by_key(|set| set.len())
    }

    /// The name of the first filter that rejects a host; `None` if the host passes all filters.
    #[must_use]
    pub fn rejecting_filter(&self, slot: u32) -> Option<&str> {
        let rejecting = self
            .filters
            .iter()
            .find(|filter| !filter.verdict.passes(slot));
        rejecting.map(|filter| filter.name)
    }
}
