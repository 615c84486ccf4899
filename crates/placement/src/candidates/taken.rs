//! Amounts that further consumers take from the providers of a tree, beside the state.

use smallvec::SmallVec;

use crate::ids::{ClassId, ProviderId};
use crate::rows::Allocation;
use crate::state::State;

/// Amounts that are taken from providers in addition to what the state says. With it a search answers what it would
/// answer after claims, without a copy of the state in which they are made.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// In rising order of provider and class, each pair once.
    amounts: SmallVec<[(ProviderId, ClassId, i64); 8]>,
}

impl Taken {
    /// Whether nothing is taken.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.amounts.is_empty()
    }

    /// Gives everything back.
    pub fn clear(&mut self) {
        self.amounts.clear();
    }

    /// Takes the amounts of a number of consumers with these allocations.
    pub(super) fn take(&mut self, allocations: &[Allocation], consumers: i64) {
        for allocation in allocations {
            let amount = i64::from(allocation.amount).saturating_mul(consumers);
            let key = (allocation.provider, allocation.class);
            match self.find(key) {
                Ok(index) => {
                    let taken = &mut self.amounts[index].2;
                    *taken = taken.saturating_add(amount);
                }
                Err(index) => self.amounts.insert(index, (key.0, key.1, amount)),
            }
        }
    }

    /// The amount taken of a class of a provider.
    #[inline]
    pub(crate) fn of(&self, provider: ProviderId, class: ClassId) -> i64 {
        let found = self.find((provider, class));
        found.map_or(0, |index| self.amounts[index].2)
    }

    #[inline]
    fn find(&self, key: (ProviderId, ClassId)) -> Result<usize, usize> {
        self.amounts
            .binary_search_by_key(&key, |(provider, class, _)| (*provider, *class))
    }

    /// What is left of the capacity of a class of a provider; negative without an inventory.
    pub(crate) fn free(&self, state: &State, provider: ProviderId, class: ClassId) -> i64 {
        let row = state
            .provider(provider)
            .and_then(|provider| provider.inventory(class));
        row.map_or(-1, |row| {
            let free = row.capacity.saturating_sub(row.used);
            free.saturating_sub(self.of(provider, class))
        })
    }

    /// Whether enough is left of each class of a provider. The caller knows that there is enough by the state alone, so
    /// classes of which nothing is taken are not looked at again.
    #[inline]
    pub(crate) fn leaves(
        &self,
        state: &State,
        provider: ProviderId,
        resources: &[(ClassId, i64)],
    ) -> bool {
        self.is_empty()
            || resources.iter().all(|(class, amount)| {
                self.of(provider, *class) == 0 || self.free(state, provider, *class) >= *amount
            })
    }
}
