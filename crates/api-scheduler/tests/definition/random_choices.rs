//! Random choices and the UUIDs of random fleets.

use placewright_testing::random::Rng;
use uuid::Uuid;

/// A source of random choices.
pub(crate) struct RandomChoices(pub(crate) Rng);

impl RandomChoices {
    /// A number from 0 on, less than `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.number() % end
    }

    /// Returns true once in `times` calls on average.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::try_from(self.below(values.len() as u64)).unwrap()]
    }
}

/// The UUID of an object. Hosts, cells, aggregates and so on have different `kind`s.
pub(crate) fn uuid(kind: u32, number: u64) -> Uuid {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
        .parse()
        .unwrap()
}

pub(crate) fn host_uuid(number: u64) -> Uuid {
    uuid(0x40, number)
}

pub(crate) fn cell_uuid(number: u64) -> Uuid {
    uuid(0xc0, number)
}

pub(crate) fn zone_uuid(number: u64) -> Uuid {
    uuid(0xa0, number)
}
