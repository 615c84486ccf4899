//! Alternates for the selected hosts.

use std::collections::HashSet;

use super::look;
use super::request::DestinationsRequest;
use super::selected::SelectedHost;
use super::shared::Shared;
use crate::placer::FeasibleHost;

/// Alternates for each instance that has a host, all in the cell of that host. Hosts that are
/// selected or are alternates of other instances are used only if there are not enough others.
pub(super) fn alternates(
    shared: &Shared,
    ask: &DestinationsRequest,
    places: &mut [Option<SelectedHost>],
) -> Vec<Vec<FeasibleHost>> {
    let wanted = ask.alternates;
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
        let cell = place.offer.cell();
        let mates = std::mem::take(&mut place.others).into_iter();
        let mates = mates.filter(|offer| offer.cell() == cell);
        let (mut found, taken_too): (Vec<FeasibleHost>, Vec<FeasibleHost>) =
            mates.partition(|offer| !taken.contains(&offer.slot));
        if found.len() < wanted && place.are_all {
            found.extend(taken_too);
        } else if found.len() < wanted {
            found = search(shared, ask, index, place, &taken);
        }
        found.truncate(wanted);
        taken.extend(found.iter().map(|offer| offer.slot));
        all.push(found);
    }
    all
}

/// Alternates from a separate search, when the ranking of the selection had too few.
fn search(
    shared: &Shared,
    ask: &DestinationsRequest,
    index: usize,
    place: &SelectedHost,
    taken: &HashSet<u32>,
) -> Vec<FeasibleHost> {
    let instance = ask.instances[index];
    let find = |count, without: &[u32]| {
        let there = (place.offer.cell(), without);
        let found = look::in_cell(shared, &ask.request, instance, count, there);
        // A request that was ranked once can be ranked again; at worst there are no alternates.
        found.map_or_else(|_| Vec::new(), |found| found.offers)
    };
    let wanted = ask.alternates;
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
