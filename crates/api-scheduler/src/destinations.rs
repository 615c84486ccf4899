//! `POST /v1/destinations`: a host for each instance, with or without a claim, and alternates.
//!
//! Instances are handled one after the other: each is ranked on the present state and claimed with
//! one command that takes the first candidate that still fits. When too few instances find a host,
//! or anything fails, all claims are released before the response.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_control::now;
use placewright_http::Reply;
use placewright_placement::Timestamp;
use placewright_scheduler::select::rules::of_group;
use uuid::Uuid;

use crate::claims::{Attempt, Claimant, check_owner};
use crate::kept::{Kept, Rules, Wish};
use crate::refused::{Answer, Refused, code};
use crate::shared::{Call, Core, json};

mod ask;
mod look;
mod told;

use ask::Ask;
use look::{EXPLAINED_MAX, Found, Look, Offer};
use told::{DestinationsTold, SelectionTold, SlotTold, Weighing, WeighingTold};

/// The factor by which the number of ranked hosts grows with each further attempt for an instance.
const HOSTS_FACTOR: usize = 4;
/// The most candidates that are tried on each host.
const CANDIDATES_OF_HOST: usize = 4;
/// The most attempts to claim for an instance.
const ROUNDS: usize = 4;
/// How long a failed request waits for the release of its claims, which otherwise continues after
/// the response.
const UNDO_WAIT: Duration = Duration::from_secs(2);

/// The selected host of an instance.
#[derive(Debug)]
struct Place {
    offer: Offer,
    /// The index of the selected candidate of the host.
    chosen: usize,
    rules: Arc<Rules>,
    /// Other hosts of the same ranking, best first.
    others: Vec<Offer>,
    /// Whether the ranking had no further hosts.
    are_all: bool,
    /// The scores, if the request asks for an explanation.
    weighing: Option<Weighing>,
}

impl Place {
    /// The host of a candidate, whose index counts over all hosts; with the number of hosts before
    /// it.
    fn of(found: Found, candidate: usize) -> Option<(usize, Self)> {
        let mut offers = found.offers;
        let mut chosen = candidate;
        let index = offers.iter().position(|offer| {
            let is_here = chosen < offer.candidates.len();
            if !is_here {
                chosen -= offer.candidates.len();
            }
            is_here
        })?;
        let offer = offers.remove(index);
        let place = Self {
            offer,
            chosen,
            rules: found.rules,
            others: offers,
            are_all: found.are_all,
            weighing: found.weighing,
        };
        Some((index, place))
    }
}

/// A request while it is handled.
struct Round {
    core: Arc<Core>,
    ask: Ask,
    wish: Arc<Wish>,
    warnings: Vec<String>,
    /// The time of its claims, by which they are identified.
    at: Timestamp,
}

pub(crate) async fn select(call: &Call<'_>) -> Answer<Reply> {
    let ask = Ask::check(call.read()?)?;
    if ask.claim {
        check_owner("request.project_id", &ask.request.project_id)?;
        check_owner("request.user_id", &ask.request.user_id)?;
    }
    let group = ask.request.instance_group.as_ref();
    let image = ask.request.image.as_ref();
    let properties = image.into_iter().flat_map(|image| image.properties.iter());
    let wish = Wish {
        project: ask.request.project_id.clone(),
        user: ask.request.user_id.clone(),
        group: group.map(|group| (group.uuid, of_group(group))),
        image_properties: properties
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    };
    let round = Round {
        core: Arc::clone(call.core),
        ask,
        wish: Arc::new(wish),
        warnings: Vec::new(),
        at: now(),
    };
    // A separate task, so that a client that disconnects does not leave a request half done.
    let running = tokio::spawn(round.run());
    running
        .await
        .map_err(|error| Refused::new(500, code::INTERNAL, error.to_string()))?
}

impl Round {
    async fn run(mut self) -> Answer<Reply> {
        let mut places = Vec::with_capacity(self.ask.instances.len());
        if let Err(refused) = self.place_all(&mut places).await {
            if self.ask.claim {
                self.undo(&places, refused.status() == 503).await;
            }
            return Err(refused);
        }
        let alternates = self.alternates(&mut places);
        self.tell(&places, &alternates)
    }

