//! The UUIDs of providers and the names of resource classes in a response: from the state, or copied from it for use
//! without its lock.

use placewright_http::json::Writer;
use placewright_placement::{ClassId, ProviderId, State};
use uuid::Uuid;

/// Access to the UUIDs of providers and the names of resource classes: those of the state, or copied from it for use
/// without its lock.
pub(crate) trait Names {
    /// The UUID of a provider; none if there is no such provider.
    fn uuid(&self, provider: ProviderId) -> Option<Uuid>;
    /// The name of a resource class.
    fn class(&self, class: ClassId) -> &str;
}

impl Names for State {
    fn uuid(&self, provider: ProviderId) -> Option<Uuid> {
        Some(self.provider(provider)?.uuid)
    }

    fn class(&self, class: ClassId) -> &str {
        self.class_name(class)
    }
}

/// Writes the UUID of a provider as a text.
pub(super) fn write_uuid(writer: &mut Writer, names: &impl Names, provider: ProviderId) {
    if let Some(uuid) = names.uuid(provider) {
        writer.plain_text(uuid.hyphenated().encode_lower(&mut [0; 36]));
    }
}
