//! Makes decisions again from the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_conductor::control::{self, Change, ControlState};
use placewright_conductor::super_conductor;
use placewright_conductor::{Decision, InstanceId};
use placewright_control::now;
use placewright_control::placer::{Demand, Placing, SearchContext, SearchResults, TimeSlice};
use placewright_records::{ranking, server};
use placewright_scheduler::aggregate::Aggregate;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::{Scheduler, Scope};
use placewright_types::ranking::Ranking;

use crate::live::{Past, Request};

/// The numbers of decisions that were checked, by kind.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Decisions that are equal to those made again.
    pub(crate) decisions: usize,
    /// Those of moves.
    pub(crate) moves: usize,
    /// Those of instances of requests with several.
    pub(crate) with_siblings: usize,
    /// Those for which hosts were compared with weights.
    pub(crate) weighed: usize,
    /// Those whose scores equal those of the linear ranking.
    pub(crate) scores: usize,
    /// Requests for which no host was found, neither then nor again.
    pub(crate) without_host: usize,
    /// The bytes of all rankings.
    pub(crate) ranking_bytes: usize,
}

/// How many alternates an instance gets with control's default options.
const ALTERNATE_COUNT: usize = 2;

/// Makes the decisions of all requests again, until as many as wanted are checked.
pub(crate) fn check(past: &Past, wanted: usize, checked: &mut Checked) {
    for request in &past.requests {
        if checked.decisions < wanted {
            check_request(past, request, checked);
        }
    }
}

fn check_request(past: &Past, request: &Request, checked: &mut Checked) {
    let kept = request.instances.iter().filter_map(|instance| {
        let mapping = past.end.conductor.mappings().get(instance)?;
        let mut decisions = mapping.decisions.iter();
        let decision = decisions.find(|decision| decision.migration == request.migration)?;
        Some((*instance, decision))
    });
    let kept: Vec<(InstanceId, &Decision)> = kept.collect();
    let Some((first, decision)) = kept.first() else {
        checked.without_host += 1;
        return;
    };
    // The entry of the claim, and the state that the ranking had seen.
    let ranking = ranking::decode(&decision.ranking.0).unwrap();
    let entry = entry_of(past, *first, decision);
    let seen = usize::try_from(ranking.sequence).unwrap();
    assert!(
        seen <= entry,
        "a claim comes after what its ranking has seen"
    );
    let state = state_after(past, seen);
    let mut scheduler = scheduler_of(past, request, &state);
    let (mut placing, spec) = demand(request, &state, &scheduler);
    let mut context = SearchContext {
        scheduler: &mut scheduler,
        state: &state.placement,
        contention: request.contention,
        scheduler_number: 0,
        excluded_cells: &[],
        avoided_cells: &[],
        ranking_record_sequence: Some(ranking.sequence),
    };
    let found = placing.find_hosts(&mut context, &TimeSlice::endless());
    assert_eq!(found, Ok(SearchResults::Ready));
    let may_reschedule = false;
    let command = match request.migration {
        Some(migration) => placing.place_move(migration),
        None => placing.place_builds(may_reschedule),
    };
    let again = decide_again(past, entry, command, decision.at);
    for (instance, decision) in &kept {
        let made_again = &again[instance];
        let both = [&decision.ranking.0, &made_again.ranking.0];
        let both = both.map(|bytes| ranking::decode(bytes).unwrap());
        assert_eq!(both[0], both[1], "the ranking for {instance}");
        assert_eq!(*decision, made_again, "{instance}");
        checked.decisions += 1;
        checked.moves += usize::from(request.migration.is_some());
        checked.with_siblings += usize::from(request.instances.len() > 1);
        checked.weighed += usize::from(!both[0].weighers.is_empty());
        checked.ranking_bytes += decision.ranking.0.len();
    }
    // The scores of the first instance are not changed by those of the others.
    let mut scheduler = scheduler_of(past, request, &state);
    check_scores(&mut scheduler, &state, request, &spec, &ranking);
    checked.scores += 1;
}

/// The index of the journal's entry, from 0, that records a decision: the number of entries before it.
fn entry_of(past: &Past, instance: InstanceId, decision: &Decision) -> usize {
    let records = |change: &Change| match change {
        Change::Conductor(super_conductor::Change::Mapping(id, Some(mapping))) => {
            *id == instance && mapping.decisions.contains(decision)
        }
        _ => false,
    };
    let mut entries = past.entries.iter();
    entries
        .position(|changes| changes.iter().any(records))
        .unwrap()
}

/// The state after a number of entries, from nothing but the journal.
fn state_after(past: &Past, count: usize) -> ControlState {
    let mut state = ControlState::default();
    for change in past.entries[..count].iter().flatten() {
        drop(state.apply(change));
    }
    state
}

