//! Why a request found no host: what placement says, then each filter, then the hard rules.

use std::sync::Arc;

use placewright_placement::slot_set::bits;
use placewright_placement::{ConsumerUuid, State};
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::Scheduler;
use placewright_scheduler::select::rules::Rules;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use super::reasons::Reason;

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
    #[serde(serialize_with = "json_of")]
    placement: Option<Arc<Reason>>,
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn json_of<S: Serializer>(reason: &Option<Arc<Reason>>, serializer: S) -> Result<S::Ok, S::Error> {
    let json = reason.as_ref().and_then(|reason| reason.json.as_ref());
    json.serialize(serializer)
}

/// What one filter did.
#[derive(Debug, Serialize)]
struct Removed {
    filter: String,
    removed: usize,
    left: usize,
}

impl Why {
    /// Looks for the reasons, on the state as it is. `reason` is what placement says.
    pub(super) fn find(
        scheduler: &Scheduler,
        state: &State,
        request: &RequestSpec,
        instance: Uuid,
        reason: Option<Arc<Reason>>,
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
        // The hosts that are left, 64 to a word: nothing is asked of one host alone where a mask
        // has the answer.
        let hosts = scheduler.hosts();
        let mut left = Vec::new();
        if let Some(reason) = &reason {
            why.impossible.clone_from(&reason.impossible);
            left.clone_from(&reason.serving);
        }
        why.placement = reason;
        for (word, mask) in left.iter_mut().enumerate() {
            *mask &= hosts.known().word(word);
        }
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

fn count(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}