    /// Finds a host for each instance, or for as many as required.
    async fn place_all(&mut self, places: &mut Vec<Option<Place>>) -> Answer<()> {
        if self.ask.claim {
            self.core.check_new(&self.ask.instances)?;
        }
        let wanted = self.ask.instances.len();
        let mut placed = 0;
        for index in 0..wanted {
            let place = self.place(index).await?;
            placed += usize::from(place.is_some());
            places.push(place);
            if placed + (wanted - index - 1) < self.ask.minimum {
                return Err(self.no_capacity(index, placed).await);
            }
        }
        Ok(())
    }

    async fn place(&mut self, index: usize) -> Answer<Option<Place>> {
        let instance = self.ask.instances[index];
        let mut without = Vec::new();
        let mut count = if self.ask.claim {
            self.core.ranker.contention().hosts()
        } else {
            1
        };
        for _ in 0..ROUNDS {
            let look = Look {
                index,
                count,
                mates: self.ask.alternates,
                ways: if self.ask.claim {
                    CANDIDATES_OF_HOST
                } else {
                    1
                },
                cell: None,
                without: &without,
            };
            let mut found = look.run(&self.core, &self.ask)?;
            self.warnings = std::mem::take(&mut found.warnings);
            if found.offers.is_empty() {
                return Ok(None);
            }
            if !self.ask.claim {
                return Ok(Place::of(found, 0).map(|(_, place)| place));
            }
            self.core.ensure_group(&self.wish).await?;
            let claimant = Claimant::new(instance, &self.wish.project, &self.wish.user, self.at);
            let candidates = found
                .offers
                .iter()
                .flat_map(|offer| offer.candidates.iter().cloned());
            let attempt =
                self.core
                    .attempt(claimant, &self.wish, &found.rules, candidates.collect());
            match attempt.await? {
                Attempt::Done(chosen) => {
                    let odd = || Refused::new(500, code::INTERNAL, "an unknown candidate");
                    let (missed, place) = Place::of(found, chosen).ok_or_else(odd)?;
                    self.core.ranker.contention().note(missed);
                    return Ok(Some(place));
                }
                Attempt::NothingFits(_) => {
                    self.core.ranker.contention().note_failed();
                    without.extend(found.offers.iter().map(|offer| offer.slot));
                }
            }
            count *= HOSTS_FACTOR;
        }
        Ok(None)
    }

    /// The refusal when an instance found no host, with the reasons.
    async fn no_capacity(&self, index: usize, placed: usize) -> Refused {
        let why = match look::explain(&self.core, &self.ask, index).await {
            Ok(why) => why,
            Err(refused) => return refused,
        };
        let instance = self.ask.instances[index];
        let mut detail = format!("No host for instance {instance}: {}.", why.sentence());
        if self.ask.instances.len() > 1 {
            detail.push_str(&format!(
                " {placed} of {} instances found one, at least {} had to; none keeps it.",
                self.ask.instances.len(),
                self.ask.minimum
            ));
        }
        tracing::info!(%instance, placed, "{detail}");
        Refused::no_host(detail, why)
    }

    /// Releases what was claimed. When the store failed, the claim under way may have been kept all
    /// the same, so it is released too.
    async fn undo(&self, places: &[Option<Place>], is_unsure: bool) {
        let held = places.iter().zip(&self.ask.instances);
        let held = held.filter(|(place, _)| place.is_some());
        let mut consumers: Vec<(Uuid, bool)> = held.map(|(_, one)| (*one, false)).collect();
        if is_unsure {
            let next = self.ask.instances.get(places.len());
            consumers.extend(next.map(|instance| (*instance, true)));
        }
        let (core, at) = (Arc::clone(&self.core), self.at);
        let undoing = tokio::spawn(async move {
            for (consumer, is_unsure) in consumers {
                core.undo(consumer, at, is_unsure).await;
            }
        });
        // After the time-out it continues in the background.
        let _ = tokio::time::timeout(UNDO_WAIT, undoing).await;
    }

