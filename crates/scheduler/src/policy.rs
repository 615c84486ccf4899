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
//! assert!(compiled.weighers.weights(&[]).is_empty());
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use placewright_placement::slot_set::SlotSet;
use uuid::Uuid;

use crate::config::{ConfigError, SchedulerConfig, Warning};
use crate::context::{self, CHECK_HINT, Context};
use crate::error::BadRequest;
use crate::expression::Expression;
use crate::filters::Filter;
use crate::hosts::table::HostTable;
use crate::hosts::verdict::Verdict;
use crate::request::{Destination, RequestSpec};
use crate::weighers::{Compiled, CompiledWeighers, Weigher, metrics};

mod check;
mod enabled;

pub use check::check;
pub use enabled::{enabled_filters, enabled_weighers, load_expressions};

/// The configured filters and weighers.
#[derive(Clone, Debug)]
pub struct Policy {
    config: SchedulerConfig,
    filters: Vec<&'static Filter>,
    weighers: Vec<&'static Weigher>,
    expressions: Arc<[Expression]>,
    refuses_unmeasured: bool,
}

/// A filter compiled for one request.
#[derive(Debug)]
pub struct CompiledFilter<'a> {
    /// The filter's name, or that of the request's field that restricts the hosts.
    pub name: &'a str,
    /// Whether the answer is the same for every instance of the request.
    pub is_once_per_request: bool,
    /// The hosts that pass this filter.
    pub verdict: Verdict<'a>,
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
    /// The filters, which decide which hosts are feasible.
    pub filters: CompiledFilters<'a>,
    /// The weighers, which rank feasible hosts.
    pub weighers: CompiledWeighers<'a>,
}

impl Policy {
    /// The policy of a configuration.
    ///
    /// # Errors
    ///
    /// Everything in the configuration that nothing can be made of.
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
            refuses_unmeasured: weighs_metrics && config.metrics.required,
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
        let unreadable = hosts.aggregates().unreadable();
        warnings.extend(unreadable.map(|(aggregate, key, value)| Warning {
            option: key.to_owned(),
            text: format!(
                "aggregate {:?} says {value:?}, which is no number; the configured value counts",
                aggregate.name
            ),
        }));
        warnings
    }

    /// Compiles filters and weighers for a request and one of its instances.
    ///
    /// The result depends on the request, the configuration, and the hosts as they are now.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] when the request says something that a filter cannot read.
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
            weighers.extend(Compiled::new(weigher, &context)?);
        }
        let expressions = self.expressions.iter();
        let custom = expressions.filter_map(|expression| expression.weigher(&context));
        weighers.extend(custom.filter(|weigher| !weigher.is_idle()));
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
        let has_check = !context.request.hints(CHECK_HINT).is_empty();
        // A host forced by an administrator skips the filters, unless the request is only a check.
        let is_filtered = has_check || !context.request.is_forced();
        let asked = self
            .filters
            .iter()
            .filter(|filter| !is_rebuild || filter.runs_on_rebuild);
        for filter in asked.filter(|_| is_filtered) {
            let verdict = (filter.compile)(context)?;
            filters.push(CompiledFilter {
                name: filter.name,
                is_once_per_request: filter.is_once_per_request && !verdict.reads_amounts(),
                verdict,
            });
        }
        // Expressions say where new instances may go, not whether an instance may stay.
        for expression in self
            .expressions
            .iter()
            .filter(|_| is_filtered && !is_rebuild)
        {
            if let Some(verdict) = expression.filter(context) {
                filters.push(CompiledFilter {
                    name: expression.name(),
                    is_once_per_request: false,
                    verdict,
                });
            }
        }
        if self.refuses_unmeasured {
            let lacking = context.hosts.lacking_metrics();
            filters.push(CompiledFilter {
                name: metrics::NAME,
                is_once_per_request: false,
                verdict: Verdict::Outside(Cow::Borrowed(lacking)),
            });
        }
        filters.retain(|filter| !matches!(filter.verdict, Verdict::All));
        Ok(CompiledFilters {
            hosts: context.hosts,
            filters,
        })
    }
}

