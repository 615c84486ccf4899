//! Explains a ranking: the scores of the best hosts, and of those that the caller names.

use placewright_placement::explain::first_failed;
use placewright_placement::{CandidateQuery, ConsumerUuid, ProviderId, State};
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::prepare::Prepared;
use placewright_scheduler::rank::Ranked;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::rules::Rules;
use placewright_scheduler::select::weights::Weight;
use placewright_scheduler::select::{Scheduler, Scope, SelectRefusal};
use uuid::Uuid;

/// How many hosts of a ranking are explained.
pub const EXPLAINED_MAX: usize = 10;
/// How many nodes are explained of a compute service that the caller names; most services have one.
const NODES_MAX: usize = 10;

/// The scores of a ranking.
#[derive(Debug)]
pub struct ScoreExplanation {
    /// How many hosts were feasible, and were compared.
    pub compared: usize,
    /// The best of the compared hosts, best first.
    pub hosts: Vec<ScoredHost>,
    /// The hosts that the caller names, in the caller's order.
    pub requested: Vec<RequestedHost>,
}

/// A host with its score.
#[derive(Debug)]
pub struct ScoredHost {
    /// The identity of the host.
    pub host: HostIdentity,
    /// The sum of the weighers' shares, higher is better.
    pub score: f64,
    /// The part that each weigher has in the score.
    pub weights: Vec<Weight>,
}

/// The identity of a host: its slot, its UUID and its names.
#[derive(Debug)]
pub struct HostIdentity {
    /// The slot of the host.
    pub slot: u32,
    /// The UUID of the host's root provider.
    pub provider: Uuid,
    /// The name of the host's compute service.
    pub service_host: String,
    /// The name of the host's compute node.
    pub node: String,
}

/// A host that the caller names.
#[derive(Debug)]
pub struct RequestedHost {
    /// The name or UUID that the caller gave.
    pub name: String,
    /// The host; `None` if the scheduler does not know a host by that name.
    pub host: Option<HostIdentity>,
    /// The result of the search for the host.
    pub standing: HostStanding,
}

/// The result of a search for one host.
#[derive(Debug)]
pub enum HostStanding {
    /// The host was compared.
    Ranked {
        /// The host's position among all hosts that were compared, from 1.
        rank: usize,
        /// The sum of the weighers' shares, higher is better.
        score: f64,
        /// The part that each weigher has in the score.
        weights: Vec<Weight>,
    },
    /// The host was not compared.
    Excluded(Exclusion),
}

/// The first condition that excluded a host. Placement is tested first, then the filters, the hard rules and the
/// search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// No agent has reported a host of this name to the scheduler.
    Unknown,
    /// A constraint of the placement query.
    Placement(String),
    /// A filter, by its name.
    Filter(String),
    /// A hard rule of the server group or of the topology.
    Rule,
    /// Only the scope of this search: it is limited to a cell, or to hosts that no other instance of the request takes.
    Search,
}

/// A search whose ranking is explained.
pub(super) struct ExplainedSearch<'a> {
    pub(super) request: &'a RequestSpec,
    pub(super) prepared: &'a Prepared,
    pub(super) scope: &'a Scope,
    /// The names or UUIDs of hosts that the caller names.
    pub(super) requested_names: &'a [String],
}

