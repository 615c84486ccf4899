//! One search of hosts for one instance of a request.

use std::borrow::Cow;
use std::sync::Arc;

use placewright_control::Why;
use placewright_placement::{IntentCandidate, State};
use placewright_scheduler::prepare::Prepared;
use placewright_scheduler::rank::Ranked;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::rules::of_topology;
use placewright_scheduler::select::{Mappings, Scheduler, Scope};
use uuid::Uuid;

use super::Ask;
use super::told::{Weighed, Weighing};
use crate::kept::Rules;
use crate::refused::Answer;
use crate::shared::{Brain, Core};

/// The parameters of a search.
#[derive(Debug)]
pub(super) struct Look<'a> {
    /// The index of the instance in the request.
    pub(super) index: usize,
    /// How many hosts are wanted.
    pub(super) count: usize,
    /// How many more hosts of the best one's cell are wanted, for alternates.
    pub(super) mates: usize,
    /// The most candidates of each host.
    pub(super) ways: usize,
    pub(super) cell: Option<Uuid>,
    /// The slots of hosts that are excluded.
    pub(super) without: &'a [u32],
}

/// For each alternate, this many hosts are ranked besides those wanted, and in all at most
/// `RANKED_FOR_MATES_MAX`. Most of them are in other cells, but mostly this one ranking yields
/// enough alternates.
const RANKED_PER_MATE: usize = 8;
const RANKED_FOR_MATES_MAX: usize = 128;

/// A feasible host with its candidates.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) slot: u32,
    pub(super) score: f64,
    pub(super) provider: Uuid,
    pub(super) cell: Uuid,
    pub(super) host: String,
    pub(super) node: String,
    pub(super) zone: Option<String>,
    /// The ways of allocating on the host; at least one.
    pub(super) candidates: Vec<IntentCandidate>,
    /// For each candidate, the providers of each group of the request.
    pub(super) mappings: Vec<Mappings>,
}

/// The result of a search.
#[derive(Debug)]
pub(super) struct Found {
    /// The hosts, best first: those wanted, then only some of the best one's cell.
    pub(super) offers: Vec<Offer>,
    /// Whether these are all the feasible hosts.
    pub(super) are_all: bool,
    /// The hard rules about other consumers, which a claim has to satisfy.
    pub(super) rules: Arc<Rules>,
    /// Parts of the request that have no effect, for people.
    pub(super) warnings: Vec<String>,
    /// The scores of the hosts, if the request asks for an explanation.
    pub(super) weighing: Option<Weighing>,
}

/// How many hosts of a ranking are explained.
pub(super) const EXPLAINED_MAX: usize = 10;

/// Ranks hosts, with an explanation of the order.
fn weigh(
    scheduler: &mut Scheduler,
    (state, request, prepared): (&State, &RequestSpec, &Prepared),
    scope: &Scope,
) -> Answer<(Vec<Ranked>, Weighing)> {
    let more = Scope {
        count: scope.count.max(EXPLAINED_MAX),
        ..scope.clone()
    };
    let (mut ranked, weights) = scheduler.rank_with_weights(state, request, prepared, &more)?;
    let hosts = scheduler.hosts();
    let both = ranked.iter().zip(weights.of_hosts);
    let weighed = both.filter_map(|(one, weights)| {
        let host = hosts.get(one.slot)?;
        Some(Weighed {
            slot: one.slot,
            provider: host.uuid,
            host: host.names.service_host.clone(),
            node: host.names.node.clone(),
            score: one.score,
            weights,
        })
    });
    let weighing = Weighing {
        compared: weights.compared,
        hosts: weighed.collect(),
    };
    ranked.truncate(scope.count);
    Ok((ranked, weighing))
}

