//! Why a server is where it is: what is kept of a decision equals the decision made again from the journal.
//!
//! Servers are placed by the whole of control on random fleets, beside many other changes. Afterwards the kept
//! decisions are read, and each is made again: the journal is replayed up to the entry that the ranking had seen, a new
//! scheduler ranks the hosts of that state, and the claim is decided on the state before its own entry. The decision
//! that comes out has to be equal in every field, and its scores those of the linear ranking, which weighs every host.
//!
//! The journal has neither what hosts report of themselves (load, metrics, which instances they run), nor how often
//! other claims have recently taken the selected hosts first. This test records both beside the journal.
//!
//! `PLACEWRIGHT_TEST_PLACEMENTS=1000 cargo test -p placewright-control --test why -- --nocapture` checks as many
//! decisions, and prints the figures.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod again;
mod live;

use live::Live;
use placewright_testing::random::Rng;

/// How many decisions are checked, unless the environment says otherwise.
const PLACEMENTS: usize = 200;
/// How many decisions are made on a fleet.
const PLACEMENTS_OF_FLEET: usize = 25;

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_decision_equals_the_one_made_again_from_the_journal() {
    let wanted = std::env::var("PLACEWRIGHT_TEST_PLACEMENTS").ok();
    let wanted = wanted.map_or(PLACEMENTS, |count| count.parse().unwrap());
    let mut checked = again::Checked::default();
    let mut seed = 0;
    while checked.decisions < wanted {
        let mut live = Live::start(Rng(seed)).await;
        seed += 1;
        while live.placed < PLACEMENTS_OF_FLEET && live.tries < 4 * PLACEMENTS_OF_FLEET {
            live.place().await;
            live.change().await;
        }
        for _ in 0..2 * PLACEMENTS_OF_FLEET {
            live.change().await;
        }
        let past = live.end().await;
        again::check(&past, wanted, &mut checked);
    }
    println!("{checked:#?}");
    // The test says nothing if the random fleets do not have what it is about.
    assert!(checked.moves > 0 && checked.with_siblings > 0);
    assert!(checked.weighed * 2 > checked.decisions, "{checked:?}");
    assert!(checked.without_host > 0, "{checked:?}");
}

#[test]
fn records_have_a_number_for_each_weigher() {
    let known = placewright_records::ranking::KNOWN_WEIGHERS;
    for weigher in placewright_scheduler::weighers::ALL {
        assert!(known.contains(&weigher.name), "{}", weigher.name);
    }
}
