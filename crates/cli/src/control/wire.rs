//! Options as each crate wants them.

use std::time::Duration;

use placewright_journal::SqliteOptions;
use placewright_server::{CandidateOptions, Cors, ServerOptions};

use crate::options::{CandidateStrategy, Number, Options};

/// What the HTTP service wants.
pub(super) fn server(options: &Options) -> ServerOptions {
    let placement = &options.placement;
    let cors = &options.cors;
    ServerOptions {
        connections_max: placement.connections_max.count(),
        body_bytes_max: placement.body_bytes_max.count(),
        head_bytes_max: placement.head_bytes_max.count(),
        head_timeout: milliseconds(placement.head_timeout_ms),
        body_timeout: milliseconds(placement.body_timeout_ms),
        write_timeout: milliseconds(placement.write_timeout_ms),
        drain_timeout: milliseconds(placement.drain_timeout_ms),
        cors: (!cors.allowed_origins.is_empty()).then(|| Cors {
            allowed_origins: cors.allowed_origins.clone(),
            allow_credentials: cors.allow_credentials,
            expose_headers: cors.expose_headers.clone(),
            max_age_s: u32::try_from(cors.max_age_s.get()).unwrap_or(u32::MAX),
            allow_methods: cors.allow_methods.clone(),
            allow_headers: cors.allow_headers.clone(),
        }),
        incomplete_consumer_project_id: placement.incomplete_consumer_project_id.clone(),
        incomplete_consumer_user_id: placement.incomplete_consumer_user_id.clone(),
        candidates: CandidateOptions {
            randomize: placement.randomize_allocation_candidates,
            candidates_max: limit(placement.max_allocation_candidates),
            breadth_first: match placement.allocation_candidates_generation_strategy {
                CandidateStrategy::DepthFirst => false,
                CandidateStrategy::BreadthFirst => true,
            },
        },
    }
}

/// What the journal wants.
pub(super) fn journal(options: &Options) -> SqliteOptions {
    SqliteOptions {
        file_bytes_max: limit(options.store.file_bytes_max),
    }
}

/// What the engine wants.
pub(super) fn engine(options: &Options) -> placewright_engine::Options {
    let store = &options.store;
    placewright_engine::Options {
        queue_commands_max: store.queue_commands_max.count(),
        batch_commands_max: store.batch_commands_max.count(),
        recent_bytes: store.recent_bytes.count(),
        snapshot_entries: whole(store.snapshot_entries),
        snapshot_bytes: whole(store.snapshot_bytes),
        snapshots_kept: store.snapshots_kept.count(),
        retain_entries: whole(store.retain_entries),
        ..placewright_engine::Options::default()
    }
}

/// A number that stands for no limit when it is negative.
fn limit<const MIN: i64, const MAX: i64>(number: Number<MIN, MAX>) -> Option<u64> {
    u64::try_from(number.get()).ok()
}

fn whole<const MIN: i64, const MAX: i64>(number: Number<MIN, MAX>) -> u64 {
    u64::try_from(number.get()).unwrap_or(0)
}

fn milliseconds<const MIN: i64, const MAX: i64>(number: Number<MIN, MAX>) -> Duration {
    Duration::from_millis(whole(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OPTIONS;

    #[test]
    fn the_table_has_the_defaults_of_the_crates() {
        let texts: Vec<&str> = OPTIONS.iter().map(|spec| spec.default).collect();
        let options = Options::from_texts(&texts).unwrap();
        let same = |ours: &dyn std::fmt::Debug, theirs: &dyn std::fmt::Debug| {
            assert_eq!(format!("{ours:#?}"), format!("{theirs:#?}"));
        };
        same(&server(&options), &ServerOptions::default());
        same(&journal(&options), &SqliteOptions::default());
        same(&engine(&options), &placewright_engine::Options::default());
    }
}