    /// Alternates for each instance that has a host, in the same cell: neither selected hosts nor
    /// alternates of other instances, if there are enough others.
    fn alternates(&self, places: &mut [Option<Place>]) -> Vec<Vec<Offer>> {
        let wanted = self.ask.alternates;
        if wanted == 0 {
            return places.iter().map(|_| Vec::new()).collect();
        }
        let selected = places.iter().flatten().map(|place| place.offer.slot);
        let mut taken: HashSet<u32> = selected.collect();
        let mut all = Vec::with_capacity(places.len());
        for (index, place) in places.iter_mut().enumerate() {
            let Some(place) = place else {
                all.push(Vec::new());
                continue;
            };
            let cell = place.offer.cell;
            let mates = std::mem::take(&mut place.others).into_iter();
            let mates = mates.filter(|offer| offer.cell == cell);
            let (mut found, shared): (Vec<Offer>, Vec<Offer>) =
                mates.partition(|offer| !taken.contains(&offer.slot));
            if found.len() < wanted && place.are_all {
                found.extend(shared);
            } else if found.len() < wanted {
                found = self.search_alternates(index, place, &taken);
            }
            found.truncate(wanted);
            taken.extend(found.iter().map(|offer| offer.slot));
            all.push(found);
        }
        all
    }

    /// Alternates from a separate search, when the ranking of the selection had too few.
    fn search_alternates(&self, index: usize, place: &Place, taken: &HashSet<u32>) -> Vec<Offer> {
        let find = |count, without: &[u32]| {
            let look = Look {
                index,
                count,
                mates: 0,
                ways: 1,
                cell: Some(place.offer.cell),
                without,
            };
            // A request that was ranked once can be ranked again; at worst there are no alternates.
            look.run(&self.core, &self.ask)
                .map_or_else(|_| Vec::new(), |found| found.offers)
        };
        let wanted = self.ask.alternates;
        let mut without: Vec<u32> = taken.iter().copied().collect();
        without.sort_unstable();
        let mut found = find(wanted, &without);
        if found.len() < wanted {
            let mut own: Vec<u32> = found.iter().map(|offer| offer.slot).collect();
            own.push(place.offer.slot);
            found.extend(find(wanted - found.len(), &own));
        }
        found
    }

    /// Keeps all candidates of the response for later claims, and writes it.
    fn tell(&self, places: &[Option<Place>], alternates: &[Vec<Offer>]) -> Answer<Reply> {
        let mut shelf = self.core.shelf.lock();
        let now = Instant::now();
        let mut keep = |offer: &Offer, chosen: usize, rules: &Arc<Rules>| {
            let candidate = offer.candidates.get(chosen)?;
            let kept = Kept {
                wish: Arc::clone(&self.wish),
                rules: Arc::clone(rules),
                candidate: candidate.clone(),
                mappings: offer.mappings.get(chosen).cloned().unwrap_or_default(),
            };
            Some(shelf.keep(now, kept))
        };
        let slots = self.ask.instances.iter().zip(places).zip(alternates);
        let slots = slots.map(|((instance, place), alternates)| SlotTold {
            instance: *instance,
            selected: place.as_ref().and_then(|place| {
                let candidate = keep(&place.offer, place.chosen, &place.rules)?;
                SelectionTold::new(candidate, &place.offer, place.chosen)
            }),
            alternates: alternates
                .iter()
                .filter_map(|offer| {
                    let candidate = keep(offer, 0, &place.as_ref()?.rules)?;
                    SelectionTold::new(candidate, offer, 0)
                })
                .collect(),
            explanation: place.as_ref().and_then(|place| {
                let weighing = place.weighing.as_ref()?;
                Some(WeighingTold::new(weighing, EXPLAINED_MAX, place.offer.slot))
            }),
        });
        let selections = slots.collect();
        drop(shelf);
        json(
            200,
            &DestinationsTold {
                claimed: self.ask.claim,
                kept_ms: u64::try_from(self.core.keep.time.as_millis()).unwrap_or(u64::MAX),
                selections,
                warnings: &self.warnings,
            },
        )
    }
}
