//! The JSON representation of changes in the change stream.
//!
//! Each change is an object with a `type` and fields named as in the API. Times are seconds since 1970
//! with a fraction. Resource classes and traits are shown by their present names. The name of a class or
//! trait that was deleted since the change is `null`; a class is then identified by its number.

use placewright_http::json::Writer;
use placewright_placement::group::{Distance, Level, Relation, Rule, RuleScope};
use placewright_placement::{Change, ClassId, Inventory, State, Timestamp, TraitId};
use uuid::Uuid;

/// Writes one change as a JSON object.
pub(super) fn write(writer: &mut Writer, change: &Change, state: &State) {
    writer.open_object();
    writer.key("type");
    match change {
        Change::ClassCreated { id, name, at } => {
            write_named(writer, "class_created", id.0, name, *at);
        }
        Change::ClassRenamed { id, name, at } => {
            write_named(writer, "class_renamed", id.0, name, *at);
        }
        Change::ClassRemoved { id } => write_type_and_id(writer, "class_removed", id.0),
        Change::TraitCreated { id, name, at } => {
            write_named(writer, "trait_created", id.0, name, *at);
        }
        Change::TraitRemoved { id } => write_type_and_id(writer, "trait_removed", id.0),
        Change::ProviderCreated { .. }
        | Change::ProviderUpdated { .. }
        | Change::ProviderRemoved { .. }
        | Change::GenerationSet { .. }
        | Change::TraitsSet { .. }
        | Change::AggregatesSet { .. } => write_provider_change(writer, change, state),
        Change::InventorySet { .. } | Change::InventoryRemoved { .. } => {
            write_inventory_change(writer, change, state);
        }
        Change::ConsumerSet { .. }
        | Change::ConsumerRemoved { .. }
        | Change::ConsumerPlaced { .. } => write_consumer_change(writer, change, state),
        Change::GroupSet { group, rules } => {
            writer.text("group_set");
            write_uuid(writer, "group", *group);
            writer.key("rules");
            writer.open_array();
            rules.iter().for_each(|rule| write_rule(writer, rule));
            writer.close_array();
        }
        Change::GroupRemoved { group } => {
            writer.text("group_removed");
            write_uuid(writer, "group", *group);
        }
        Change::LevelsSet { levels } => {
            writer.text("levels_set");
            writer.key("levels");
            writer.open_array();
            levels.iter().for_each(|level| write_level(writer, level));
            writer.close_array();
        }
        Change::DistancesSet { distances } => {
            writer.text("distances_set");
            writer.key("distances");
            writer.open_array();
            distances
                .iter()
                .for_each(|distance| write_distance(writer, distance));
            writer.close_array();
        }
    }
    writer.close_object();
}

fn write_provider_change(writer: &mut Writer, change: &Change, state: &State) {
    match change {
        Change::ProviderCreated {
            uuid,
            name,
            parent,
            at,
        } => {
            write_provider(writer, "provider_created", *uuid, name, *parent, *at);
        }
        Change::ProviderUpdated {
            uuid,
            name,
            parent,
            at,
        } => {
            write_provider(writer, "provider_updated", *uuid, name, *parent, *at);
        }
        Change::ProviderRemoved { uuid: removed } => {
            writer.text("provider_removed");
            write_uuid(writer, "uuid", *removed);
        }
        Change::GenerationSet {
            provider,
            generation,
            at,
        } => {
            writer.text("generation_set");
            write_uuid(writer, "resource_provider", *provider);
            writer.key("generation");
            writer.integer(*generation);
            write_time(writer, *at);
        }
        Change::TraitsSet { provider, traits } => {
            writer.text("traits_set");
            write_uuid(writer, "resource_provider", *provider);
            writer.key("traits");
            writer.open_array();
            traits
                .iter()
                .for_each(|id| write_trait_name(writer, state, *id));
            writer.close_array();
        }
        Change::AggregatesSet {
            provider,
            aggregates,
        } => {
            writer.text("aggregates_set");
            write_uuid(writer, "resource_provider", *provider);
            writer.key("aggregates");
            writer.open_array();
            aggregates
                .iter()
                .for_each(|aggregate| writer.text(aggregate));
            writer.close_array();
        }
        // The caller passes none of the other changes.
        _ => writer.raw(b"null"),
    }
}