/// A new scheduler that knows a state, and what hosts had said by then.
fn scheduler_of(past: &Past, request: &Request, state: &ControlState) -> Scheduler {
    let mut scheduler = Scheduler::new(past.config.clone(), PrepareOptions::default()).unwrap();
    let hosts = scheduler.hosts_mut();
    for (uuid, row) in state.conductor.aggregates() {
        let aggregate = Aggregate {
            name: row.name.clone(),
            metadata: row.metadata.clone(),
        };
        hosts.aggregates_mut().put([(*uuid, aggregate)]);
    }
    for (host, update) in &past.host_updates[..request.host_update_count] {
        hosts.apply(host.0, now(), update);
    }
    scheduler.observe(&state.placement, now());
    let hosts = scheduler.hosts_mut();
    for (host, report) in &request.unreported {
        let slot = hosts.by_uuid(host.0).map(|(slot, _)| slot);
        hosts.add_pending_instance(slot.unwrap(), report);
    }
    scheduler.observe(&state.placement, now());
    scheduler
}

/// What was to be placed, from the journal, with the request of one instance.
fn demand(
    request: &Request,
    state: &ControlState,
    scheduler: &Scheduler,
) -> (Placing, Arc<RequestSpec>) {
    let first = request.instances[0];
    let spec = &state.conductor.specs()[&first];
    let body = server::read(&spec.body).unwrap();
    let asked = Arc::new(body.request);
    let instances = request.instances.iter().map(|instance| instance.0);
    let demand = Demand {
        group: spec.group,
        alternate_count: ALTERNATE_COUNT,
        ..Demand::new(Arc::clone(&asked), instances.collect())
    };
    let demand = match request.migration {
        None => demand,
        Some(migration) => {
            let source = state.conductor.migrations()[&migration].source.unwrap();
            let slot = scheduler.hosts().by_uuid(source.0).map(|(slot, _)| slot);
            Demand {
                cell: state.conductor.mappings()[&first].cell.map(|cell| cell.0),
                excluded_slots: vec![slot.unwrap()],
                is_move: true,
                ..demand
            }
        }
    };
    (Placing::new(demand), asked)
}

/// Decides a claim on the state before the entry that records it. Returns the newest decision of each instance.
fn decide_again(
    past: &Past,
    entry: usize,
    command: super_conductor::Command,
    at: placewright_placement::Timestamp,
) -> BTreeMap<InstanceId, Decision> {
    let state = state_after(past, entry);
    let mut changes = Vec::new();
    let command = control::Command::Conductor { command, at };
    state.decide(&command, &mut changes).unwrap();
    let decisions = changes.into_iter().filter_map(|change| match change {
        Change::Conductor(super_conductor::Change::Mapping(instance, Some(mapping))) => {
            Some((instance, mapping.decisions.last()?.clone()))
        }
        _ => None,
    });
    decisions.collect()
}

/// The kept parts of scores are those that weighing every host gives.
fn check_scores(
    scheduler: &mut Scheduler,
    state: &ControlState,
    request: &Request,
    asked: &RequestSpec,
    kept: &Ranking,
) {
    let first = request.instances[0];
    let mapping = &state.conductor.mappings()[&first];
    let source = request.migration.map(|migration| {
        let source = state.conductor.migrations()[&migration].source.unwrap();
        scheduler.hosts().by_uuid(source.0).unwrap().0
    });
    let scope = Scope {
        instance: first.0,
        count: usize::MAX,
        cell: mapping
            .cell
            .map(|cell| cell.0)
            .filter(|_| request.migration.is_some()),
        excluded_slots: source.into_iter().collect(),
        ..Scope::default()
    };
    let prepared = scheduler.prepare(&state.placement, asked).unwrap();
    let result =
        scheduler.rank_with_weights(&state.placement, asked, &prepared, &scope, Vec::new());
    let (ranked, weights) = result.unwrap();
    assert!(
        kept.feasible
            .is_none_or(|count| count as usize == weights.compared)
    );
    assert_eq!(kept.known_hosts as usize, scheduler.hosts().slots().len());
    for (host, linear) in kept.hosts.iter().zip(&ranked) {
        assert!((kept.score(host) - linear.score).abs() < 1e-9);
    }
    for host in &kept.hosts {
        let (slot, _) = scheduler.hosts().by_uuid(host.host).unwrap();
        let index = ranked.iter().position(|other| other.slot == slot).unwrap();
        let shares = &weights.of_best[index];
        for part in kept.score_parts(host) {
            let share = shares
                .iter()
                .find(|weight| weight.weigher == part.weigher)
                .unwrap();
            assert_eq!(
                (share.raw_value, share.multiplier),
                (part.raw_value, part.multiplier)
            );
            assert!(
                (share.share - part.share).abs() < 1e-9,
                "{share:?} {part:?}"
            );
        }
        let sum: f64 = shares.iter().map(|share| share.share).sum();
        assert!((sum - kept.score(host)).abs() < 1e-9);
    }
}
