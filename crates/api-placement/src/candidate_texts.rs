//! Responses of `GET /allocation_candidates` as JSON, and the caches of them.

mod answer;
mod encode;
mod kept;
mod summary_texts;

pub(crate) use answer::{requested_classes, write, write_summary};
pub(crate) use encode::Encoder;
pub(crate) use kept::Kept;
