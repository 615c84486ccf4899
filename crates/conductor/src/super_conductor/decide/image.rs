//! Images: which changes of their rows are refused.

use uuid::Uuid;

use super::{DecisionContext, Outcome, Refusal, not_found, wrong_state};
use crate::super_conductor::image::Image;
use crate::super_conductor::state::Change;

impl DecisionContext<'_> {
    /// Creates, replaces or removes the row of an image.
    pub(super) fn set_image(
        &mut self,
        id: Uuid,
        image: Option<&Image>,
    ) -> Result<Outcome, Refusal> {
        let known = self.state.images.get(&id);
        match (known, image) {
            (None, None) => return Err(not_found("image", &id)),
            (Some(known), None) if known.is_protected => {
                return Err(wrong_state("image", &id, "protected"));
            }
            // The bytes of an image never change, so that whoever has read them or their hashes may rely on them.
            (Some(known), Some(image))
                if known.content.is_some() && known.content != image.content =>
            {
                return Err(wrong_state("image", &id, "active"));
            }
            _ => {}
        }
        self.record(Change::Image(id, image.cloned().map(Box::new)));
        Ok(Outcome::Done)
    }
}
