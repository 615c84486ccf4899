//! Builds the state of a fleet.

use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, ParentChange,
    State, Timestamp, decide,
};
use uuid::Uuid;

use super::{Fleet, Stock, TRAITS, uuid_at};

/// Decides and applies a command; returns whether it was accepted.
pub fn run(state: &mut State, command: &Command) -> bool {
    let mut changes = Vec::new();
    let is_accepted = decide(state, command, &mut changes).is_ok();
    if is_accepted {
        for change in &changes {
            state.apply(change);
        }
    }
    is_accepted
}

/// A state with the classes and traits of fleets and nothing else.
static STATE_WITH_NAMES: std::sync::LazyLock<State> = std::sync::LazyLock::new(|| {
    let at = Timestamp::default();
    let mut state = State::default();
    run(&mut state, &Command::SyncStandardNames { at });
    // Only the two custom traits have to be created, because the first and the last of `TRAITS` are standard traits.
    for name in &TRAITS[1..3] {
        let name = (*name).to_owned();
        run(&mut state, &Command::EnsureTrait { name, at });
    }
    state
});

/// By how much the total of each inventory is larger than the fleet says while usages are claimed.
const SURPLUS: i32 = 10;

/// Builds the state of a fleet through commands. Usages are claimed while each inventory is larger by [`SURPLUS`], so
/// that some usages exceed the capacity in the end. If a claim is refused, [`Stock::used`] becomes 0.
pub fn build(fleet: &mut Fleet) -> State {
    let at = Timestamp::default();
    let mut state = STATE_WITH_NAMES.clone();
    for (index, member) in fleet.iter_mut().enumerate() {
        let uuid = uuid_at(index);
        let name = format!("p{index}");
        let create = Command::CreateProvider {
            uuid,
            name: name.clone(),
            parent: None,
            at,
        };
        run(&mut state, &create);
        if let Some(parent) = member.parent {
            let parent = ParentChange::Move(Some(uuid_at(parent)));
            let update = Command::UpdateProvider {
                uuid,
                name,
                parent,
                at,
            };
            assert!(run(&mut state, &update));
        }
        set_inventories_and_usages(&mut state, uuid, &mut member.stocks, at);
        let traits = Command::SetTraits {
            provider: uuid,
            generation: None,
            traits: member
                .traits
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
            at,
        };
        assert!(run(&mut state, &traits));
        let aggregates = Command::SetAggregates {
            provider: uuid,
            generation: None,
            aggregates: member.aggregates.clone(),
            at,
        };
        assert!(run(&mut state, &aggregates));
    }
    state
}

fn set_inventories_and_usages(
    state: &mut State,
    provider: Uuid,
    stocks: &mut [Stock],
    at: Timestamp,
) {
    let set_inventories = |state: &mut State, stocks: &[Stock], surplus: i32| {
        let inventories = stocks
            .iter()
            .map(|stock| {
                let mut inventory = stock.inventory;
                inventory.total += surplus;
                (stock.class.to_owned(), inventory)
            })
            .collect();
        let command = Command::SetInventories {
            provider,
            generation: None,
            inventories,
            may_reserve_all: true,
            at,
        };
        assert!(run(state, &command));
    };
    set_inventories(state, stocks, SURPLUS);
    for (number, stock) in stocks.iter_mut().enumerate() {
        if stock.used == 0 {
            continue;
        }
        let consumer = Uuid::from_u128(provider.as_u128() * 16 + number as u128);
        let claim = ConsumerClaim {
            consumer: ConsumerUuid::from_uuid(consumer),
            generation: ConsumerGeneration::Any,
            project: "p".into(),
            user: "u".into(),
            consumer_type: None,
            allocations: vec![AllocationRequest {
                provider,
                resources: vec![(stock.class.to_owned(), stock.used)],
            }],
        };
        let consumers = vec![claim];
        if !run(state, &Command::Claim { consumers, at }) {
            stock.used = 0;
        }
    }
    set_inventories(state, stocks, 0);
}
