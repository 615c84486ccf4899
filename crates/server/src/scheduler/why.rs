//! Why a request found no host: what placement says, then each filter, then the hard rules.

use placewright_placement::explain::explain;
use placewright_placement::slot_set::bits;
use placewright_placement::{ConsumerUuid, HostSearch, ProviderId, State};
use placewright_scheduler::prepare::Prepared;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::Scheduler;
use placewright_scheduler::select::rules::Rules;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::http::own;

/// Why a request found no host.
#[derive(Debug, Serialize)]
pub(super) struct Why {
    /// The instance that found none.
    instance: Uuid,
    /// The hosts that the scheduler knows of.
    hosts: usize,
    /// How many of them have what the request asks placement for.
    with_room: usize,
    /// The smallest set of parts of the request that together leave no root of placement.
    impossible: Vec<String>,
    /// What each filter removed of those, in order.
    filters: Vec<Removed>,
    /// How many of the rest the rules of groups and topology removed.
    removed_by_rules: usize,
    /// How many are left. Some are when others were faster, again and again.
    left: usize,
    /// What each part of the request does to all roots of placement, as
    /// `/placewright/v1/explain` has it.
    placement: Option<Box<RawValue>>,
}

/// What one filter did.
#[derive(Debug, Serialize)]
struct Removed {
    filter: String,
    removed: usize,
    left: usize,
}

impl Why {
    /// The known hosts that have what a request asks placement for, 64 to a word.
    pub(super) fn room(scheduler: &Scheduler, state: &State, prepared: &Prepared) -> Vec<u64> {
        let Ok(Some(search)) = HostSearch::new(state, &prepared.query) else {
            return Vec::new();
        };
        let hosts = scheduler.hosts().known();
        (0..search.words())
            .map(|word| fitting(&search, word, hosts.word(word)))
            .collect()
    }

    /// Looks for the reasons, on the state as it is. `room` are the hosts that have room.
    pub(super) fn find(
        scheduler: &Scheduler,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        instance: Uuid,
        room: Vec<u64>,
    ) -> Self {
        let mut why = Self {
            instance,
            hosts: scheduler.hosts().known().len(),
            with_room: 0,
            impossible: Vec::new(),
            filters: Vec::new(),
            removed_by_rules: 0,
            left: 0,
            placement: None,
        };
        if let Ok(found) = explain(state, &prepared.query) {
            let json = own::explain::write(state, &found).finish();
            let text = String::from_utf8(json).unwrap_or_default();
            let places = found.smallest.iter().flatten();
            let effects = places.filter_map(|place| found.effects.get(*place));
            why.impossible = effects
                .map(|effect| effect.constraint.to_string())
                .collect();
            why.placement = RawValue::from_string(text).ok();
        }
        // The hosts that are left, 64 to a word: nothing is asked of one host alone where a mask
        // has the answer.
        let mut left = room;
        let hosts = scheduler.hosts();
        why.with_room = count(&left);
        let mut before = why.with_room;
        if let Ok(compiled) = scheduler.policy().compile(request, hosts, instance) {
            for filter in compiled.filters.filters() {
                let verdict = &filter.verdict;
                for (word, mask) in left.iter_mut().enumerate().filter(|(_, mask)| **mask != 0) {
                    *mask &= verdict.word(word);
                    if verdict.asks_each() {
                        let refused = bits(*mask, word).filter(|slot| !verdict.passes(*slot));
                        *mask = refused.fold(*mask, |mask, slot| mask & !(1 << (slot % 64)));
                    }
                }
                let after = count(&left);
                why.filters.push(Removed {
                    filter: filter.name.to_owned(),
                    removed: before - after,
                    left: after,
                });
                before = after;
            }
        }
        // A search that refused the rules did not come here.
        let rules = Rules::of(state, request, ConsumerUuid::from_uuid(instance));
        let rules = rules.unwrap_or_default();
        for (word, mask) in left.iter_mut().enumerate().filter(|(_, mask)| **mask != 0) {
            *mask = rules.left_of(state, word, *mask);
        }
        why.left = count(&left);
        why.removed_by_rules = before - why.left;
        why
    }

    /// The reasons in one sentence.
    pub(super) fn sentence(&self) -> String {
        if self.hosts == 0 {
            return "no host has told the scheduler about itself \
                    (POST /v1/hosts/{uuid}/state)"
                .to_owned();
        }
        let mut text = format!("{} of {} hosts have room", self.with_room, self.hosts);
        if !self.impossible.is_empty() {
            text.push_str(&format!(", nobody has {}", self.impossible.join(" with ")));
        }
        for one in self.filters.iter().filter(|one| one.removed > 0) {
            text.push_str(&format!(", {} removed {}", one.filter, one.removed));
        }
        if self.removed_by_rules > 0 {
            text.push_str(&format!(
                ", rules of groups and topology removed {}",
                self.removed_by_rules
            ));
        }
        if self.left > 0 {
            text.push_str(&format!(
                ", {} are left but were refused at the claim",
                self.left
            ));
        }
        text
    }
}

/// Which of some hosts of a word have room.
fn fitting(search: &HostSearch<'_>, word: usize, hosts: u64) -> u64 {
    if hosts == 0 {
        return 0;
    }
    let room = search.word(word);
    let unsure = bits(room.unsure & hosts, word);
    let fitting = unsure.filter(|slot| search.fits(ProviderId(*slot)));
    fitting.fold(room.fitting & hosts, |mask, slot| mask | 1 << (slot % 64))
}

fn count(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}
