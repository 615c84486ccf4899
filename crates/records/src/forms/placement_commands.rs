//! The declarations of the commands to placement.

use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, Intent, IntentCandidate,
    IntentRule, InventoryReplacement, ParentChange,
};

row!(Intent {
    consumer,
    generation,
    project,
    user,
    consumer_type,
    group,
    rules,
    candidates,
    alongside
});
row!(IntentRule {
    rule,
    others,
    includes_group
});
row!(IntentCandidate { host, allocations });
row!(InventoryReplacement {
    provider,
    generation,
    inventories
});
row!(ConsumerClaim {
    consumer,
    generation,
    project,
    user,
    consumer_type,
    allocations
});
row!(AllocationRequest {
    provider,
    resources
});

choice!(ParentChange {
    0 Keep,
    1 SetOnce(parent),
    2 Move(parent),
});

choice!(ConsumerGeneration {
    0 Any,
    1 Is(generation),
});

choice!(Command {
    0 SyncStandardNames { at },
    1 CreateProvider { uuid, name, parent, at },
    2 UpdateProvider { uuid, name, parent, at },
    3 DeleteProvider { uuid },
    4 AddInventory { provider, class, inventory, may_reserve_all, at },
    5 UpdateInventory { provider, generation, class, inventory, may_reserve_all, at },
    6 SetInventories { provider, generation, inventories, may_reserve_all, at },
    7 DeleteInventory { provider, class, at },
    8 SetTraits { provider, generation, traits, at },
    9 SetAggregates { provider, generation, aggregates, at },
    10 CreateClass { name, exist_ok, at },
    11 RenameClass { name, new_name, at },
    12 DeleteClass { name },
    13 EnsureTrait { name, at },
    14 DeleteTrait { name },
    15 Claim { consumers, at },
    16 ClaimFirst { intents, least, at },
    17 SetGroup { group, rules },
    18 DeleteGroup { group },
    19 SetLevels { levels, distances },
    20 Release { consumer },
    21 Reshape { inventories, consumers, at },
});
