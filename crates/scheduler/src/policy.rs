//! Filters and weighers together, as configured, and made ready for one request.
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

use crate::config::{self, ConfigError, SchedulerConfig, Warning};
use crate::error::BadRequest;
use crate::expression::Expression;
use crate::filter::{self, Context, Filter};
use crate::host_table::HostTable;
use crate::request::{Destination, RequestSpec};
use crate::select::rebuild::CHECK_HINT;
use crate::verdict::Verdict;
use crate::weigher::{Compiled, CompiledWeighers, Weigher, metrics};

/// The configured filters and weighers.
#[derive(Clone, Debug)]
pub struct Policy {
    config: SchedulerConfig,
    filters: Vec<&'static Filter>,
    weighers: Vec<&'static Weigher>,
    expressions: Arc<[Expression]>,
    refuses_unmeasured: bool,
}

/// A filter's answer for one request.
#[derive(Debug)]
pub struct CompiledFilter<'a> {
    /// The filter's name, or that of the request's field that restricts the hosts.
    pub name: &'a str,
    /// Whether the answer is the same for every instance of the request.
    pub is_once_per_request: bool,
    /// Who passes.
    pub verdict: Verdict<'a>,
}

/// All filters' answers for one request.
#[derive(Debug)]
pub struct CompiledFilters<'a> {
    hosts: &'a HostTable,
    filters: Vec<CompiledFilter<'a>>,
}

/// Filters and weighers, ready for one request.
#[derive(Debug)]
pub struct CompiledPolicy<'a> {
    /// Who may serve it.
    pub filters: CompiledFilters<'a>,
    /// Who is better.
    pub weighers: CompiledWeighers<'a>,
}

impl Policy {
    /// The policy of a configuration.
    ///
    /// # Errors
    ///
    /// Everything in the configuration that nothing can be made of.
    pub fn new(config: SchedulerConfig) -> Result<Self, Vec<ConfigError>> {
        let (errors, _) = config::check(&config);
        if !errors.is_empty() {
            return Err(errors);
        }
        let filters = config::enabled_filters(&config).map_err(|error| vec![error])?;
        let weighers = config::enabled_weighers(&config).map_err(|error| vec![error])?;
        let weighs_metrics = weighers.iter().any(|weigher| weigher.name == metrics::NAME);
        Ok(Self {
            filters,
            expressions: config::load_expressions(&config)?.into(),
            refuses_unmeasured: weighs_metrics && config.metrics.required,
            weighers,
            config,
        })
    }

    /// The options.
    #[must_use]
    pub fn config(&self) -> &SchedulerConfig {
        &self.config
    }

    /// What in the configuration, or in the metadata of aggregates, cannot have the effect that
    /// somebody hoped for.
    #[must_use]
    pub fn warnings(&self, hosts: &HostTable) -> Vec<Warning> {
        let (_, mut warnings) = config::check(&self.config);
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

    /// Readies filters and weighers for a request and the instance whose turn it is.
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
        let is_rebuild = filter::is_rebuild(context.request);
        let has_check = !context.request.hints(CHECK_HINT).is_empty();
        // What an administrator forced is not filtered, unless only a check was asked for.
        let is_filtered = has_check || !context.request.is_forced();
        let asked = self
            .filters
            .iter()
            .filter(|filter| !is_rebuild || filter.runs_on_rebuild);
        for filter in asked.filter(|_| is_filtered) {
            let verdict = (filter.compile)(context)?;
            filters.push(CompiledFilter {
                name: filter.name,
                is_once_per_request: filter.is_once_per_request,
                verdict,
            });
        }
        // Expressions say what the operator wants of a host, not whether an instance may stay there.
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

/// What the request itself says about hosts by name.
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

/// The hosts that a destination means.
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
    /// The filters that do not let everybody pass, in order: first what the request says by name,
    /// then as configured.
    #[must_use]
    pub fn filters(&self) -> &[CompiledFilter<'a>] {
        &self.filters
    }

    /// Which of the 64 slots from `64 * word` on hold hosts that may pass the filters whose answer
    /// is the same for every instance of the request, or else those for which it is not. Where
    /// [`Self::asks_each`], [`Self::passes_the_rest`] has the last word on them.
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

    /// Whether words do not say everything.
    #[must_use]
    pub fn asks_each(&self, once_per_request: bool) -> bool {
        self.of(once_per_request)
            .any(|filter| filter.verdict.asks_each())
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

    /// Whether a host of which [`Self::word`] said yes passes the filters that words say nothing of.
    #[must_use]
    pub fn passes_the_rest(&self, slot: u32, once_per_request: bool) -> bool {
        let mut asked = self
            .of(once_per_request)
            .filter(|filter| filter.verdict.asks_each());
        asked.all(|filter| filter.verdict.passes(slot))
    }

    /// The hosts that a filter names one by one, if one does: no others pass.
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

    /// The first filter that refuses a host.
    #[must_use]
    pub fn refused_by(&self, slot: u32) -> Option<&str> {
        let refusing = self
            .filters
            .iter()
            .find(|filter| !filter.verdict.passes(slot));
        refusing.map(|filter| filter.name)
    }
}
