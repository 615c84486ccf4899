//! Random values for the tests in `laws.rs`: the parts of which other values consist.

use std::fmt::Debug;

use placewright_conductor::quota::{QuotaScope, QuotaSet, Resource, Usage, UsageAmounts};
use placewright_conductor::super_conductor::{LeftCell, Reschedule};
use placewright_conductor::{
    Amounts, Attempt, Candidate, CellId, Decision, FallenHost, Fault, GroupMapping, HostId,
    MigrationId, RankingRecord,
};
use placewright_placement::Timestamp;
use placewright_records::ranking::KNOWN_WEIGHERS;
use placewright_types::ranking::{RankedHost, RankedWeigher, Ranking};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use uuid::Uuid;

/// Which fields get random values. The positional layout, and with it version 2 of messages, does not have
/// the fields that were added to rows later.
#[derive(Clone, Copy)]
pub(crate) enum Draw {
    /// Fields that were added later have their default.
    OfEveryLayout,
    /// Fields that were added later have random values too.
    WithAdded,
}

impl Draw {
    /// A value for a field that was added later.
    pub(crate) fn added<T>(self, values: impl Strategy<Value = T> + 'static) -> BoxedStrategy<T>
    where
        T: Clone + Debug + Default + 'static,
    {
        match self {
            Self::OfEveryLayout => Just(T::default()).boxed(),
            Self::WithAdded => prop_oneof![Just(T::default()), values].boxed(),
        }
    }
}

/// Short texts, and texts around the length of 128 bytes, from which on a length takes two bytes.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zé]{0,12}", "[a-z]{120,140}"]
}

pub(crate) fn uuid() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

pub(crate) fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![any::<i64>(), -2i64..2].prop_map(Timestamp)
}

pub(crate) fn amounts() -> impl Strategy<Value = Vec<Amounts>> {
    let of_provider = (uuid(), vec((text(), any::<i64>()), 0..3));
    let of_provider = of_provider.prop_map(|(provider, resources)| Amounts {
        provider,
        resources,
    });
    vec(of_provider, 0..3)
}

pub(crate) fn mappings() -> impl Strategy<Value = Vec<GroupMapping>> {
    let group = (text(), amounts());
    vec(
        group.prop_map(|(suffix, providers)| GroupMapping { suffix, providers }),
        0..3,
    )
}

pub(crate) fn candidate(draw: Draw) -> impl Strategy<Value = Candidate> {
    let parts = (uuid(), of(text()), amounts(), draw.added(mappings()));
    parts.prop_map(|(host, zone, amounts, mappings)| Candidate {
        host: HostId(host),
        zone,
        amounts,
        mappings,
    })
}

pub(crate) fn fault() -> impl Strategy<Value = Fault> {
    (any::<u16>(), text(), text(), time()).prop_map(|(code, message, details, at)| Fault {
        code,
        message,
        details,
        at,
    })
}

pub(crate) fn usage() -> impl Strategy<Value = Usage> {
    let classes = vec((text(), any::<u32>()), 0..3);
    let amounts = (any::<u32>(), any::<u32>(), classes);
    of(amounts).prop_map(|amounts| match amounts {
        None => Usage::default(),
        Some((cores, ram_mb, classes)) => Usage::new(UsageAmounts {
            cores,
            ram_mb,
            classes,
        }),
    })
}

pub(crate) fn decision() -> impl Strategy<Value = Decision> {
    let fallen = (uuid(), text()).prop_map(|(host, reason)| FallenHost {
        host: HostId(host),
        reason,
    });
    let migration = of(uuid().prop_map(MigrationId));
    let counts = any::<(u32, u32)>();
    let ranking = vec(any::<u8>(), 0..200);
    (
        uuid(),
        time(),
        migration,
        ranking,
        vec(fallen, 0..3),
        counts,
    )
        .prop_map(
            |(host, at, migration, ranking, fallen, (fallen_count, alternate_count))| Decision {
                host: HostId(host),
                at,
                migration,
                ranking: RankingRecord(ranking.into()),
                fallen,
                fallen_count,
                alternate_count,
            },
        )
}

/// Whole numbers and others, of any size.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<i32>().prop_map(f64::from),
        prop::num::f64::NORMAL,
        prop::num::f64::ZERO,
    ]
}

pub(crate) fn ranking() -> impl Strategy<Value = Ranking> {
    let names = prop_oneof![
        prop::sample::select(&KNOWN_WEIGHERS[..]).prop_map(str::to_owned),
        text()
    ];
    let weigher = (names, value(), value(), value());
    let weigher = weigher.prop_map(|(name, multiplier, low, high)| RankedWeigher {
        name,
        multiplier,
        low,
        high,
    });
    let host = (uuid(), vec(value(), 0..4), vec(value(), 0..4));
    let host = host.prop_map(|(host, raw_values, multipliers)| RankedHost {
        host,
        raw_values,
        multipliers,
    });
    (
        any::<(u64, [u32; 6], Option<u32>, bool)>(),
        vec(uuid(), 0..3),
        vec(weigher, 0..4),
        vec(host, 0..4),
        vec(uuid(), 0..3),
        text(),
    )
        .prop_map(
            |(
                (sequence, counts, feasible, is_from_fallback),
                avoided_cells,
                weighers,
                hosts,
                lost_hosts,
                last_refusal,
            )| {
                let [round, siblings, known_hosts, ranked, named, excluded] = counts;
                Ranking {
                    sequence,
                    round,
                    siblings,
                    known_hosts,
                    feasible,
                    ranked,
                    named,
                    excluded,
                    avoided_cells,
                    is_from_fallback,
                    weighers,
                    hosts,
                    lost_hosts,
                    last_refusal,
                }
            },
        )
}

/// Whether an instance may be built in another cell, or was taken from one.
pub(crate) fn reschedule() -> impl Strategy<Value = Reschedule> {
    let attempt = (uuid(), any::<u32>(), time(), of(text()));
    let attempt = attempt.prop_map(|(host, attempt, at, failure)| Attempt {
        host: HostId(host),
        attempt,
        started_at: at,
        finished_at: at,
        failure,
    });
    let left = (uuid(), time(), vec(attempt, 0..3), any::<u64>());
    let left = left.prop_map(|(cell, at, attempts, first_number)| LeftCell {
        cell: CellId(cell),
        at,
        attempts,
        first_number,
    });
    prop_oneof![
        Just(Reschedule::Never),
        Just(Reschedule::Allowed),
        left.prop_map(|left| Reschedule::Done(Box::new(left))),
    ]
}

/// Limits of a scope.
pub(crate) fn quota() -> impl Strategy<Value = (QuotaScope, QuotaSet)> {
    let scope = prop_oneof![
        Just(QuotaScope::Configured),
        text().prop_map(QuotaScope::Class),
        text().prop_map(QuotaScope::Project),
        Just(QuotaScope::Registered),
        text().prop_map(QuotaScope::Unified),
    ];
    let resource = prop_oneof![
        Just(Resource::Ram),
        Just(Resource::ServerGroupMembers),
        "[A-Z0-9_]{1,9}".prop_map(|class| Resource::Class(class.into())),
    ];
    let limits = btree_map(resource, any::<i64>(), 0..3);
    (scope, limits.prop_map(|limits| QuotaSet { limits }))
}