fn write_inventory_change(writer: &mut Writer, change: &Change, state: &State) {
    match change {
        Change::InventorySet {
            provider,
            class: id,
            inventory: new_inventory,
            at,
        } => {
            writer.text("inventory_set");
            write_uuid(writer, "resource_provider", *provider);
            write_class(writer, state, *id);
            write_inventory(writer, new_inventory);
            write_time(writer, *at);
        }
        Change::InventoryRemoved {
            provider,
            class: id,
        } => {
            writer.text("inventory_removed");
            write_uuid(writer, "resource_provider", *provider);
            write_class(writer, state, *id);
        }
        // The caller passes none of the other changes.
        _ => writer.raw(b"null"),
    }
}

fn write_consumer_change(writer: &mut Writer, change: &Change, state: &State) {
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
            for allocation in allocations {
                writer.open_object();
                write_uuid(writer, "resource_provider", allocation.provider);
                write_class(writer, state, allocation.class);
                writer.key("amount");
                writer.integer(allocation.amount);
                writer.close_object();
            }
            writer.close_array();
            write_time(writer, *at);
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
            write_optional_uuid(writer, "host", *host);
            write_optional_uuid(writer, "group", *group);
        }
        // The caller passes none of the other changes.
        _ => writer.raw(b"null"),
    }
}

fn write_named(writer: &mut Writer, change_type: &str, id: u16, name: &str, time: Timestamp) {
    write_type_and_id(writer, change_type, id);
    writer.key("name");
    writer.text(name);
    write_time(writer, time);
}

fn write_type_and_id(writer: &mut Writer, change_type: &str, id: u16) {
    writer.text(change_type);
    writer.key("id");
    writer.integer(id);
}

fn write_provider(
    writer: &mut Writer,
    change_type: &str,
    id: Uuid,
    name: &str,
    parent: Option<Uuid>,
    time: Timestamp,
) {
    writer.text(change_type);
    write_uuid(writer, "uuid", id);
    writer.key("name");
    writer.text(name);
    write_optional_uuid(writer, "parent_provider_uuid", parent);
    write_time(writer, time);
}

fn write_uuid(writer: &mut Writer, key: &str, uuid: Uuid) {
    writer.key(key);
    writer.text(uuid.hyphenated().encode_lower(&mut [0; 36]));
}

fn write_optional_uuid(writer: &mut Writer, key: &str, value: Option<Uuid>) {
    match value {
        Some(value) => write_uuid(writer, key, value),
        None => {
            writer.key(key);
            writer.raw(b"null");
        }
    }
}

fn write_class(writer: &mut Writer, state: &State, id: ClassId) {
    let name = state.class_name(id);
    writer.key("resource_class");
    writer.optional_text((!name.is_empty()).then_some(name));
    writer.key("resource_class_id");
    writer.integer(id.0);
}

fn write_trait_name(writer: &mut Writer, state: &State, id: TraitId) {
    let name = state.trait_name(id);
    writer.optional_text((!name.is_empty()).then_some(name));
}

fn write_inventory(writer: &mut Writer, inventory: &Inventory) {
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

fn write_time(writer: &mut Writer, time: Timestamp) {
    writer.key("at");
    writer.raw(
        format!(
            "{}.{:06}",
            time.0.div_euclid(1_000_000),
            time.0.rem_euclid(1_000_000)
        )
        .as_bytes(),
    );
}

fn write_rule(writer: &mut Writer, rule: &Rule) {
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
        Relation::FewerThan(limit) => {
            writer.key("relation");
            writer.text("fewer_than");
            writer.key("limit");
            writer.integer(limit);
        }
        Relation::Spread(max_skew) => {
            writer.key("relation");
            writer.text("spread");
            writer.key("max_skew");
            writer.integer(max_skew);
        }
    }
    writer.close_object();
}

fn write_level(writer: &mut Writer, level: &Level) {
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
    if !level.names.is_empty() {
        writer.key("names");
        writer.open_object();
        for (aggregate, name) in &level.names {
            writer.key(aggregate);
            writer.text(name);
        }
        writer.close_object();
    }
    writer.close_object();
}

fn write_distance(writer: &mut Writer, distance: &Distance) {
    writer.open_object();
    writer.key("from");
    writer.text(&distance.from);
    writer.key("to");
    writer.text(&distance.to);
    writer.key("distance");
    writer.integer(distance.distance);
    writer.close_object();
}
