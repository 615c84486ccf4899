//! The declarations of placement's changes, in the macros of `declare.rs`. Fields after a semicolon were added by a
//! later release; a number before a variant is its number on disk and never changes.

use placewright_placement::change::{Change, NewAllocation};
use placewright_placement::group::{Distance, Level, Relation, Rule, RuleScope};
use placewright_placement::{ClassId, ConsumerUuid, Inventory, Timestamp, TraitId};

use crate::form::{Form, FormError, Reader, Writer};

wrapped!(ClassId, TraitId, Timestamp);

impl Form for ConsumerUuid {
    fn write(&self, out: &mut Writer) {
        // `Writer::text` joins two parts, and here there is one.
        out.text(self.as_str(), "");
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Self::from_ascii(from.bytes()?).ok_or(FormError::Bad("a consumer"))
    }
}

row!(Inventory {
    total,
    reserved,
    min_unit,
    max_unit,
    step_size,
    allocation_ratio
});
row!(NewAllocation {
    provider,
    class,
    amount
});
row!(Level { name, aggregates; names });
row!(Distance { from, to, distance });
row!(Rule { scope, relation });

choice!(RuleScope {
    0 Host,
    1 Level(name),
});

choice!(Relation {
    0 Same,
    1 FewerThan(count),
    2 Spread(count),
});

choice!(Change {
    0 ClassCreated { id, name, at },
    1 ClassRenamed { id, name, at },
    2 ClassRemoved { id },
    3 TraitCreated { id, name, at },
    4 TraitRemoved { id },
    5 ProviderCreated { uuid, name, parent, at },
    6 ProviderUpdated { uuid, name, parent, at },
    7 ProviderRemoved { uuid },
    8 GenerationSet { provider, generation, at },
    9 InventorySet { provider, class, inventory, at },
    10 InventoryRemoved { provider, class },
    11 TraitsSet { provider, traits },
    12 AggregatesSet { provider, aggregates },
    13 ConsumerSet { consumer, generation, project, user, consumer_type, at, allocations },
    14 ConsumerRemoved { consumer },
    15 GroupSet { group, rules },
    16 GroupRemoved { group },
    17 LevelsSet { levels },
    18 ConsumerPlaced { consumer, host, group },
    19 DistancesSet { distances },
});
