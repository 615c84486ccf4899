//! Responses of `GET /allocation_candidates` as JSON, and the caches of them.

mod answer;
mod caches;
mod encode;
mod summary_cache;

pub(crate) use answer::{requested_classes, write, write_summary};
pub(crate) use caches::CandidateCaches;
pub(crate) use encode::Encoder;
