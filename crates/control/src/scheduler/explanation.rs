//! Explains why a request found no host: placement first, then each filter, then the hard rules.

use std::sync::Arc;

use placewright_placement::slot_set::bits;
use placewright_placement::{ConsumerUuid, ProviderId, State};
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::Scheduler;
use placewright_scheduler::select::rules::Rules;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use super::explanation_cache::QueryExplanation;

/// The explanation of why a request found no host.
#[derive(Debug, Serialize)]
pub struct NoHostExplanation {
    /// The instance without a host.
    instance: Uuid,
    /// The number of hosts in the scheduler's table.
    hosts: usize,
    /// How many of these hosts satisfy the request's query to placement.
    with_room: usize,
    /// The smallest set of parts of the request that together leave no root provider.
    impossible: Vec<String>,
    /// How many of the hosts with room each filter removed, in the order of the filters.
    filters: Vec<FilterEffect>,
    /// How many hosts the rules of groups and topology removed of those that the filters left.
    removed_by_rules: usize,
    /// How many hosts are left. It is greater than zero when hosts were feasible, and concurrent claims took them.
    left: usize,
    /// The effect of each part of the request on all root providers, as in
    /// `/placewright/v1/explain`.
    #[serde(serialize_with = "json_of")]
    placement: Option<Arc<QueryExplanation>>,
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn json_of<S: Serializer>(
    explanation: &Option<Arc<QueryExplanation>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let explanation = explanation.as_ref();
    let json = explanation.and_then(|explanation| explanation.json.as_ref());
    json.serialize(serializer)
}

/// The effect of one filter.
#[derive(Debug, Serialize)]
struct FilterEffect {
    /// The name of the filter.
    filter: String,
    /// How many hosts the filter removed of those that the filters before it left.
    removed: usize,
    /// How many hosts it left.
    left: usize,
}

/// The hosts of an instance's siblings: the other instances of its request, which were to be claimed
/// together with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SiblingPlacements<'a> {
    /// The siblings with their hosts.
    pub placed: &'a [(ConsumerUuid, ProviderId)],
    /// The slots of hosts on which the siblings leave no room.
    pub taken_slots: &'a [u32],
}

impl NoHostExplanation {
    /// Explains a request on the present state. `query_explanation` is placement's part, which does not
    /// take account of the `siblings`.
    #[must_use]
    pub fn compute(
        scheduler: &Scheduler,
        state: &State,
        request: &RequestSpec,
        instance: Uuid,
        query_explanation: Option<Arc<QueryExplanation>>,
        siblings: &SiblingPlacements<'_>,
    ) -> Self {
        let mut why = Self {
            instance,
            hosts: scheduler.hosts().slots().len(),
            with_room: 0,
            impossible: Vec::new(),
            filters: Vec::new(),
            removed_by_rules: 0,
            left: 0,
            placement: None,
        };
        let hosts = scheduler.hosts();
        // The hosts that are left, 64 to a word: a single host is tested only where no mask has the
        // answer.
        let mut left_mask = Vec::new();
        if let Some(explanation) = &query_explanation {
            why.impossible.clone_from(&explanation.impossible);
            left_mask.clone_from(&explanation.serving);
        }
        why.placement = query_explanation;
        for (word, mask) in left_mask.iter_mut().enumerate() {
            *mask &= hosts.slots().word(word);
        }
        for slot in siblings.taken_slots {
            if let Some(mask) = left_mask.get_mut(*slot as usize / 64) {
                *mask &= !(1 << (slot % 64));
            }
        }
        why.with_room = count(&left_mask);
        let mut count_before = why.with_room;
        if let Ok(compiled) = scheduler.policy().compile(request, hosts, instance) {
            for filter in compiled.filters.filters() {
                let verdict = &filter.verdict;
                for (word, mask) in nonempty_words(&mut left_mask) {
                    *mask &= verdict.word(word);
                    if verdict.needs_predicate() {
                        let refused = bits(*mask, word).filter(|slot| !verdict.passes(*slot));
                        *mask = refused.fold(*mask, |mask, slot| mask & !(1 << (slot % 64)));
                    }
                }
                let count_after = count(&left_mask);
                why.filters.push(FilterEffect {
                    filter: filter.name.to_owned(),
                    removed: count_before - count_after,
                    left: count_after,
                });
                count_before = count_after;
            }
        }
        // A request with invalid rules is explained without them.
        let itself = ConsumerUuid::from_uuid(instance);
        let rules = Rules::bind_with_placed(state, request, itself, siblings.placed);
        let rules = rules.unwrap_or_default();
        for (word, mask) in nonempty_words(&mut left_mask) {
            *mask = rules.satisfying(state, word, *mask);
        }
        why.left = count(&left_mask);
        why.removed_by_rules = count_before - why.left;
        why
    }

    /// The explanation in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        if self.hosts == 0 {
            return "no host has told the scheduler about itself \
                    (POST /v1/hosts/{uuid}/state)"
                .to_owned();
        }
        let mut text = format!("{} of {} hosts have room", self.with_room, self.hosts);
        if !self.impossible.is_empty() {
            text.push_str(&format!(", nobody has {}", self.impossible.join(" with ")));
        }
        for filter in self.filters.iter().filter(|filter| filter.removed > 0) {
            text.push_str(&format!(", {} removed {}", filter.filter, filter.removed));
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

/// The words of a mask that have any host, with their indexes.
fn nonempty_words(mask: &mut [u64]) -> impl Iterator<Item = (usize, &mut u64)> {
    mask.iter_mut().enumerate().filter(|(_, word)| **word != 0)
}

fn count(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}
