//! The simulated scheduler of the world: every host is a candidate, in the order of the ids or at random.

use placewright_conductor::control::Refusal;
use placewright_conductor::super_conductor::{self, Command, Effect, RankedCandidates};
use placewright_conductor::{Candidate, HostId, InstanceId, MoveKind, RankingRecord};

use super::{World, candidate};

/// The virtual processors of each instance, before and after a resize.
const VCPUS: i64 = 2;
const RESIZED_VCPUS: i64 = 3;

impl World {
    /// All hosts as candidates for a claim of `vcpus`, shuffled if [`World::shuffles`] is set.
    fn candidates(&mut self, vcpus: i64) -> Vec<Candidate> {
        let mut hosts: Vec<HostId> = self.agents.keys().copied().collect();
        if self.shuffles {
            for i in (1..hosts.len()).rev() {
                hosts.swap(i, self.rng.below(i + 1));
            }
        }
        hosts.into_iter().map(|id| candidate(id, vcpus)).collect()
    }

    /// Submits the command that places each build on the first of its candidates that fits. It is refused if fewer than
    /// `least` builds can be placed.
    pub fn try_place(
        &mut self,
        ranked_candidates: Vec<RankedCandidates>,
        least: usize,
    ) -> Result<super_conductor::Outcome, Refusal> {
        let may_reschedule = self.may_reschedule;
        self.try_conduct(Command::Place {
            ranked_candidates,
            least,
            may_reschedule,
        })
    }

    /// Submits the command by which control learns that the cell of an instance has accepted the message to create it.
    pub fn accept_create(&mut self, instance: InstanceId) {
        self.conduct(Command::CreateAccepted {
            instance,
            claim_number: 1,
            is_built: false,
        });
    }

    /// Ranks hosts for an effect and submits the placement, as control's placer does.
    pub(super) fn schedule(&mut self, effect: Effect) {
        match effect {
            Effect::Schedule { instances, .. } => {
                let mut ranked_candidates = Vec::new();
                for instance in &instances {
                    ranked_candidates.push(RankedCandidates::new(
                        *instance,
                        self.candidates(VCPUS),
                        self.alternates,
                    ));
                }
                let placed = self.try_place(ranked_candidates, 1);
                let unplaced: Vec<InstanceId> = match placed {
                    Ok(super_conductor::Outcome::Placed(chosen)) => {
                        let pairs = instances.iter().zip(chosen);
                        let unplaced = pairs.filter(|(_, chosen)| chosen.is_none());
                        unplaced.map(|(instance, _)| *instance).collect()
                    }
                    Err(Refusal::Conductor(super_conductor::Refusal::Placement(_))) => instances,
                    _ => Vec::new(),
                };
                if !unplaced.is_empty() {
                    let fault = self.fault("No valid host was found.");
                    self.conduct(Command::Bury {
                        instances: unplaced,
                        fault,
                    });
                }
            }
            Effect::ScheduleMove { migration } => {
                let Some(current_move) = self.control.conductor.moves().get(&migration) else {
                    return;
                };
                let is_resize = current_move.kind == MoveKind::Resize;
                let source = self.control.conductor.migrations()[&migration].source;
                let vcpus = if is_resize { RESIZED_VCPUS } else { VCPUS };
                let mut candidates = self.candidates(vcpus);
                candidates.retain(|candidate| is_resize || Some(candidate.host) != source);
                let placed = self.try_conduct(Command::PlaceMove {
                    migration,
                    candidates,
                    alternate_count: self.alternates,
                    ranking: RankingRecord::default(),
                });
                if let Err(Refusal::Conductor(super_conductor::Refusal::Placement(_))) = placed {
                    let fault = self.fault("No valid host was found.");
                    self.conduct(Command::FailMove { migration, fault });
                }
            }
            Effect::Send { .. } => {}
        }
    }
}
