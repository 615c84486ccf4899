//! Responses of `GET /allocation_candidates` as JSON, and the caches of these responses.

mod answer;
mod caches;
mod encode;
mod names;
mod summary;
mod summary_cache;

pub(crate) use answer::{requested_classes, write};
pub(crate) use caches::{CacheKey, CandidateCaches};
pub(crate) use encode::Encoder;
pub(crate) use summary::write_summary;