/// Restrictions that the request itself makes by the names of hosts.
fn restrictions<'a>(context: &Context<'a>) -> Vec<CompiledFilter<'a>> {
    let (request, hosts) = (context.request, context.hosts);
    let mut found = Vec::new();
    let mut add = |name, verdict| {
        found.push(CompiledFilter {
            name,
            is_once_per_request: true,
            verdict,
        });
    };
    if let Some(destination) = &request.requested_destination
        && (destination.host.is_some() || destination.node.is_some())
    {
        add("requested_destination", destined(hosts, destination));
    }
    if let Some(destination) = &request.requested_destination
        && let Some(cell) = destination.cell
        && !destination.allow_cross_cell_move
    {
        let of_cell = hosts.of_cell(cell).map(Cow::Borrowed);
        let verdict = of_cell.map_or(Verdict::None, Verdict::Within);
        add("requested_destination.cell", verdict);
    }
    let any_case = |names: &'a [String]| {
        let names = names.iter();
        names.flat_map(|name| hosts.nodes_of_any_case(name).iter().copied())
    };
    if !request.ignore_hosts.is_empty() {
        add(
            "ignore_hosts",
            Verdict::all_but(any_case(&request.ignore_hosts)),
        );
    }
    if !request.force_hosts.is_empty() {
        add("force_hosts", Verdict::only(any_case(&request.force_hosts)));
    }
    if !request.force_nodes.is_empty() {
        let forced = hosts.known().iter().filter(|slot| {
            let state = hosts.get(*slot);
            state.is_some_and(|state| request.force_nodes.contains(&state.names.node))
        });
        add("force_nodes", Verdict::only(forced));
    }
    found
}

/// The hosts that a destination names.
fn destined<'a>(hosts: &'a HostTable, destination: &Destination) -> Verdict<'a> {
    let is_node = |slot: &u32| {
        let Some(wanted) = &destination.node else {
            return true;
        };
        let state = hosts.get(*slot);
        state.is_some_and(|state| state.names.node == *wanted)
    };
    match &destination.host {
        Some(host) => Verdict::only(hosts.nodes_of(host).filter(is_node)),
        None => Verdict::only(hosts.known().iter().filter(is_node)),
    }
}

impl<'a> CompiledFilters<'a> {
    /// The filters that do not let every host pass, in order: first the restrictions of the
    /// request, then the configured ones.
    #[must_use]
    pub fn filters(&self) -> &[CompiledFilter<'a>] {
        &self.filters
    }

    /// Which of the 64 slots from `64 * word` on may hold feasible hosts: judged by the filters
    /// whose verdict is the same for every instance of the request, or by the others. Where
    /// [`Self::needs_predicate`] is true, [`Self::passes_predicates`] has to be asked in addition.
    #[must_use]
    #[inline]
    pub fn word(&self, word: usize, once_per_request: bool) -> u64 {
        let known = self.hosts.known().word(word);
        let masks = self.of(once_per_request);
        masks.fold(known, |mask, filter| mask & filter.verdict.word(word))
    }

    fn of(&self, once_per_request: bool) -> impl Iterator<Item = &CompiledFilter<'a>> {
        let filters = self.filters.iter();
        filters.filter(move |filter| filter.is_once_per_request == once_per_request)
    }

    /// Whether some filter cannot be expressed as a mask and has to be asked host by host.
    #[must_use]
    pub fn needs_predicate(&self, once_per_request: bool) -> bool {
        self.of(once_per_request)
            .any(|filter| filter.verdict.needs_predicate())
    }

    /// Whether a slot holds a host that passes all filters.
    #[must_use]
    pub fn passes(&self, slot: u32) -> bool {
        self.hosts.known().contains(slot)
            && self
                .filters
                .iter()
                .all(|filter| filter.verdict.passes(slot))
    }

    /// Whether a host that [`Self::word`] admits passes the filters that have no mask.
    #[must_use]
    pub fn passes_predicates(&self, slot: u32, once_per_request: bool) -> bool {
        let mut asked = self
            .of(once_per_request)
            .filter(|filter| filter.verdict.needs_predicate());
        asked.all(|filter| filter.verdict.passes(slot))
    }

    /// The hosts listed explicitly by a filter, if there is such a list: no other host passes.
    #[must_use]
    pub fn named(&self) -> Option<&SlotSet> {
        let sets = self
            .filters
            .iter()
            .filter_map(|filter| match &filter.verdict {
                Verdict::Within(Cow::Owned(set)) => Some(set),
                _ => None,
            });
        sets.min_by_key(|set| set.len())
    }

    /// The name of the first filter that rejects a host.
    #[must_use]
    pub fn refused_by(&self, slot: u32) -> Option<&str> {
        let refusing = self
            .filters
            .iter()
            .find(|filter| !filter.verdict.passes(slot));
        refusing.map(|filter| filter.name)
    }
}