impl Look<'_> {
    pub(super) fn run(&self, core: &Core, ask: &Ask) -> Answer<Found> {
        core.decide(|brain, state| {
            let scheduler = &mut brain.scheduler;
            let request = request_of(ask, self.index);
            let prepared = scheduler.prepare_once(state, &request)?;
            let for_mates = (self.mates * RANKED_PER_MATE).min(RANKED_FOR_MATES_MAX);
            let scope = Scope {
                instance: ask.instances[self.index],
                count: self.count + for_mates,
                cell: self.cell,
                without_cells: Vec::new(),
                without: self.without.to_vec(),
            };
            let (ranked, weighing) = if ask.explain {
                let told = weigh(scheduler, (state, &request, &prepared), &scope)?;
                (told.0, Some(told.1))
            } else {
                (scheduler.rank(state, &request, &prepared, &scope)?, None)
            };
            let (offers, is_cut) = self.offers(scheduler, state, &prepared, &ranked)?;
            let warnings = prepared.translation.warnings.iter();
            Ok(Found {
                offers,
                are_all: ranked.len() < scope.count && !is_cut,
                rules: Arc::new(of_topology(&request).collect()),
                warnings: warnings.map(ToString::to_string).collect(),
                weighing,
            })
        })
    }

    /// The first hosts of a ranking, the next ones of the first one's cell, and whether others were
    /// left out.
    fn offers(
        &self,
        scheduler: &Scheduler,
        state: &State,
        prepared: &Prepared,
        ranked: &[Ranked],
    ) -> Answer<(Vec<Offer>, bool)> {
        let mut offers: Vec<Offer> = Vec::with_capacity(self.count.min(16) + self.mates);
        let mut mates = 0;
        for one in ranked {
            let first = offers.first().map(|first| first.cell);
            let is_mate = scheduler.hosts().get(one.slot).map(|host| host.names.cell) == first;
            if offers.len() >= self.count {
                if mates >= self.mates {
                    return Ok((offers, true));
                }
                if !is_mate {
                    continue;
                }
            }
            let ways = scheduler.candidates_with_mappings(state, prepared, one.slot, self.ways)?;
            if !ways.is_empty() {
                offers.extend(offer(scheduler, one.slot, one.score, ways));
                mates += usize::from(is_mate);
            }
        }
        Ok((offers, false))
    }
}

fn offer(
    scheduler: &Scheduler,
    slot: u32,
    score: f64,
    ways: Vec<(IntentCandidate, Mappings)>,
) -> Option<Offer> {
    let (candidates, mappings) = ways.into_iter().unzip();
    let hosts = scheduler.hosts();
    let host = hosts.get(slot)?;
    Some(Offer {
        slot,
        score,
        provider: host.uuid,
        cell: host.names.cell,
        host: host.names.service_host.clone(),
        node: host.names.node.clone(),
        zone: hosts.aggregates().zone(slot).map(str::to_owned),
        candidates,
        mappings,
    })
}

/// Explains why an instance of a request finds no host.
pub(super) async fn explain(core: &Arc<Core>, ask: &Ask, index: usize) -> Answer<Why> {
    let since = core.ranker.moment();
    let prepared = core.decide(|brain, state| {
        let request = request_of(ask, index);
        brain.scheduler.prepare_once(state, &request)
    })?;
    let reason = core.ranker.reason(prepared.query.clone(), since).await;
    let find = |brain: &mut Brain<'_>, state: &State| {
        let request = request_of(ask, index);
        let instance = ask.instances[index];
        Why::find(brain.scheduler, state, &request, instance, reason)
    };
    Ok(core.decide(find))
}

/// The request for one of its instances: topology rules that name no servers concern the request's
/// other instances.
fn request_of(ask: &Ask, index: usize) -> Cow<'_, RequestSpec> {
    let request = &ask.request;
    let of_group = request
        .instance_group
        .iter()
        .flat_map(|group| &group.topology_rules);
    let mut rules = request.topology_rules.iter().chain(of_group);
    if ask.instances.len() < 2 || !rules.any(|rule| rule.to.is_empty()) {
        return Cow::Borrowed(request);
    }
    let mut request = request.clone();
    request.siblings = ask.instances.iter().copied().collect();
    request.siblings.remove(&ask.instances[index]);
    Cow::Owned(request)
}
