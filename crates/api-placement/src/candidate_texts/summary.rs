//! The summary of one provider in a response.

use placewright_http::json::Writer;
use placewright_placement::{ClassId, ProviderId, State};

use super::names::write_uuid;
use crate::microversion::Microversion;

/// Writes a provider's summary. If `requested` is given, which it is before microversion 1.27, only the classes in it
/// are shown.
pub(crate) fn write_summary(
    writer: &mut Writer,
    state: &State,
    id: ProviderId,
    requested: Option<&[ClassId]>,
    version: Microversion,
) {
    let Some(provider) = state.provider(id) else {
        return;
    };
    writer.plain_key(provider.uuid.hyphenated().encode_lower(&mut [0; 36]));
    writer.open_object();
    writer.key("resources");
    writer.open_object();
    for row in &provider.inventories {
        if requested.is_some_and(|requested| !requested.contains(&row.class)) {
            continue;
        }
        writer.plain_key(state.class_name(row.class));
        writer.open_object();
        writer.plain_key("capacity");
        writer.integer(row.capacity);
        writer.plain_key("used");
        writer.integer(row.used);
        writer.close_object();
    }
    writer.close_object();
    if version.since(17) {
        writer.key("traits");
        writer.open_array();
        for id in &provider.traits {
            writer.plain_text(state.trait_name(*id));
        }
        writer.close_array();
    }
    if version.since(29) {
        writer.key("parent_provider_uuid");
        match provider.parent {
            Some(parent) => write_uuid(writer, state, parent),
            None => writer.raw(b"null"),
        }
        writer.key("root_provider_uuid");
        write_uuid(writer, state, provider.root);
    }
    writer.close_object();
}
