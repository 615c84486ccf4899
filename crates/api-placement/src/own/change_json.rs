//! The JSON representation of changes in the change stream.
//!
//! Each is an object with a `type` and fields named as in the API. Times are seconds since 1970
//! with a fraction. Classes and traits are shown by their present names; one that was deleted
//! meanwhile is `null`, and its number identifies it.

use placewright_http::json::Writer;
use placewright_placement::group::{Distance, Level, Relation, Rule, RuleScope};
use placewright_placement::{Change, ClassId, Inventory, State, Timestamp, TraitId};
use uuid::Uuid;

/// Writes one change as a JSON object.
pub(super) fn write(writer: &mut Writer, change: &Change, state: &State) {
    writer.open_object();
    writer.key("type");
    match change {
        Change::ClassCreated { id, name, at } => named(writer, "class_created", id.0, name, *at),
        Change::ClassRenamed { id, name, at } => named(writer, "class_renamed", id.0, name, *at),
        Change::ClassRemoved { id } => number(writer, "class_removed", id.0),
        Change::TraitCreated { id, name, at } => named(writer, "trait_created", id.0, name, *at),
        Change::TraitRemoved { id } => number(writer, "trait_removed", id.0),
        Change::ProviderCreated { .. }
        | Change::ProviderUpdated { .. }
        | Change::ProviderRemoved { .. }
        | Change::GenerationSet { .. }
        | Change::TraitsSet { .. }
        | Change::AggregatesSet { .. } => of_provider(writer, change, state),
        Change::InventorySet { .. } | Change::InventoryRemoved { .. } => {
            of_inventory(writer, change, state);
        }
        Change::ConsumerSet { .. }
        | Change::ConsumerRemoved { .. }
        | Change::ConsumerPlaced { .. } => of_consumer(writer, change, state),
        Change::GroupSet { group, rules } => {
            writer.text("group_set");
            uuid(writer, "group", *group);
            writer.key("rules");
            writer.open_array();
            rules.iter().for_each(|one| rule(writer, one));
            writer.close_array();
        }
        Change::GroupRemoved { group } => {
            writer.text("group_removed");
            uuid(writer, "group", *group);
        }
        Change::LevelsSet { levels } => {
            writer.text("levels_set");
            writer.key("levels");
            writer.open_array();
            levels.iter().for_each(|one| level(writer, one));
            writer.close_array();
        }
        Change::DistancesSet { distances } => {
            writer.text("distances_set");
            writer.key("distances");
            writer.open_array();
            distances.iter().for_each(|one| distance(writer, one));
            writer.close_array();
        }
    }
    writer.close_object();
}

fn of_provider(writer: &mut Writer, change: &Change, state: &State) {
    match change {
        Change::ProviderCreated {
            uuid,
            name,
            parent,
            at,
        } => {
            provider(writer, "provider_created", *uuid, name, *parent, *at);
        }
        Change::ProviderUpdated {
            uuid,
            name,
            parent,
            at,
        } => {
            provider(writer, "provider_updated", *uuid, name, *parent, *at);
        }
        Change::ProviderRemoved { uuid: removed } => {
            writer.text("provider_removed");
            uuid(writer, "uuid", *removed);
        }
        Change::GenerationSet {
            provider,
            generation,
            at,
        } => {
            writer.text("generation_set");
            uuid(writer, "resource_provider", *provider);
            writer.key("generation");
            writer.integer(*generation);
            time(writer, *at);
        }
        Change::TraitsSet { provider, traits } => {
            writer.text("traits_set");
            uuid(writer, "resource_provider", *provider);
            writer.key("traits");
            writer.open_array();
            traits.iter().for_each(|id| trait_name(writer, state, *id));
            writer.close_array();
        }
        Change::AggregatesSet {
            provider,
            aggregates,
        } => {
            writer.text("aggregates_set");
            uuid(writer, "resource_provider", *provider);
            writer.key("aggregates");
            writer.open_array();
            aggregates
                .iter()
                .for_each(|aggregate| writer.text(aggregate));
            writer.close_array();
        }
        _ => writer.raw(b"null"),
    }
}

fn of_inventory(writer: &mut Writer, change: &Change, state: &State) {
    match change {
        Change::InventorySet {
            provider,
            class: id,
            inventory: set,
            at,
        } => {
            writer.text("inventory_set");
            uuid(writer, "resource_provider", *provider);
            class(writer, state, *id);
            inventory(writer, set);
            time(writer, *at);
        }
        Change::InventoryRemoved {
            provider,
            class: id,
        } => {
            writer.text("inventory_removed");
            uuid(writer, "resource_provider", *provider);
            class(writer, state, *id);
        }
        _ => writer.raw(b"null"),
    }
}