impl ExplainedSearch<'_> {
    /// Ranks hosts, with an explanation of the order.
    pub(super) fn rank(
        &self,
        scheduler: &mut Scheduler,
        state: &State,
    ) -> Result<(Vec<Ranked>, ScoreExplanation), SelectRefusal> {
        let scope = Scope {
            count: self.scope.count.max(EXPLAINED_MAX),
            ..self.scope.clone()
        };
        let requested = self.requested_slots(scheduler.hosts());
        let slots = requested.iter().filter_map(|(_, slot)| *slot).collect();
        let (request, prepared) = (self.request, self.prepared);
        let result = scheduler.rank_with_weights(state, request, prepared, &scope, slots)?;
        let (mut ranked, weights) = result;
        let fallback = prepared.fallback.as_ref();
        let fallback = fallback.filter(|_| weights.is_from_fallback);
        let query = fallback.unwrap_or(&prepared.query);
        let hosts = scheduler.hosts();
        let with_weights = ranked.iter().zip(weights.of_best);
        let scored = with_weights.filter_map(|(host, weights)| {
            Some(ScoredHost {
                host: HostIdentity::of(hosts, host.slot)?,
                score: host.score,
                weights,
            })
        });
        let scored = scored.collect();
        let standing = |slot: Option<u32>| -> Result<HostStanding, SelectRefusal> {
            let Some(slot) = slot else {
                return Ok(HostStanding::Excluded(Exclusion::Unknown));
            };
            Ok(
                match weights.of_requested.iter().find(|host| host.slot == slot) {
                    Some(host) => HostStanding::Ranked {
                        rank: host.rank,
                        score: host.score,
                        weights: host.weights.clone(),
                    },
                    None => HostStanding::Excluded(self.exclusion(scheduler, state, query, slot)?),
                },
            )
        };
        let requested = requested.into_iter().map(|(name, slot)| {
            Ok(RequestedHost {
                name: name.to_owned(),
                host: slot.and_then(|slot| HostIdentity::of(hosts, slot)),
                standing: standing(slot)?,
            })
        });
        let explanation = ScoreExplanation {
            compared: weights.compared,
            hosts: scored,
            requested: requested.collect::<Result<_, SelectRefusal>>()?,
        };
        ranked.truncate(self.scope.count);
        Ok((ranked, explanation))
    }

    /// The slots of the hosts that the caller names, each with the name in the request: several slots for a
    /// compute service with several nodes, `None` for an unknown name.
    fn requested_slots(&self, hosts: &HostTable) -> Vec<(&str, Option<u32>)> {
        let mut slots = Vec::with_capacity(self.requested_names.len());
        for name in self.requested_names {
            let by_uuid = Uuid::parse_str(name).ok();
            let by_uuid = by_uuid.and_then(|uuid| hosts.by_uuid(uuid));
            let nodes: Vec<u32> = match by_uuid {
                Some((slot, _)) => vec![slot],
                None => hosts.nodes_of(name).take(NODES_MAX).collect(),
            };
            if nodes.is_empty() {
                slots.push((name.as_str(), None));
            }
            slots.extend(nodes.into_iter().map(|slot| (name.as_str(), Some(slot))));
        }
        slots
    }

    /// The condition that excluded a host that was not compared. `query` is the one that found the compared hosts.
    fn exclusion(
        &self,
        scheduler: &Scheduler,
        state: &State,
        query: &CandidateQuery,
        slot: u32,
    ) -> Result<Exclusion, SelectRefusal> {
        let host = ProviderId(slot);
        if let Some(constraint) = first_failed(state, query, host)? {
            return Ok(Exclusion::Placement(constraint.to_string()));
        }
        let (policy, instance) = (scheduler.policy(), self.scope.instance);
        let compiled = policy.compile(self.request, scheduler.hosts(), instance)?;
        if let Some(filter) = compiled.filters.rejecting_filter(slot) {
            return Ok(Exclusion::Filter(filter.to_owned()));
        }
        let itself = ConsumerUuid::from_uuid(instance);
        let rules = Rules::bind_with_placed(state, self.request, itself, &self.scope.placed)?;
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        if rules.satisfying(state, word, bit) == 0 {
            return Ok(Exclusion::Rule);
        }
        Ok(Exclusion::Search)
    }
}

impl HostIdentity {
    fn of(hosts: &HostTable, slot: u32) -> Option<Self> {
        let host = hosts.get(slot)?;
        Some(Self {
            slot,
            provider: host.uuid,
            service_host: host.names.service_host.clone(),
            node: host.names.node.clone(),
        })
    }
}
