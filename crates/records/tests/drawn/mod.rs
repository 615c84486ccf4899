//! Random values for the tests in `laws.rs`: the parts of which other values consist.

use std::fmt::Debug;

use placewright_conductor::quota::{Usage, UsageAmounts};
use placewright_conductor::{Amounts, Candidate, Fault, HostId};
use placewright_placement::Timestamp;
use proptest::collection::vec;
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

pub(crate) fn candidate() -> impl Strategy<Value = Candidate> {
    (uuid(), of(text()), amounts()).prop_map(|(host, zone, amounts)| Candidate {
        host: HostId(host),
        zone,
        amounts,
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