fn of_consumer(writer: &mut Writer, change: &Change, state: &State) {
    match change {
        Change::ConsumerSet {
            consumer,
            generation,
            project,
            user,
            consumer_type,
            at,
            allocations,
        } => {
            writer.text("consumer_set");
            writer.key("consumer_uuid");
            writer.text(consumer.as_str());
            writer.key("consumer_generation");
            writer.integer(*generation);
            writer.key("project_id");
            writer.text(project);
            writer.key("user_id");
            writer.text(user);
            writer.key("consumer_type");
            writer.optional_text(consumer_type.as_deref());
            writer.key("allocations");
            writer.open_array();
            for fact in allocations {
                writer.open_object();
                uuid(writer, "resource_provider", fact.provider);
                class(writer, state, fact.class);
                writer.key("amount");
                writer.integer(fact.amount);
                writer.close_object();
            }
            writer.close_array();
            time(writer, *at);
        }
        Change::ConsumerRemoved { consumer } => {
            writer.text("consumer_removed");
            writer.key("consumer_uuid");
            writer.text(consumer.as_str());
        }
        Change::ConsumerPlaced {
            consumer,
            host,
            group,
        } => {
            writer.text("consumer_placed");
            writer.key("consumer_uuid");
            writer.text(consumer.as_str());
            optional_uuid(writer, "host", *host);
            optional_uuid(writer, "group", *group);
        }
        _ => writer.raw(b"null"),
    }
}

fn named(writer: &mut Writer, kind: &str, id: u16, name: &str, at: Timestamp) {
    number(writer, kind, id);
    writer.key("name");
    writer.text(name);
    time(writer, at);
}

fn number(writer: &mut Writer, kind: &str, id: u16) {
    writer.text(kind);
    writer.key("id");
    writer.integer(id);
}

fn provider(
    writer: &mut Writer,
    kind: &str,
    id: Uuid,
    name: &str,
    parent: Option<Uuid>,
    at: Timestamp,
) {
    writer.text(kind);
    uuid(writer, "uuid", id);
    writer.key("name");
    writer.text(name);
    optional_uuid(writer, "parent_provider_uuid", parent);
    time(writer, at);
}

fn uuid(writer: &mut Writer, key: &str, uuid: Uuid) {
    writer.key(key);
    writer.text(uuid.hyphenated().encode_lower(&mut [0; 36]));
}

fn optional_uuid(writer: &mut Writer, key: &str, found: Option<Uuid>) {
    match found {
        Some(found) => uuid(writer, key, found),
        None => {
            writer.key(key);
            writer.raw(b"null");
        }
    }
}

fn class(writer: &mut Writer, state: &State, id: ClassId) {
    let name = state.class_name(id);
    writer.key("resource_class");
    writer.optional_text((!name.is_empty()).then_some(name));
    writer.key("resource_class_id");
    writer.integer(id.0);
}

fn trait_name(writer: &mut Writer, state: &State, id: TraitId) {
    let name = state.trait_name(id);
    writer.optional_text((!name.is_empty()).then_some(name));
}

fn inventory(writer: &mut Writer, inventory: &Inventory) {
    for (key, number) in [
        ("total", inventory.total),
        ("reserved", inventory.reserved),
        ("min_unit", inventory.min_unit),
        ("max_unit", inventory.max_unit),
        ("step_size", inventory.step_size),
    ] {
        writer.key(key);
        writer.integer(number);
    }
    writer.key("allocation_ratio");
    writer.float(inventory.allocation_ratio);
}

fn time(writer: &mut Writer, at: Timestamp) {
    writer.key("at");
    writer.raw(
        format!(
            "{}.{:06}",
            at.0.div_euclid(1_000_000),
            at.0.rem_euclid(1_000_000)
        )
        .as_bytes(),
    );
}

fn rule(writer: &mut Writer, rule: &Rule) {
    writer.open_object();
    writer.key("scope");
    match &rule.scope {
        RuleScope::Host => writer.text("host"),
        RuleScope::Level(name) => writer.text(name),
    }
    match rule.relation {
        Relation::Same => {
            writer.key("relation");
            writer.text("same");
        }
        Relation::FewerThan(most) => {
            writer.key("relation");
            writer.text("fewer_than");
            writer.key("limit");
            writer.integer(most);
        }
        Relation::Spread(skew) => {
            writer.key("relation");
            writer.text("spread");
            writer.key("max_skew");
            writer.integer(skew);
        }
    }
    writer.close_object();
}

fn level(writer: &mut Writer, level: &Level) {
    writer.open_object();
    writer.key("name");
    writer.text(&level.name);
    writer.key("aggregates");
    writer.open_array();
    level
        .aggregates
        .iter()
        .for_each(|aggregate| writer.text(aggregate));
    writer.close_array();
    writer.close_object();
}

fn distance(writer: &mut Writer, one: &Distance) {
    writer.open_object();
    writer.key("from");
    writer.text(&one.from);
    writer.key("to");
    writer.text(&one.to);
    writer.key("distance");
    writer.integer(one.distance);
    writer.close_object();
}
